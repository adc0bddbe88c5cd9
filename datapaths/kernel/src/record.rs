//! What is known of flows' paths, written for the modules that decide by it.

use std::io;
use std::time::Duration;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use paceline_cc::Cause;
use rustix::time::{ClockId, clock_gettime};

use crate::load::into_io;

/// The map of `src/bpf/telemetry_socket.h`, of which each module that has it has its own.
const MAP: &str = "pl_telemetry";
/// `TELEMETRY_UNKNOWN` of `src/bpf/telemetry.h`.
const UNKNOWN: u32 = u32::MAX;

/// The newest report of a flow's receiver, with the bottleneck hop in it: `struct pl_telemetry` of `src/bpf/telemetry.h`. What the
/// hop did not report is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the report; grows.
    pub sequence: u64,
    /// When it was received, on `CLOCK_MONOTONIC`: [`Record::clock`].
    pub received: Duration,
    /// For how long it counts, half a second at most.
    pub fresh_for: Duration,
    /// Why packets were lost lately.
    pub verdict: Cause,
    /// Packets for which the hop's queue has room.
    pub room: Option<u32>,
    /// Packets that it holds when it is full.
    pub limit: Option<u32>,
    /// Packets that arrive there in a second, of all flows.
    pub arrival: Option<u32>,
    /// Flows that share it.
    pub flows: Option<u32>,
    /// Share of the flow's packets that were lost lately, in millionths.
    pub loss_ppm: u32,
    /// How long a full queue of the hop takes to drain.
    pub drain: Option<Duration>,
    /// Fresh reports in a row: below three the verdict does not count.
    pub reports: u32,
}

impl Record {
    /// Bytes of a record in the kernel.
    pub const BYTES: usize = 64;

    /// `CLOCK_MONOTONIC` now, by which records age.
    pub fn clock() -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    /// As the kernel reads it.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let known = |number: Option<u32>| number.unwrap_or(UNKNOWN);
        // The numbers of `enum loss_cause`.
        let verdict: u32 = match self.verdict {
            Cause::Unknown | Cause::Handover => 0,
            Cause::Medium => 1,
            Cause::Congestion | Cause::Aqm | Cause::Policer => 2,
        };
        // 0 is what is not known.
        let drain = self.drain.map_or(0, |drain| u32::try_from(drain.as_micros()).unwrap_or(u32::MAX).max(1));
        let words = [
            verdict,
            known(self.room),
            known(self.limit),
            known(self.arrival),
            known(self.flows),
            self.loss_ppm,
            drain,
            self.reports,
        ];
        let mut bytes = [0; Self::BYTES];
        for (place, long) in bytes.chunks_exact_mut(8).zip([self.sequence, nanos(self.received), nanos(self.fresh_for)])
        {
            place.copy_from_slice(&long.to_ne_bytes());
        }
        for (place, word) in bytes[24..56].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[56..].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes
    }
}

/// The records of the kernel, in all modules that have any: those of loads whose sockets live on too.
///
/// Takes the right to ask for maps (`CAP_SYS_ADMIN`), whichever process loaded the modules.
#[derive(Debug, Default)]
pub struct Records {
    maps: Vec<MapHandle>,
}

impl Records {
    /// Those of the modules that are loaded now.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without privilege.
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
        for info in MapInfoIter::default().filter(|info| info.name == MAP) {
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

    /// Writes the record of the flow whose socket has this cookie (`SO_COOKIE`, asked for on the socket).
    ///
    /// # Errors
    /// What the kernel says, such as that a map has 16384 flows already.
    pub fn write(&self, cookie: u64, record: &Record) -> io::Result<()> {
        let bytes = record.to_bytes();
        let write = |map: &MapHandle| map.update(&cookie.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(into_io);
        self.maps.iter().try_for_each(write)
    }

    /// Removes the record of a flow: it is CUBIC from now on. One that has none is no error.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, cookie: u64) -> io::Result<()> {
        for map in &self.maps {
            match map.delete(&cookie.to_ne_bytes()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(into_io(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_kernels_layout() {
        let record = Record {
            sequence: 7,
            received: Duration::from_nanos(8),
            fresh_for: Duration::from_nanos(9),
            verdict: Cause::Medium,
            room: Some(60),
            limit: None,
            arrival: Some(1650),
            flows: Some(2),
            loss_ppm: 200_000,
            drain: Some(Duration::from_millis(36)),
            reports: 3,
        };
        let bytes = record.to_bytes();
        let longs: Vec<u64> =
            bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!((longs[0], longs[1], longs[2], longs[7]), (7, 8, 9, 7));
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(words[6..14], [1, 60, u32::MAX, 1650, 2, 200_000, 36_000, 3]);
        let unknown = Record { drain: None, verdict: Cause::Congestion, ..record }.to_bytes();
        assert_eq!((unknown[24], &unknown[48..52]), (2, &[0_u8; 4][..]));
    }
}
