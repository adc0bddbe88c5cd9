//! Fills the store in the kernel with what is asked for often, and takes out what changed: a thread of its own, so that the router does not
//! wait for it.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use paceline_icn::name::NameKind;
use paceline_icn::{BucketMemory, Name, UNIT, UnitVerdict, Units, Verifier};
use paceline_linux::clock::monotonic;
use paceline_linux::interface::Interfaces;
use paceline_linux::link::link;
use paceline_store::{KernelStore, KernelStoreError, KernelStoreSettings, PART_UNITS};

use super::popular::{Tell, Wanted};
use super::{Around, KernelStoreConfig, KernelStoreFigures, ServerError};
use crate::resolver::since_1970;
use crate::store::{StoreError, Stored};

/// Between two looks at the objects' files.
const LOOK: Duration = KernelStoreConfig::LOOK;

/// Parts that are filled in between two looks at the objects' files at most (our choice: a quarter of a processor, and 23 MB a second).
const FILLED: u32 = 64;

/// The store in the kernel before anything is in it.
pub(super) struct Filler {
    kernel: KernelStore,
    interface: String,
}

impl Filler {
    /// Whether it can be in the kernel here.
    pub(super) fn try_here() -> Result<(), KernelStoreError> {
        KernelStore::try_here()
    }

    /// Puts the store into the kernel and at its interface.
    pub(super) fn open(config: &KernelStoreConfig) -> Result<Self, KernelStoreError> {
        let mut kernel = KernelStore::load(config.bytes)?;
        kernel.attach(&config.interface)?;
        Ok(Self { kernel, interface: config.interface.clone() })
    }

    /// Memory for the router's limits.
    pub(super) fn buckets(&self) -> Arc<dyn BucketMemory> {
        self.kernel.buckets()
    }

    /// Where threads say what is asked for, and what fills it in until the router stops.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn begin(self, around: Around) -> Result<(Tell, impl FnOnce() + Send + 'static), KernelStoreError> {
        let (tell, wanted) = Tell::new(u64::from(PART_UNITS));
        let Self { kernel, interface } = self;
        let (held, damaged) = Default::default();
        let mut filling = Filling { kernel, interface, around, held, damaged, looks: 0 };
        filling.refresh()?;
        Ok((tell, move || filling.run(&wanted)))
    }
}

/// What says that a file is another one, or was changed.
type Identity = (u64, u64, u64, (i64, i64), (i64, i64));

fn identity(path: &Path) -> Option<Identity> {
    let found = path.symlink_metadata().ok()?;
    let changed = (found.ctime(), found.ctime_nsec());
    Some((found.dev(), found.ino(), found.len(), (found.mtime(), found.mtime_nsec()), changed))
}

struct Filling {
    kernel: KernelStore,
    interface: String,
    around: Around,
    /// The files of what is in the kernel.
    held: BTreeMap<Name, Identity>,
    /// Files that are not what their names say.
    damaged: BTreeMap<Name, Identity>,
    looks: u64,
}

