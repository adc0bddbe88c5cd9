//! A hop: writes what it sees of its egress queue into headers that pass.

use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use paceline_cc::Rate;
use paceline_linux::layout::u32_at;
use paceline_telemetry::report::REFERENCE;
use paceline_telemetry::{HopReport, NodeReport};

use crate::attach::{Attached, Place, Side, attach};
use crate::counters::counters;
use crate::interface::Interface;
use crate::load::{load, map, refused, words};
use crate::queue::{KernelQueueLimit, QueueState, queue};
use crate::{HeaderClock, Hook, NodeError};

const ROLE: &str = "transit hop";
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transit.bpf.o"));
/// What the link says of itself.
const RADIO: &str = "pl_int_radio";
/// What arrives and is dropped: `struct meter` of src/bpf/transit.bpf.c, and where it has the drops in packets and that they are known.
const METERS: &str = "meters";
const LOST: usize = 60;
const BEGUN: usize = 64;
/// Node numbers are of 24 bits.
const NODES: u32 = 1 << 24;

counters! {
    /// What a hop has counted, in packets on the wire.
    TransitCounters {
        /// Records written.
        written,
        /// Packets that entered the queue, with telemetry or without.
        packets,
        /// Headers that had no room left: their overflow flag is set.
        overflow,
        /// Headers of other namespaces, left as they were.
        unknown_namespace,
        /// Headers with other fields than a profile's, or with lengths that do not fit, left as they were.
        unknown_profile,
        /// Hop-by-Hop headers without a trace, left as they were.
        foreign_header,
        /// Where the kernel refused a change.
        failed,
    }
}

/// What a hop writes.
#[derive(Clone, Debug, Default)]
pub struct TransitOptions {
    /// The node's number, of 24 bits; `None`: the last three octets of the interface's hardware address.
    pub node: Option<u32>,
    /// The number of the egress interface; `None`: the system's.
    pub egress: Option<u16>,
    /// The queue's limit; `None`: what the kernel says of it ([`queue`]), and unknown where it does not.
    pub limit: Option<KernelQueueLimit>,
    /// The link's data rate, which full records, the word and the node's reports say; `None`: unknown.
    pub rate: Option<Rate>,
    /// The clock of records with a time.
    pub clock: HeaderClock,
    /// How the program must be held; `None`: as the kernel can.
    pub hook: Option<Hook>,
}

/// What the link behind the queue says of itself: a radio, or what emulates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RadioLink {
    /// Frames lost after all retries, since any moment.
    pub lost: Option<u64>,
    /// Data rate in 0.1 Mbit/s. Records of namespace 0x8001 say at most 6553.4 Mbit/s.
    pub rate_100k: Option<u32>,
    /// Signal in dBm.
    pub rssi_dbm: Option<i8>,
    /// Streams less one (3 bits) and index of the modulation (5 bits).
    pub mcs: Option<u8>,
}

impl RadioLink {
    /// `struct radio` of src/bpf/radio.h.
    fn write(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.lost.unwrap_or(0).to_ne_bytes());
        out[8..12].copy_from_slice(&self.rate_100k.unwrap_or(u32::MAX).to_ne_bytes());
        out[12] = self.rssi_dbm.unwrap_or(i8::MIN).cast_unsigned();
        out[13] = self.mcs.unwrap_or(u8::MAX);
        out[14..].copy_from_slice(&u16::from(self.lost.is_some()).to_ne_bytes());
        out
    }
}

/// A hop at an interface. Dropping it takes it away, as the end of the process does, however that ends.
pub struct TransitNode {
    attached: Attached,
    object: Object,
    interface: Interface,
    node: u32,
    egress: u16,
    limit: Option<KernelQueueLimit>,
    rate_100k: Option<u32>,
    reports: u64,
}

