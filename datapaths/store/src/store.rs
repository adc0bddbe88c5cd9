//! The store: what is in it, and its place at an interface.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, ProgramInput};
use paceline_icn::limiter::BUCKET_WORDS;
use paceline_icn::{BucketMemory, Name, UNIT};
use paceline_kernel::Mapped;
use paceline_kernel::load::missing;
use paceline_linux::clock::monotonic;
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::Namespace;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::load::{attach, load, map, refused};
use crate::settings::nanos;
use crate::slabs::{Key, Slabs, key};
use crate::{KernelStoreCounts, KernelStoreError, KernelStoreSettings};

/// Units of a part, which has a slab of its own: 64, 90 kB (`SLAB` of the program. Our choice: a small object wastes no more than that, and an
/// object of 1 GB has 12,000 of them).
pub const PART_UNITS: u32 = 64;

/// Bytes before a unit in its slab: its sum.
const UNIT_HEAD: usize = 8;

/// Bytes of a slab.
const SLAB_BYTES: u64 = PART_UNITS as u64 * (UNIT_HEAD + UNIT) as u64;

/// What was asked for within this time does not make room (our choice: what is asked for at the same time as more than there is room for
/// would take turns otherwise, and cost more than it saves).
const SETTLED: Duration = Duration::from_secs(1);

/// Of the slabs one in so many makes room at once, since each time takes some 10 ms (our choice).
const BATCH: u32 = 16;

/// Linux include/uapi/linux/bpf.h.
const XDP_DROP: u32 = 1;
const XDP_TX: u32 = 3;

/// Units in the kernel's memory, and the program that answers with them. Dropping it takes both away, as the end of the process does,
/// however it ends.
pub struct KernelStore {
    /// Gone before the rest.
    link: Option<Link>,
    object: Object,
    units: MapHandle,
    parts: MapHandle,
    addresses: MapHandle,
    settings: MapHandle,
    counts: MapHandle,
    buckets: Arc<Buckets>,
    slabs: Slabs,
    evicted: u64,
    /// See [`KernelStoreSettings::origin`], in nanoseconds.
    origin: u64,
}

/// What becomes of a frame ([`KernelStore::judge`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameVerdict {
    /// The kernel gets it, and the socket.
    Passed,
    /// It ends here.
    Dropped,
    /// This frame leaves.
    Answered(Vec<u8>),
}

/// The router's table of limits, in memory that the program has too.
struct Buckets(Mapped);

impl BucketMemory for Buckets {
    fn word(&self, place: usize) -> &AtomicU64 {
        self.0.wide(place * size_of::<u64>())
    }
}

impl fmt::Debug for KernelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelStore").field("slabs", &self.slabs).finish_non_exhaustive()
    }
}

impl KernelStore {
    /// A store of at most so many bytes, which the kernel keeps for it from now on. It answers nothing before it is at an interface, has
    /// settings and addresses, and units.
    ///
    /// # Errors
    /// One line: the process is not root, or the kernel does not give the memory, or cannot do something of it.
    pub fn load(bytes: u64) -> Result<Self, KernelStoreError> {
        let slabs = u32::try_from(bytes / SLAB_BYTES).unwrap_or(u32::MAX).min(u32::MAX / PART_UNITS);
        if slabs < BATCH / 2 {
            return Err(KernelStoreError::TooSmall(bytes));
        }
        barrier()?;
        let object = load(slabs, bytes)?;
        let buckets = map(&object, "buckets")?;
        let buckets = Mapped::new(&buckets, BUCKET_WORDS * size_of::<u64>()).map_err(|error| refused(error.into()))?;
        Ok(Self {
            link: None,
            units: map(&object, "units")?,
            parts: map(&object, "parts")?,
            addresses: map(&object, "addresses")?,
            settings: map(&object, "settings")?,
            counts: map(&object, "counts")?,
            buckets: Arc::new(Buckets(buckets)),
            slabs: Slabs::new(slabs),
            evicted: 0,
            origin: 0,
            object,
        })
    }

