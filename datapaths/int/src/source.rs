//! The source: puts headers on what this host sends.

use std::fs::File;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, Object};
use paceline_telemetry::wire::WIDE_NAMESPACE;
use paceline_telemetry::{Edge, Long, RecordProfile, TelemetryHeader, Tuple};

use crate::attach::{Attached, Place, Side, attach};
use crate::counters::counters;
use crate::flows::FlowMaps;
use crate::interface::Interface;
use crate::load::{load, map, missing, refused, words};
use crate::{HeaderClock, Hook, NodeError};

const ROLE: &str = "source";
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/source.bpf.o"));
/// Longest header that hops look at (src/bpf/wire.h).
pub(crate) const HEADER_MAX: usize = 256;
/// Entries of the map of addresses.
const ADDRESSES_MAX: usize = 1024;
/// Which ports select: a bit for each.
const PORTS: &str = ".rodata.ports";

counters! {
    /// What a source has counted. Packets are packets on the wire: a buffer that is segmented later counts as its segments.
    SourceCounters {
        /// Headers inserted: one for a buffer.
        inserted,
        /// Packets with a header.
        packets,
        /// Those of them whose header is of the full profile.
        full,
        /// Packets left as they were, because with a header they would be longer than the MTU.
        too_big,
        /// Buffers left as they were because they have an extension header already.
        foreign_header,
        /// Fragments, left as they were.
        fragments,
        /// Buffers that are not IPv6.
        not_ipv6,
        /// Buffers of IPv6 that are neither TCP nor, with [`SourceOptions::udp`], UDP of 12 octets and more.
        other_protocol,
        /// Buffers of those over IPv6 of flows that are not selected.
        not_selected,
        /// Packets left out by sampling.
        sampled_out,
        /// Packets left as they were because no report has come that shows that the path carries headers.
        paused,
        /// How often a header was given up that no report came after: its flow has none for a while.
        pauses,
        /// Packets where the kernel refused a change.
        failed,
        /// Segment sizes announced by peers that were lowered.
        segment_sizes,
        /// Times that a router said of a flow with headers that its path is narrower.
        path_mtus,
        /// Messages of that kind that quote no packet on its way that is longer than they say, or are damaged: they are not believed.
        forged_mtus,
    }
}

/// What a source does.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Flows with one of these ports at either end; empty: all.
    pub ports: Vec<u16>,
    /// Flows with an address of one of these prefixes at either end; empty: all.
    pub addresses: Vec<(Ipv6Addr, u8)>,
    /// Flows of the sockets of this cgroup (version 2) and those below it; `None`: all.
    pub cgroup: Option<PathBuf>,
    /// Flows of UDP as well, QUIC's among them. `false` by default: a datagram is as long as its program made it, so that packets have
    /// headers only where the program leaves room in the MTU; and sinks read such headers only where they are asked to.
    pub udp: bool,
    /// What hops write. [`RecordProfile::Lean`] by default, as in the format's default.
    pub profile: RecordProfile,
    /// Every n-th header of a flow is of [`RecordProfile::Full`] instead; 0: none, as always beside [`RecordProfile::Word`]. 8 by default: the
    /// format's least for the counters of drops.
    pub full_every: u32,
    /// Records are of namespace 0x8002, in which data rates go beyond 6.5 Gbit/s. Not by default: older hops and sinks do not know it.
    pub wide: bool,
    /// Hops that there is room for. 2 by default, the paper's two access points.
    pub hops: u8,
    /// Every n-th buffer of a flow has a header. 1 by default. Packets without one have numbers too then, so that what is missing is lost.
    pub one_in: u32,
    /// Least time between two headers of a flow, in microseconds at most [`u32::MAX`]. Zero by default: none. Numbers as with `one_in`.
    pub every: Duration,
    /// The clock of the header's time.
    pub clock: HeaderClock,
    /// Longest time without a report of a flow that has headers; `None`: headers whatever comes back. 1 s by default, the format's.
    pub patience: Option<Duration>,
    /// How long a flow has none then; other flows to the same address neither, and twice as long with each time in a row, up to 16 times.
    /// 30 s by default, the format's.
    pub pause: Duration,
    /// How the programs must be held; `None`: as the kernel can.
    pub hook: Option<Hook>,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            addresses: Vec::new(),
            cgroup: None,
            udp: false,
            profile: RecordProfile::Lean,
            full_every: 8,
            wide: false,
            hops: 2,
            one_in: 1,
            every: Duration::ZERO,
            clock: HeaderClock::Machine,
            patience: Some(Duration::from_secs(1)),
            pause: Duration::from_secs(30),
            hook: None,
        }
    }
}

