//! The maps that programs in the kernel share with the agent. They are found by their name among all maps: nothing is pinned, and a
//! program may come and go.

use std::time::{Duration, Instant};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use paceline_cc::Time;
use paceline_telemetry::report::cause_number;
use paceline_telemetry::{Record, Tuple};

/// Bytes of `struct pl_telemetry` (`datapaths/kernel/src/bpf/telemetry.h`).
pub(super) const RECORD: usize = 64;
/// Where its `stamp_ns` is.
const STAMP_AT: usize = 8;
/// Bytes of `struct pl_tuple` (`src/bpf/kernel.h`).
const TUPLE: usize = 36;
/// Where `struct flow` of `src/bpf/source.bpf.c` has the time of the last header.
const LAST_AT: usize = 16;
/// What is older is of a flow that has ended, or whose agent has. Our choice: twenty times as long as a report can count.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// The longest time that a queue is said to take to drain, in microseconds. A round trip that has grown by more is congestion whatever
/// reports say; a hop that lies about its queue must not switch that off. Our choice: 80 full packets at 1 Mbit/s.
const DRAIN_MAX: u64 = 1_000_000;
/// What the kernel takes for unknown.
const UNKNOWN: u32 = u32::MAX;

/// A record as the kernel's controllers read it, with the machine's ends of numbers. `stamp_ns` is of CLOCK_MONOTONIC.
pub(super) fn encode(record: &Record) -> [u8; RECORD] {
    let known = |value: Option<u32>| value.unwrap_or(UNKNOWN);
    let drain = record.drain.map_or(0, |drain| drain.as_micros().min(DRAIN_MAX) as u32);
    let mut bytes = [0; RECORD];
    let wide = [record.rseq, record.at.as_nanos(), record.fresh_for.as_nanos()];
    let words = [
        u32::from(cause_number(record.verdict)),
        known(record.avail_pkts),
        known(record.limit_pkts),
        known(record.rate_pps),
        known(record.flows),
        record.loss_ppm,
        drain,
        record.reports,
    ];
    let all =
        wide.iter().flat_map(|value| value.to_ne_bytes()).chain(words.iter().flat_map(|value| value.to_ne_bytes()));
    let all = all.chain(record.rseq.to_ne_bytes());
    bytes.iter_mut().zip(all).for_each(|(byte, value)| *byte = value);
    bytes
}

/// The key of a flow in the maps of the source.
fn key(tuple: &Tuple) -> [u8; TUPLE] {
    let mut key = [0; TUPLE];
    key[..16].copy_from_slice(&tuple.src.octets());
    key[16..32].copy_from_slice(&tuple.dst.octets());
    key[32..34].copy_from_slice(&tuple.sport.to_be_bytes());
    key[34..].copy_from_slice(&tuple.dport.to_be_bytes());
    key
}

fn tuple(key: &[u8]) -> Option<Tuple> {
    let key: &[u8; TUPLE] = key.try_into().ok()?;
    let port = |at: usize| u16::from_be_bytes([key[at], key[at + 1]]);
    let address = |at: usize| <[u8; 16]>::try_from(&key[at..at + 16]).ok().map(Into::into);
    Some(Tuple { src: address(0)?, dst: address(16)?, sport: port(32), dport: port(34) })
}

/// All of a name and shape.
fn find(name: &str, key: usize, value: usize) -> Vec<(u32, MapHandle)> {
    let fits = |map: &libbpf_rs::query::MapInfo| {
        map.name == *name && (map.key_size as usize, map.value_size as usize) == (key, value)
    };
    let found = MapInfoIter::default().filter(fits);
    found.filter_map(|map| Some((map.id, MapHandle::from_map_id(map.id).ok()?))).collect()
}

/// A flow that the source puts headers on.
pub(super) struct Sent {
    pub(super) tuple: Tuple,
    pub(super) cookie: u64,
}

/// What there is on this machine.
#[derive(Default)]
pub(super) struct Maps {
    /// Of controllers: records by socket cookie.
    records: Vec<(u32, MapHandle)>,
    /// Of sources: flows with headers.
    flows: Vec<(u32, MapHandle)>,
    /// Of sources: when a report of a flow came.
    reports: Vec<(u32, MapHandle)>,
    /// When old records were last looked for.
    swept: Option<Instant>,
}

