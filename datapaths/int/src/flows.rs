//! The flows that a source puts headers on, and what came back of them.

use std::net::Ipv6Addr;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use paceline_cc::{Nanos, Time};
use paceline_linux::layout::{u32_at, u64_at};
use paceline_telemetry::Tuple;

/// Names of the source's program and of its maps, which other processes find them by.
const PROGRAM: &str = "pl_int_source";
const FLOWS: &str = "pl_int_flows";
const REPORTS: &str = "pl_int_reports";
const HEARD: &str = "pl_int_heard";

/// Octets of a flow's key.
const TUPLE: usize = 36;
/// Places in `struct flow` of src/bpf/source.h.
const LAST_AT: usize = 16;
const SEEN_AT: usize = 72;
const ENDED_AT: usize = 92;
const BEGUN_AT: usize = 96;
/// Our choice: in time for the first header, ASK_AFTER_NS of src/bpf/source.bpf.c, and longer than most requests take.
const LASTING: Nanos = Nanos::from_millis(50);
/// How long a flow is kept that has sent its FIN (our choice: its last packets may be sent again), and one that sends nothing (our choice: sinks
/// keep it as long).
const ENDED: Nanos = Nanos::from_secs(10);
const IDLE: Nanos = Nanos::from_secs(60);

/// A flow as its source has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackedFlow {
    /// The ends.
    pub tuple: Tuple,
    /// The socket's cookie (`SO_COOKIE`); 0: the packets are of no socket of this host.
    pub cookie: u64,
    /// Headers put on its packets.
    pub headers: u64,
    /// When the last was, by CLOCK_MONOTONIC, in nanoseconds; 0: there was none.
    pub last_ns: u64,
    /// Until when there are none, because no report came, by CLOCK_MONOTONIC, in nanoseconds; 0: there are.
    pub paused_until_ns: u64,
    /// Wire packets with a header.
    pub sequence: u32,
    /// Its last data has left, or it was reset.
    pub ended: bool,
}

impl TrackedFlow {
    /// `struct flow` of src/bpf/source.h.
    fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self {
            tuple: read_tuple(key)?,
            cookie: u64_at(value, 0)?,
            headers: u64_at(value, 8)?,
            last_ns: u64_at(value, LAST_AT)?,
            paused_until_ns: u64_at(value, 32)?,
            sequence: u32_at(value, 40)?,
            ended: has_ended(value),
        })
    }
}

fn has_ended(value: &[u8]) -> bool {
    u32_at(value, ENDED_AT) != Some(0)
}

/// As `struct pl_tuple` of src/bpf/kernel.h: in the order of packets.
pub(crate) fn write_tuple(tuple: &Tuple) -> [u8; TUPLE] {
    let mut key = [0; TUPLE];
    key[..16].copy_from_slice(&tuple.src.octets());
    key[16..32].copy_from_slice(&tuple.dst.octets());
    key[32..34].copy_from_slice(&tuple.sport.to_be_bytes());
    key[34..].copy_from_slice(&tuple.dport.to_be_bytes());
    key
}

pub(crate) fn read_tuple(key: &[u8]) -> Option<Tuple> {
    let address = |at: usize| Some(Ipv6Addr::from(*key.get(at..)?.first_chunk::<16>()?));
    let port = |at: usize| Some(u16::from_be_bytes(*key.get(at..)?.first_chunk()?));
    Some(Tuple { src: address(0)?, dst: address(16)?, sport: port(32)?, dport: port(34)? })
}

/// The maps of one source, open.
#[derive(Debug)]
pub struct FlowMaps {
    flows: MapHandle,
    reports: MapHandle,
    heard: MapHandle,
}

impl FlowMaps {
    pub(crate) fn of(object: &libbpf_rs::Object) -> libbpf_rs::Result<Self> {
        let open = |name| MapHandle::try_from(&crate::load::map(object, name)?);
        Ok(Self { flows: open(FLOWS)?, reports: open(REPORTS)?, heard: open(HEARD)? })
    }