/// Octets of a header in front of the room for records.
const TRACE: usize = 16;

impl SourceOptions {
    /// Octets by which packets become longer at most.
    pub const fn reserve(&self) -> usize {
        let usual = self.profile.header_octets(self.hops);
        let full = if self.fulls() > 0 { RecordProfile::Full.header_octets(self.hops) } else { 0 };
        if usual > full { usual } else { full }
    }

    /// Every n-th header is full; 0: none.
    pub(crate) const fn fulls(&self) -> u32 {
        match self.profile {
            RecordProfile::Full => 1,
            RecordProfile::Word => 0,
            _ => self.full_every,
        }
    }

    pub(crate) fn check(&self) -> Result<(), NodeError> {
        let wrong = |option, reason| Err(NodeError::Option { option, reason });
        if self.hops == 0 || self.reserve() > HEADER_MAX {
            let widest = if self.fulls() > 0 { RecordProfile::Full } else { self.profile };
            let most = (1..=15).rev().find(|hops| widest.header_octets(*hops) <= HEADER_MAX).unwrap_or(1);
            return wrong("hops", format!("{} hops do not fit into a header; take 1 to {most}", self.hops));
        }
        if self.one_in == 0 {
            return wrong("one in", "0 is not a share; take 1 or more".to_owned());
        }
        if self.addresses.len() > ADDRESSES_MAX {
            return wrong("addresses", format!("there are more than {ADDRESSES_MAX}"));
        }
        if let Some((address, length)) = self.addresses.iter().find(|(_, length)| *length > 128) {
            return wrong("addresses", format!("{address}/{length} is not a prefix; lengths are 0 to 128"));
        }
        Ok(())
    }

    /// `config` of src/bpf/source.h.
    fn config(&self, interface: &Interface) -> Vec<u8> {
        let millis = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX).max(1);
        let full_every = self.fulls();
        // A full header that no packet has need not fit.
        let full = if full_every > 0 { self.template(RecordProfile::Full) } else { [0; 9] };
        let rest = [
            full_every,
            self.one_in,
            u32::try_from(self.every.as_micros()).unwrap_or(u32::MAX),
            u32::from(self.one_in > 1 || self.every > Duration::ZERO),
            u32::from(self.udp),
            u32::from(!self.ports.is_empty()),
            u32::from(!self.addresses.is_empty()),
            u32::from(self.cgroup.is_some()),
            self.reserve() as u32,
            u32::from(self.clock == HeaderClock::Tai),
            self.patience.map_or(0, millis),
            millis(self.pause),
        ];
        words(&[&[interface.l2][..], &self.template(self.profile), &full, &rest].concat())
    }

    /// `struct template` of src/bpf/source.h: the header of a packet of which nothing is known.
    fn template(&self, profile: RecordProfile) -> [u32; 9] {
        let long = (profile == RecordProfile::Full).then(Long::default);
        let mut header = TelemetryHeader::new(profile, self.hops, Edge { long, ..Edge::default() });
        if self.wide {
            header.namespace = WIDE_NAMESPACE;
        }
        let header = header.encode();
        let word = |at: usize| {
            header.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
        };
        let has_word = profile == RecordProfile::Word;
        let records = if has_word { 1 } else { usize::from(self.hops) };
        let edge_at = TRACE + 4 * profile.words() * records;
        let behind = edge_at + Edge { long, ..Edge::default() }.octets();
        let length = header.len() as u32;
        [length, edge_at as u32, word(0), word(4), word(8), word(12), word(edge_at), word(behind), u32::from(has_word)]
    }

    /// `ports` of src/bpf/source.h: a bit for each port, by the number that the program reads from packets.
    fn port_bits(&self) -> Vec<u8> {
        let mut bits = vec![0; (usize::from(u16::MAX) + 1) / 32];
        for port in self.ports.iter().map(|port| usize::from(port.to_be())) {
            bits[port / 32] |= 1 << (port % 32);
        }
        words(&bits)
    }
}

/// A source at an interface. Dropping it takes it away, as the end of the process does, however that ends.
pub struct SourceNode {
    programs: [Attached; 2],
    interface: Interface,
    object: Object,
    flows: FlowMaps,
}