impl TransitNode {
    /// Begins at an interface of the calling thread's network namespace, for what leaves through it.
    ///
    /// # Errors
    /// One line: the process is not root, there is no such interface, the kernel lacks something, or an option cannot be.
    pub fn open(interface: &str, options: &TransitOptions) -> Result<Self, NodeError> {
        let interface = Interface::find(interface)?;
        let node = options.node.unwrap_or(interface.node);
        if node >= NODES {
            let reason = format!("{node} has more than 24 bits; take one below {NODES}");
            return Err(NodeError::Option { option: "node", reason });
        }
        let state = queue(interface.index).ok();
        let limit = options.limit.or_else(|| state.as_ref()?.limit);
        let whole = state.and_then(|state| state.whole).unwrap_or(u32::MAX);
        let egress = options.egress.unwrap_or(interface.index as u16);
        let (packets, bytes) = match limit {
            None => (0, 0),
            Some(KernelQueueLimit::Packets(packets)) => (packets, 0),
            Some(KernelQueueLimit::Bytes(bytes)) => (0, bytes),
        };
        let seed = options.clock.now().as_nanos();
        let mut config = bytes.to_ne_bytes().to_vec();
        config.extend_from_slice(&seed.to_ne_bytes());
        let tai = u32::from(options.clock == HeaderClock::Tai);
        config.extend(words(&[interface.l2, node, egress.into(), packets, REFERENCE as u32, tai, whole]));
        let mut object = load(ROLE, OBJECT, &config, |_| Ok(()))?;
        let rate_100k =
            options.rate.map(|rate| u32::try_from(rate.as_bytes_per_sec() / 12_500).unwrap_or(u32::MAX - 1));
        let set = |object: &Object| {
            let radio = RadioLink { rate_100k, ..RadioLink::default() };
            map(object, RADIO)?.update(&0_u32.to_ne_bytes(), &radio.write(), MapFlags::ANY)
        };
        set(&object).map_err(|source| refused(ROLE, source))?;
        let attached =
            attach(ROLE, &mut object, "pl_int_transit", &interface, (Side::Egress, Place::Last), options.hook)?;
        // Reports of a node that began again are newer than those before.
        let reports = seed / 1000;
        Ok(Self { attached, object, interface, node, egress, limit, rate_100k, reports })
    }

    /// How its program is held.
    pub const fn hook(&self) -> Hook {
        self.attached.hook()
    }

    /// Whether it still does something; to be asked about ten times a second, in the network namespace that it was opened in.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn ensure(&self) -> Result<(), NodeError> {
        self.interface.ensure(ROLE)
    }

    /// The node's number.
    pub const fn node(&self) -> u32 {
        self.node
    }

    /// The limit that it counts from; `None`: it is not known, and neither is the room that is left.
    pub const fn limit(&self) -> Option<KernelQueueLimit> {
        self.limit
    }

    /// What it has counted.
    pub fn counters(&self) -> TransitCounters {
        TransitCounters::read(&self.object)
    }

    /// What the link says of itself from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_radio(&self, radio: &RadioLink) -> libbpf_rs::Result<()> {
        map(&self.object, RADIO)?.update(&0_u32.to_ne_bytes(), &radio.write(), MapFlags::ANY)
    }

    /// The map behind [`TransitNode::set_radio`], for a program that loses packets as a radio does: key 0, value `struct radio`
    /// of src/bpf/radio.h.
    ///
    /// # Errors
    /// What the system says.
    pub fn radio_map(&self) -> libbpf_rs::Result<MapHandle> {
        MapHandle::try_from(&map(&self.object, RADIO)?)
    }

    /// What the node says of its queue now, for a bus. From the network namespace that it was opened in.
    ///
    /// # Errors
    /// What the system says.
    pub fn report(&mut self) -> std::io::Result<NodeReport> {
        let state = queue(self.interface.index)?;
        self.reports += 1;
        Ok(NodeReport {
            node: self.node,
            rseq: self.reports,
            t_node_ns: HeaderClock::Machine.now().as_nanos(),
            hops: vec![self.hop(&state)],
            ..NodeReport::default()
        })
    }

    /// Packets dropped, as records have them, where they do: the kernel counts buffers.
    fn lost(&self) -> Option<u32> {
        let meter = map(&self.object, METERS).ok()?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        u32_at(&meter, LOST).filter(|_| u32_at(&meter, BEGUN).is_some_and(|begun| begun > 0))
    }

    fn hop(&self, state: &QueueState) -> HopReport {
        let packets = |limit: u64, used: u64| u32::try_from(limit.saturating_sub(used)).unwrap_or(u32::MAX);
        let (limit, room) = match self.limit {
            None => (None, None),
            Some(KernelQueueLimit::Packets(limit)) => (Some(limit), Some(packets(limit.into(), state.packets.into()))),
            Some(KernelQueueLimit::Bytes(limit)) => {
                let room = packets(limit.saturating_sub(state.bytes.into()) / REFERENCE, 0);
                (Some(packets(limit / REFERENCE, 0)), Some(room))
            }
        };
        HopReport {
            node: self.node,
            eg: Some(self.egress),
            avail_pkts: room,
            limit_pkts: limit,
            qbytes: Some(state.bytes),
            rate_100k: self.rate_100k,
            qdrop: Some(self.lost().unwrap_or(state.drops) as u16),
            ..HopReport::default()
        }
    }
}

/// How often a node's reports are due: the format's, ten times a second.
impl TransitNode {
    /// Time between two of [`TransitNode::report`].
    pub const INTERVAL: Duration = Duration::from_millis(100);
}