impl Maps {
    /// Looks again. Maps of programs that are gone are let go.
    pub(super) fn look(&mut self, now: Time) {
        // A map that we hold is found however long its programs have been gone.
        *self = Self { swept: self.swept, ..Self::default() };
        self.records = find("pl_telemetry", 8, RECORD);
        // The value's size is the source's own affair.
        let is_flows = |map: &libbpf_rs::query::MapInfo| map.name == *"pl_int_flows" && map.key_size as usize == TUPLE;
        let flows = MapInfoIter::default().filter(is_flows);
        self.flows = flows.filter_map(|map| Some((map.id, MapHandle::from_map_id(map.id).ok()?))).collect();
        self.reports = find("pl_int_reports", TUPLE, 8);
        if self.swept.is_none_or(|swept| swept.elapsed() > FORGOTTEN) {
            self.swept = Some(Instant::now());
            self.sweep(now);
        }
    }

    /// Removes records of flows that ended while no agent was there.
    fn sweep(&self, now: Time) {
        let oldest = now.as_nanos().saturating_sub(FORGOTTEN.as_nanos() as u64);
        for (_, map) in &self.records {
            let keys: Vec<Vec<u8>> = map.keys().collect();
            for key in keys {
                let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) else { continue };
                if wide(&value, STAMP_AT).is_some_and(|stamp| stamp < oldest) {
                    let _ = map.delete(&key);
                }
            }
        }
    }

    /// How many controllers' maps there are.
    pub(super) fn controllers(&self) -> usize {
        self.records.len()
    }

    /// Up to `most` flows that sources have put headers on lately; `None` where there is no source.
    pub(super) fn sent(&self, now: Time, most: usize) -> Option<Vec<Sent>> {
        let oldest = now.as_nanos().saturating_sub(FORGOTTEN.as_nanos() as u64);
        let mut sent = Vec::new();
        for (_, map) in &self.flows {
            for key in map.keys().take(most - sent.len()) {
                let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) else { continue };
                let (Some(tuple), Some(cookie), Some(last)) = (tuple(&key), wide(&value, 0), wide(&value, LAST_AT))
                else {
                    continue;
                };
                if last >= oldest {
                    sent.push(Sent { tuple, cookie });
                }
            }
        }
        (!self.flows.is_empty()).then_some(sent)
    }

    /// Writes a flow's record for every controller. Says how many maps refused it: they are full.
    pub(super) fn write(&self, cookie: u64, record: &Record) -> usize {
        let (key, value) = (cookie.to_ne_bytes(), encode(record));
        self.records.iter().filter(|(_, map)| map.update(&key, &value, MapFlags::ANY).is_err()).count()
    }

    /// Says to the sources that a report of the flow came.
    pub(super) fn reported(&self, of: &Tuple, now: Time) {
        let (key, value) = (key(of), now.as_nanos().to_ne_bytes());
        for (_, map) in &self.reports {
            let _ = map.update(&key, &value, MapFlags::ANY);
        }
    }

    /// Removes the record of a flow that is gone.
    pub(super) fn remove(&self, cookie: u64) {
        for (_, map) in &self.records {
            let _ = map.delete(&cookie.to_ne_bytes());
        }
    }
}

fn wide(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use paceline_cc::{Cause, Nanos};

    use super::*;

    #[test]
    fn a_record_lies_in_memory_as_the_kernel_has_it() {
        let record = Record {
            rseq: 7,
            at: Time::from_nanos(11),
            fresh_for: Nanos::from_millis(90),
            verdict: Cause::Medium,
            avail_pkts: Some(40),
            limit_pkts: None,
            rate_pps: Some(1650),
            flows: Some(2),
            loss_ppm: 200_000,
            drain: Some(Nanos::from_millis(36)),
            reports: 3,
        };
        let bytes = encode(&record);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((wide(&bytes, 0), wide(&bytes, 8), wide(&bytes, 16)), (Some(7), Some(11), Some(90_000_000)));
        let words: Vec<u32> = (24..56).step_by(4).map(word).collect();
        assert_eq!(words, [1, 40, u32::MAX, 1650, 2, 200_000, 36_000, 3]);
        assert_eq!(wide(&bytes, 56), Some(7));
        let long = Record { drain: Some(Nanos::MAX), verdict: Cause::Congestion, ..record };
        assert_eq!(encode(&long)[48..52], 1_000_000_u32.to_ne_bytes());
        assert_eq!(encode(&long)[24..28], 2_u32.to_ne_bytes());
        let none = encode(&Record { drain: None, verdict: Cause::Unknown, ..record });
        assert_eq!((none[24], none[48]), (0, 0));
    }

    #[test]
    fn a_flow_is_found_by_its_key() {
        let flow = Tuple { src: "2001:db8::1".parse().unwrap(), dst: "::2".parse().unwrap(), sport: 1234, dport: 443 };
        assert_eq!(tuple(&key(&flow)), Some(flow));
        assert_eq!(key(&flow)[32..], [4, 210, 1, 187]);
        assert_eq!(tuple(&[0; 35]), None);
    }
}