    /// Those of every source that runs on this machine, whichever process it is of.
    ///
    /// Needs root: without it there are none.
    pub fn find() -> Vec<Self> {
        // Maps that go together are those of one program: sources that begin at the same time make theirs in any order.
        let programs = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true));
        let sources = programs.filter(|program| program.name.as_encoded_bytes() == PROGRAM.as_bytes());
        let pairs = sources.filter_map(|program| {
            let maps = || program.map_ids.iter().filter_map(|id| MapHandle::from_map_id(*id).ok());
            let named = |name| maps().find(|map| map.name() == name);
            Some(Self { flows: named(FLOWS)?, reports: named(REPORTS)?, heard: named(HEARD)? })
        });
        pairs.collect()
    }

    /// The flow of these ends.
    pub fn flow(&self, tuple: &Tuple) -> Option<TrackedFlow> {
        let key = write_tuple(tuple);
        let value = self.flows.lookup(&key, MapFlags::ANY).ok().flatten()?;
        TrackedFlow::read(&key, &value)
    }

    /// All of them; those that ended a while ago may be among them.
    pub fn flows(&self) -> Vec<TrackedFlow> {
        self.entries().filter_map(|(key, value)| TrackedFlow::read(&key, &value)).collect()
    }

    /// Those that go on and had a header at `oldest_ns` or later, or may soon have their first: their data goes on after [`LASTING`].
    pub(crate) fn heard_of_since(&self, oldest_ns: u64) -> impl Iterator<Item = TrackedFlow> {
        let lately = move |value: &[u8]| {
            let [Some(last), Some(seen), Some(begun)] = [LAST_AT, SEEN_AT, BEGUN_AT].map(|at| u64_at(value, at)) else {
                return false;
            };
            !has_ended(value)
                && (last >= oldest_ns || seen >= oldest_ns && seen - begun.min(seen) >= LASTING.as_nanos())
        };
        self.entries().filter_map(move |(key, value)| lately(&value).then(|| TrackedFlow::read(&key, &value))?)
    }

    /// All by one system call: the kernel may give fewer than were asked for before the end, which libbpf-rs takes for the end.
    fn entries(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.flows.lookup_batch(self.flows.max_entries(), MapFlags::ANY, MapFlags::ANY).into_iter().flatten()
    }

    /// Forgets the flows that ended [`ENDED`] ago, or that sent nothing for [`IDLE`]: one that goes on begins as a new one.
    pub(crate) fn sweep(&self, now: Time) {
        let is_over = |value: &[u8]| {
            let silent = now.as_nanos().saturating_sub(u64_at(value, SEEN_AT).unwrap_or(0));
            Nanos::from_nanos(silent) >= if has_ended(value) { ENDED } else { IDLE }
        };
        for (key, _) in self.entries().filter(|(_, value)| is_over(value)) {
            // What is gone already has been forgotten.
            let _ = self.flows.delete(&key);
            let _ = self.reports.delete(&key);
        }
    }

    /// A report of the flow came just now: its source goes on putting headers on it.
    ///
    /// # Errors
    /// What the system says.
    pub fn reported(&self, tuple: &Tuple) -> libbpf_rs::Result<()> {
        self.reported_at(tuple, crate::HeaderClock::Machine.now())
    }

    pub(crate) fn reported_at(&self, tuple: &Tuple, at: Time) -> libbpf_rs::Result<()> {
        let at = at.as_nanos().to_ne_bytes();
        self.reports.update(&write_tuple(tuple), &at, MapFlags::ANY)?;
        self.heard.update(&tuple.dst.octets(), &at, MapFlags::ANY)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Barrier;
    use std::thread;

    use paceline_linux::namespace::Namespace;
    use paceline_linux::namespace::{Privilege, privilege};

    use super::*;
    use crate::{SourceNode, SourceOptions};

    #[test]
    fn a_tuple_is_written_as_packets_have_it() {
        let tuple = Tuple { src: Ipv6Addr::LOCALHOST, dst: "fd77::2".parse().unwrap(), sport: 258, dport: 5201 };
        let key = write_tuple(&tuple);
        assert_eq!(key[15..20], [1, 0xfd, 0x77, 0, 0]);
        assert_eq!(key[31..], [2, 1, 2, 0x14, 0x51]);
        assert_eq!(read_tuple(&key), Some(tuple));
        assert_eq!(read_tuple(&key[..35]), None);
    }

    #[test]
    fn maps_of_sources_that_begin_together_are_not_mixed_up() {
        if privilege() != Privilege::Root {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: maps_of_sources_that_begin_together_are_not_mixed_up: it needs root"
            );
            return;
        }
        let together = Barrier::new(8);
        let begin = || {
            Namespace::create().unwrap().enter(|| {
                together.wait();
                SourceNode::open("lo", &SourceOptions::default()).unwrap()
            })
        };
        let sources: Vec<SourceNode> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        let numbers = |maps: &FlowMaps| [&maps.flows, &maps.reports].map(|map| map.info().unwrap().info.id);
        let found: Vec<_> = FlowMaps::find().iter().map(numbers).collect();
        for source in &sources {
            assert!(found.contains(&numbers(source.flows())), "{:?} is not among {found:?}", numbers(source.flows()));
        }
    }
}