impl Filling {
    fn run(mut self, wanted: &Receiver<Wanted>) {
        let mut due = Instant::now();
        // Parts that may be filled in until the next look.
        let mut left = FILLED;
        while !self.around.shared.stopped() {
            let now = Instant::now();
            if now >= due {
                (due, left) = (now + LOOK, FILLED);
                let looked = self.look().and_then(|()| self.refresh());
                self.report(looked.err().map(ServerError::from));
                self.publish();
            }
            match wanted.recv_timeout((due - now).min(LOOK)) {
                Ok((name, part)) if left > 0 && !self.kernel.has(&name, part) => {
                    let filled = self.fill(&name, part);
                    left = if matches!(filled, Ok(false)) { 0 } else { left - 1 };
                    self.report(filled.err());
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                // All threads have ended, as this one is about to.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK / 4),
            }
        }
        self.publish();
    }

    fn report(&self, trouble: Option<ServerError>) {
        if let Some(trouble) = trouble {
            self.around.shared.set_trouble(trouble.to_string());
        }
    }

    /// Takes out what is not in the store any more as it was.
    fn look(&mut self) -> Result<(), KernelStoreError> {
        let Self { kernel, around, held, damaged, .. } = self;
        let stays = |name: &Name, was: &Identity| identity(&around.store.path_of(name)) == Some(*was);
        let gone: Vec<Name> = held.iter().filter(|(name, was)| !stays(name, was)).map(|(name, _)| *name).collect();
        for name in &gone {
            kernel.remove(name)?;
            held.remove(name);
        }
        held.retain(|name, _| kernel.has_any(name));
        damaged.retain(|name, was| stays(name, was));
        self.looks += 1;
        Ok(())
    }

    /// Keys of tokens, clocks and addresses change.
    fn refresh(&mut self) -> Result<(), KernelStoreError> {
        let Around { listen, clock, secrets, limits, .. } = &mut self.around;
        let unix = since_1970();
        let monotonic = Duration::from_nanos(monotonic().as_nanos());
        self.kernel.set(&KernelStoreSettings {
            port: listen.port(),
            // An interface that is gone has none.
            link: link(&self.interface).ok().flatten().and_then(|found| found.addr()).unwrap_or_default(),
            keys: secrets.keys(unix.as_secs()),
            charges: limits.of_one_unit(),
            unix_offset: unix.saturating_sub(monotonic),
            origin: monotonic.saturating_sub(Duration::from_nanos(clock.now().as_nanos())),
        })?;
        let mut all: Vec<IpAddr> = if listen.ip().is_unspecified() {
            let found = Interfaces::open().and_then(|all| all.addresses(Some(&self.interface))).unwrap_or_default();
            found.into_iter().map(|(address, _)| address).collect()
        } else {
            vec![listen.ip()]
        };
        // What the kernel takes from no link is not answered there.
        all.retain(|address| (address.is_ipv4() || listen.is_ipv6()) && !address.to_canonical().is_loopback());
        self.kernel.answer_for(&all)
    }

    /// Puts a part of an object into the kernel, each unit of it verified. False where there is no room now.
    fn fill(&mut self, name: &Name, part: u64) -> Result<bool, ServerError> {
        let path = self.around.store.path_of(name);
        let was = identity(&path);
        let found = self.around.store.object(name)?;
        let Some((stored, was)) = found.filter(|_| name.kind() == NameKind::Object).zip(was) else { return Ok(true) };
        let Some(units) = whole_units(&stored, part).filter(|_| self.damaged.get(name) != Some(&was)) else {
            return Ok(true);
        };
        let checked = verified(&stored, units).inspect_err(|_| _ = self.damaged.insert(*name, was));
        let Some(bytes) = checked? else { return Ok(true) };
        // Another file under that name has been read, or will be looked for.
        if identity(&path) != Some(was) || self.held.get(name).is_some_and(|held| *held != was) {
            return Ok(true);
        }
        self.held.insert(*name, was);
        Ok(self.kernel.insert(name, part, stored.stored_units(), &bytes)?)
    }

    fn publish(&self) {
        let Ok(counts) = self.kernel.counts() else { return };
        let (used_bytes, bytes) = self.kernel.memory();
        self.around.shared.set_kernel(KernelStoreFigures {
            answered: counts.answered,
            busy: counts.busy,
            missed: counts.missed,
            bad_tokens: counts.bad_tokens,
            dropped: counts.dropped,
            renewals: counts.renewals,
            paced: counts.paced,
            no_room: counts.no_room,
            used_bytes,
            bytes,
            evicted: self.kernel.evicted(),
            looks: self.looks,
        });
    }
}

/// The units of a part that have full length, if there are any.
fn whole_units(stored: &Stored, part: u64) -> Option<Units> {
    let first = part.checked_mul(u64::from(PART_UNITS))?;
    let all = stored.stored_units();
    let whole = all - u64::from(stored.bytes_of(all - 1) < UNIT);
    let count = whole.checked_sub(first)?.min(u64::from(PART_UNITS)) as u32;
    (count > 0).then_some(Units { first, count })
}

/// The bytes of these units, each of which is what the name says. `None` where the file changes meanwhile.
fn verified(stored: &Stored, units: Units) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = vec![0; units.count as usize * UNIT];
    if stored.read_run(units, &mut [IoSliceMut::new(&mut bytes)]).is_err() {
        return Ok(None);
    }
    let mut verifier = Verifier::new(stored.name());
    let mut buffer = [0; UNIT];
    // Those above them are checked first; of these, those that are among them by the same bytes.
    let mut todo: Vec<u64> = units.iter().rev().collect();
    while let Some(unit) = todo.last().copied() {
        let place = unit.checked_sub(units.first).and_then(|place| usize::try_from(place).ok());
        let verdict = match place.and_then(|place| bytes.chunks_exact(UNIT).nth(place)) {
            Some(here) => verifier.check(unit, here),
            None => {
                let Ok(length) = stored.read(unit, &mut buffer) else { return Ok(None) };
                verifier.check(unit, &buffer[..length])
            }
        };
        match (verdict, verifier.missing_for(unit)) {
            (UnitVerdict::Genuine | UnitVerdict::Known, _) => _ = todo.pop(),
            (UnitVerdict::Early, Some(missing)) => todo.push(missing),
            _ => {
                let (path, units) = (stored.path().to_owned(), stored.stored_units());
                return Err(StoreError::Damaged { path, unit, units, why: "is not what the name says" });
            }
        }
    }
    Ok(Some(bytes))
}
