//! What is known of flows' paths, written for the modules that decide by it.

use std::io;
use std::time::Duration;

use libbpf_rs::query::{MapInfo, MapInfoIter};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use paceline_cc::{Cause, Nanos};
use paceline_linux::clock::monotonic;
use paceline_telemetry::PathRecord;

use crate::load::into_io;

/// The map of `src/bpf/telemetry_socket.h`, of which each module that has it has its own.
const MAP: &str = "pl_telemetry";
/// Bytes of its keys, which are socket cookies, and of `struct pl_telemetry` of `src/bpf/telemetry.h`.
const KEY: usize = 8;
const BYTES: usize = 64;
/// Where `stamp_ns` is in it.
const STAMP_AT: usize = 8;
/// `TELEMETRY_UNKNOWN` of `src/bpf/telemetry.h`.
const UNKNOWN: u32 = u32::MAX;
/// The longest time that a queue is said to take to drain. A round trip that has grown by more is congestion whatever reports say; a hop
/// that lies about its queue must not switch that off. Our choice: 80 full packets at 1 Mbit/s.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// `struct pl_telemetry`.
fn to_bytes(record: &PathRecord) -> [u8; BYTES] {
    let known = |number: Option<u32>| number.unwrap_or(UNKNOWN);
    // The numbers of `enum loss_cause`.
    let verdict: u32 = match record.verdict {
        Cause::Unknown | Cause::Handover => 0,
        Cause::Medium => 1,
        Cause::Congestion | Cause::Aqm | Cause::Policer => 2,
    };
    // 0 is what is not known.
    let most = DRAIN_MAX.as_micros() as u32;
    let drain = record.drain.map_or(0, |drain| u32::try_from(drain.as_micros()).unwrap_or(most).clamp(1, most));
    let longs = [record.rseq, record.at.as_nanos(), record.fresh_for.as_nanos()];
    let words = [
        verdict,
        known(record.avail_pkts),
        known(record.limit_pkts),
        known(record.rate_pps),
        known(record.flows),
        record.loss_ppm,
        drain,
        record.reports,
    ];
    let mut bytes = [0; BYTES];
    for (place, long) in bytes.chunks_exact_mut(8).zip(longs) {
        place.copy_from_slice(&long.to_ne_bytes());
    }
    for (place, word) in bytes[24..56].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes[56..].copy_from_slice(&record.rseq.to_ne_bytes());
    bytes
}

/// The records of the kernel, in all modules that have any: those of loads whose sockets live on too. A record is what
/// [`paceline_telemetry::ReportReader`] makes of a report, with the time of [`Records::clock`].
///
/// Takes the right to ask for maps (`CAP_SYS_ADMIN`), whichever process loaded the modules: without it there are none.
#[derive(Debug, Default)]
pub struct Records {
    maps: Vec<MapHandle>,
}

impl Records {
    /// Those of the modules that are loaded now.
    ///
    /// # Errors
    /// What the kernel says of a map that is there.
    pub fn open() -> io::Result<Self> {
        let mut records = Self::default();
        records.refresh()?;
        Ok(records)
    }

    /// Finds the modules that were loaded since, and leaves those that are gone.
    ///
    /// # Errors
    /// As [`Records::open`].
    pub fn refresh(&mut self) -> io::Result<()> {
        // What is held here alone would be found again.
        self.maps.clear();
        let fits = |map: &MapInfo| map.name == MAP && (map.key_size as usize, map.value_size as usize) == (KEY, BYTES);
        for info in MapInfoIter::default().filter(fits) {
            match MapHandle::from_map_id(info.id) {
                Ok(map) => self.maps.push(map),
                Err(gone) if gone.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(into_io(error)),
            }
        }
        Ok(())
    }

    /// How many maps there are; without any, no flow decides by a record.
    pub fn maps(&self) -> usize {
        self.maps.len()
    }

    /// Writes the record of the flow whose socket has this cookie (`SO_COOKIE`, asked for on the socket), into each map that takes it.
    /// A queue takes a second to drain at most, whatever the record says.
    ///
    /// # Errors
    /// What the kernel says first, such as that a map has 16384 flows already.
    pub fn write(&self, cookie: u64, record: &PathRecord) -> io::Result<()> {
        let bytes = to_bytes(record);
        self.each(|map| map.update(&cookie.to_ne_bytes(), &bytes, MapFlags::ANY))
    }

    /// Removes the record of a flow: it is CUBIC from now on. One that has none is not an error.
    ///
    /// # Errors
    /// What the kernel says first.
    pub fn remove(&self, cookie: u64) -> io::Result<()> {
        self.each(|map| delete(map, &cookie.to_ne_bytes()))
    }

    /// Removes records that are older than this, which are of flows that ended while their writer was not there.
    ///
    /// # Errors
    /// What the kernel says first.
    pub fn sweep(&self, age: Nanos) -> io::Result<()> {
        let oldest = monotonic().as_nanos().saturating_sub(age.as_nanos());
        self.each(|map| {
            // All of them first: after a key that is gone, the kernel begins again.
            for key in map.keys().collect::<Vec<_>>() {
                let Some(value) = map.lookup(&key, MapFlags::ANY)? else { continue };
                let stamp = value.get(STAMP_AT..).and_then(|rest| rest.first_chunk());
                if stamp.is_some_and(|stamp| u64::from_ne_bytes(*stamp) < oldest) {
                    delete(map, &key)?;
                }
            }
            Ok(())
        })
    }

    /// Does it with each map, and answers the first error.
    fn each(&self, act: impl Fn(&MapHandle) -> libbpf_rs::Result<()>) -> io::Result<()> {
        self.maps.iter().map(|map| act(map).map_err(into_io)).fold(Ok(()), Result::and)
    }
}

fn delete(map: &MapHandle, key: &[u8]) -> libbpf_rs::Result<()> {
    map.delete(key).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use paceline_cc::Time;

    use super::*;

    #[test]
    fn a_record_has_the_kernels_layout() {
        let record = PathRecord {
            rseq: 7,
            at: Time::from_nanos(8),
            fresh_for: Nanos::from_nanos(9),
            verdict: Cause::Medium,
            avail_pkts: Some(60),
            limit_pkts: None,
            rate_pps: Some(1650),
            flows: Some(2),
            loss_ppm: 200_000,
            drain: Some(Nanos::from_millis(36)),
            reports: 3,
        };
        let bytes = to_bytes(&record);
        let longs: Vec<u64> =
            bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!((longs[0], longs[1], longs[2], longs[7]), (7, 8, 9, 7));
        let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap());
        let words: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        assert_eq!(words[6..14], [1, 60, u32::MAX, 1650, 2, 200_000, 36_000, 3]);
        let verdict_and_drain = |verdict, drain| {
            let bytes = to_bytes(&PathRecord { verdict, drain, ..record });
            (word(&bytes[24..28]), word(&bytes[48..52]))
        };
        assert_eq!(verdict_and_drain(Cause::Congestion, None), (2, 0));
        assert_eq!(verdict_and_drain(Cause::Unknown, Some(Nanos::MAX)), (0, 1_000_000));
        assert_eq!(verdict_and_drain(Cause::Medium, Some(Nanos::ZERO)), (1, 1));
    }
}