impl SourceNode {
    /// Begins at an interface of the calling thread's network namespace. From here on new connections of the selected flows have
    /// smaller segments, so that there is room for a header; connections that exist have headers on their smaller packets only.
    ///
    /// # Errors
    /// One line: the process is not root, there is no such interface, the kernel lacks something, or an option cannot be.
    pub fn open(interface: &str, options: &SourceOptions) -> Result<Self, NodeError> {
        options.check()?;
        let interface = Interface::find(interface)?;
        let cgroup = match &options.cgroup {
            None => None,
            Some(place) => Some(File::open(place).map_err(|source| NodeError::Option {
                option: "cgroup",
                reason: format!("{}: {source}; give a folder of the mounted cgroup v2", place.display()),
            })?),
        };
        let mut object = load(ROLE, OBJECT, &options.config(&interface), |object| {
            let mut ports = object.maps_mut().find(|map| map.name() == PORTS).ok_or_else(missing)?;
            let place = ports.initial_value_mut().ok_or_else(missing)?;
            place.copy_from_slice(&options.port_bits());
            Ok(())
        })?;
        let select = |object: &Object| {
            let addresses = map(object, "addresses")?;
            for (address, length) in &options.addresses {
                let mut key = u32::from(*length).to_ne_bytes().to_vec();
                key.extend_from_slice(&address.octets());
                addresses.update(&key, &[1], MapFlags::ANY)?;
            }
            if let Some(cgroup) = &cgroup {
                let descriptor = cgroup.as_raw_fd().to_ne_bytes();
                map(object, "cgroups")?.update(&0_u32.to_ne_bytes(), &descriptor, MapFlags::ANY)?;
            }
            FlowMaps::of(object)
        };
        let flows = select(&object).map_err(|source| refused(ROLE, source))?;
        // The segment size first: no packet without room for a header that could have it.
        let segments =
            attach(ROLE, &mut object, "pl_int_segment", &interface, (Side::Ingress, Place::Last), options.hook)?;
        // Before a hop at the same interface, which is to write into them.
        let headers =
            attach(ROLE, &mut object, "pl_int_source", &interface, (Side::Egress, Place::First), options.hook)?;
        Ok(Self { programs: [headers, segments], interface, object, flows })
    }

    /// How its programs are held.
    pub const fn hook(&self) -> Hook {
        self.programs[0].hook()
    }

    /// Whether it still does something; to be asked about ten times a second, in the network namespace that it was opened in.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn ensure(&self) -> Result<(), NodeError> {
        self.interface.ensure(ROLE)
    }

    /// What it has counted.
    pub fn counters(&self) -> SourceCounters {
        SourceCounters::read(&self.object)
    }

    /// Its flows.
    pub const fn flows(&self) -> &FlowMaps {
        &self.flows
    }

    /// A report of the flow came just now.
    ///
    /// # Errors
    /// What the system says.
    pub fn reported(&self, tuple: &Tuple) -> libbpf_rs::Result<()> {
        self.flows.reported(tuple)
    }

    /// Forgets the flows that are over. Call it about once a second; without it they make place for others when the map is full.
    pub fn sweep(&self) {
        self.flows.sweep(HeaderClock::Machine.now());
    }

    /// Puts headers on packets, or does not until it is called again.
    ///
    /// # Errors
    /// What the system says.
    pub fn insert(&self, insert: bool) -> libbpf_rs::Result<()> {
        let stopped = u32::from(!insert);
        map(&self.object, ".data.control")?.update(&0_u32.to_ne_bytes(), &stopped.to_ne_bytes(), MapFlags::ANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_are_named() {
        let said = |options: SourceOptions| options.check().unwrap_err().to_string();
        assert_eq!(
            said(SourceOptions { hops: 6, ..SourceOptions::default() }),
            "hops: 6 hops do not fit into a header; take 1 to 5"
        );
        assert_eq!(
            said(SourceOptions { hops: 15, full_every: 0, ..SourceOptions::default() }),
            "hops: 15 hops do not fit into a header; take 1 to 14"
        );
        assert_eq!(
            said(SourceOptions { one_in: 0, ..SourceOptions::default() }),
            "one in: 0 is not a share; take 1 or more"
        );
        let addresses = vec![(Ipv6Addr::LOCALHOST, 129)];
        assert_eq!(
            said(SourceOptions { addresses, ..SourceOptions::default() }),
            "addresses: ::1/129 is not a prefix; lengths are 0 to 128"
        );
        assert_eq!(SourceOptions::default().reserve(), 120);
        assert_eq!(SourceOptions { profile: RecordProfile::Word, hops: 15, ..SourceOptions::default() }.reserve(), 40);
        assert!(SourceOptions::default().check().is_ok());
    }
}