    /// Puts it at an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// One line: there is no such interface, it has no native XDP, its MTU is too small, or another program is there.
    pub fn attach(&mut self, interface: &str) -> Result<(), KernelStoreError> {
        self.link = Some(attach(&self.object, interface)?);
        Ok(())
    }

    /// Whether it can be in the kernel: it is put at one end of a veth pair in network namespaces of their own, and goes at once.
    ///
    /// # Errors
    /// One line, as of [`KernelStore::load`] and [`KernelStore::attach`]; [`KernelStoreError::NoPlace`] where there is no such pair.
    pub fn try_here() -> Result<(), KernelStoreError> {
        let mut store = Self::load(1 << 20)?;
        let (here, other) = (Namespace::create()?, Namespace::create()?);
        here.enter(|| {
            Interfaces::open()?.veth("store", None, "other", &other)?;
            store.attach("store")
        })?
    }

    /// The memory for the router's limits ([`paceline_icn::Limits::within`]).
    pub fn buckets(&self) -> Arc<dyn BucketMemory> {
        Arc::clone(&self.buckets) as Arc<dyn BucketMemory>
    }

    /// What it goes by from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn set(&mut self, settings: &KernelStoreSettings) -> Result<(), KernelStoreError> {
        self.origin = nanos(settings.origin);
        self.settings.update(&0_u32.to_ne_bytes(), &settings.bytes(), MapFlags::ANY).map_err(refused)
    }

    /// The addresses that it answers for, from now on no others.
    ///
    /// # Errors
    /// What the system says, such as that there are more than 256.
    pub fn answer_for(&self, addresses: &[IpAddr]) -> Result<(), KernelStoreError> {
        let mapped = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let wanted: Vec<[u8; 16]> = addresses.iter().map(mapped).collect();
        let had: Vec<Vec<u8>> = self.addresses.keys().collect();
        for gone in had.iter().filter(|had| !wanted.iter().any(|wanted| wanted == had.as_slice())) {
            self.addresses.delete(gone).map_err(refused)?;
        }
        for new in wanted.iter().filter(|wanted| !had.iter().any(|had| had == wanted.as_slice())) {
            self.addresses.update(new, &[1], MapFlags::ANY).map_err(refused)?;
        }
        Ok(())
    }

    /// Whether it has this part of an object: units from `part` times [`PART_UNITS`] on.
    pub fn has(&self, name: &Name, part: u64) -> bool {
        self.slabs.has(&key(name, part))
    }

    /// Whether it has a part of an object.
    pub fn has_any(&self, name: &Name) -> bool {
        self.slabs.has_any(name)
    }

    /// Takes a part of an object of `stored_units`: up to [`PART_UNITS`] units of [`UNIT`] bytes each, that are genuine. What was not asked for
    /// longest makes room. False where everything was asked for a moment ago, or the part is there.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// Where `units` are not whole units, or too many.
    pub fn insert(
        &mut self,
        name: &Name,
        part: u64,
        stored_units: u64,
        units: &[u8],
    ) -> Result<bool, KernelStoreError> {
        let count = (units.len() / UNIT) as u32;
        assert!(count > 0 && count <= PART_UNITS && units.len().is_multiple_of(UNIT), "{} bytes", units.len());
        let key = key(name, part);
        if self.slabs.has(&key) {
            return Ok(false);
        }
        if self.slabs.free().is_none() {
            self.make_room()?;
        }
        let Some(slab) = self.slabs.free() else { return Ok(false) };
        let places: Vec<u8> = (0..count).flat_map(|unit| (slab * PART_UNITS + unit).to_ne_bytes()).collect();
        let mut values = Vec::with_capacity(count as usize * (UNIT_HEAD + UNIT));
        for unit in units.chunks_exact(UNIT) {
            values.extend_from_slice(&sum_of(unit).to_ne_bytes());
            values.extend_from_slice(&[0; UNIT_HEAD - size_of::<u16>()]);
            values.extend_from_slice(unit);
        }
        self.units.update_batch(&places, &values, count, MapFlags::ANY, MapFlags::ANY).map_err(refused)?;
        let mut value = Vec::with_capacity(24);
        value.extend_from_slice(&slab.to_ne_bytes());
        value.extend_from_slice(&count.to_ne_bytes());
        value.extend_from_slice(&stored_units.to_ne_bytes());
        value.extend_from_slice(&self.now().to_ne_bytes());
        // Only now can the program find them.
        self.parts.update(&key, &value, MapFlags::NO_EXIST).map_err(refused)?;
        self.slabs.fill(key);
        Ok(true)
    }

    /// Drops all that it has of an object.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&mut self, name: &Name) -> Result<(), KernelStoreError> {
        let keys = self.slabs.keys_of(name);
        self.clear(&keys)
    }

    /// By the router's clock, as the program has it.
    fn now(&self) -> u64 {
        monotonic().as_nanos().wrapping_sub(self.origin)
    }

    /// Makes room by what was not asked for longest.
    fn make_room(&mut self) -> Result<(), KernelStoreError> {
        let settled = self.now().saturating_sub(nanos(SETTLED));
        let used = |key: &Key| {
            let value = self.parts.lookup(key, MapFlags::ANY).ok()??;
            value.last_chunk().map(|used| u64::from_ne_bytes(*used))
        };
        let mut idle: Vec<(u64, Key)> =
            self.slabs.keys().filter_map(|key| Some((used(key)?, *key))).filter(|(used, _)| *used < settled).collect();
        idle.sort_unstable();
        idle.truncate((self.slabs.count() / BATCH).max(1) as usize);
        let keys: Vec<Key> = idle.into_iter().map(|(_, key)| key).collect();
        self.evicted += keys.len() as u64;
        self.clear(&keys)
    }

    /// First the names go; then all processors have let go of what they found under them; only then slabs and names can be used again.
    fn clear(&mut self, keys: &[Key]) -> Result<(), KernelStoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        for key in keys {
            match self.parts.delete(key) {
                // It went when the rest failed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                deleted => deleted.map_err(refused)?,
            }
        }
        barrier()?;
        self.slabs.clear(keys);
        Ok(())
    }

    /// What it has done.
    ///
    /// # Errors
    /// What the system says.
    pub fn counts(&self) -> Result<KernelStoreCounts, KernelStoreError> {
        KernelStoreCounts::read(&self.counts).map_err(refused)
    }

    /// Bytes of units' memory that are in use, and that there are.
    pub fn memory(&self) -> (u64, u64) {
        (self.slabs.used() as u64 * SLAB_BYTES, u64::from(self.slabs.count()) * SLAB_BYTES)
    }

    /// Parts that made room for others.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// What becomes of a frame that comes in, and how long that takes, as the kernel runs the program for tests (`BPF_PROG_TEST_RUN`). It is
    /// counted.
    ///
    /// # Errors
    /// What the system says.
    pub fn judge(&self, frame: &[u8]) -> Result<(FrameVerdict, Duration), KernelStoreError> {
        let program =
            self.object.progs_mut().find(|one| one.name() == "pl_store").ok_or_else(missing).map_err(refused)?;
        let mut left = vec![0; 2048];
        let input = ProgramInput { data_in: Some(frame), data_out: Some(&mut left), ..ProgramInput::default() };
        let output = program.test_run(input).map_err(refused)?;
        let verdict = match output.return_value {
            XDP_TX => FrameVerdict::Answered(output.data.map(|data| data.to_vec()).unwrap_or_default()),
            XDP_DROP => FrameVerdict::Dropped,
            _ => FrameVerdict::Passed,
        };
        Ok((verdict, output.duration))
    }
}

/// Waits until no processor runs a program that began before.
fn barrier() -> Result<(), KernelStoreError> {
    membarrier(MembarrierCommand::Global).map_err(|errno| KernelStoreError::NoBarrier(errno.into()))
}

/// As the checksum of the Internet adds up (RFC 1071), in the order of this machine, before the complement.
fn sum_of(bytes: &[u8]) -> u16 {
    let halves = bytes.chunks_exact(2).map(|half| u32::from(u16::from_ne_bytes([half[0], half[1]])));
    let mut sum: u32 = halves.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
