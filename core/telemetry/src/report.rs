//! What goes over the bus, as JSON: a sink's reports of a flow, a node's reports of its queues.
//!
//! Keys that are not known are ignored, so that a version may add some; numbers out of range, long lists and other versions are
//! errors. Keys are short because there are a hundred reports a second for each flow.

use std::net::Ipv6Addr;

use paceline_cc::{Cause, Hop, Nanos, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::{MAX_HOPS, NAMESPACE, NodeRecord, PathWord, WordSignal};

/// Version of the reports.
pub const VERSION: u8 = 1;
/// Most octets of a report (our choice: four times what one of [`MAX_HOPS`] hops takes).
pub const MAX_OCTETS: usize = 16 * 1024;
/// Octets of the packet that rooms and limits are counted in: a full Ethernet frame without its checksum.
pub const REFERENCE: u64 = 1514;

/// A link with less than this share to give does not say its rate (our choice: the words of a share and of a bandwidth are of two packets, between
/// which what arrives changes by some hundredths).
const SAYS: f64 = 0.25;

/// Which flow, as its packets say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tuple {
    /// The data's sender.
    pub src: Ipv6Addr,
    /// The data's receiver.
    pub dst: Ipv6Addr,
    /// The sender's port.
    pub sport: u16,
    /// The receiver's port.
    pub dport: u16,
}

impl Default for Tuple {
    fn default() -> Self {
        Self { src: Ipv6Addr::UNSPECIFIED, dst: Ipv6Addr::UNSPECIFIED, sport: 0, dport: 0 }
    }
}

/// One-way delay of a window's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Smallest, in microseconds.
    pub min: u64,
    /// Mean, in microseconds.
    pub avg: u64,
    /// 95th percentile, in microseconds.
    pub p95: u64,
    /// The hosts have one clock. Otherwise the delays are those above the smallest of the last 10 s.
    pub synced: bool,
}

/// What is known of an egress queue and its link.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct HopReport {
    /// The node's number.
    pub node: u32,
    /// Hop limit of the packet as it left the hop; only of a packet's record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hl: Option<u8>,
    /// The number of its egress interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eg: Option<u16>,
    /// Packets for which there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avail_pkts: Option<u32>,
    /// Packets that fit when the queue is empty: as its node reports it, else the most that a packet has found room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_pkts: Option<u32>,
    /// Octets that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qbytes: Option<u32>,
    /// Packets a second that come, of all flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<u32>,
    /// Flows seen in the last second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Packets dropped by the queue, modulo 2^16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdrop: Option<u16>,
    /// Packets dropped by a policer in front of the queue, modulo 2^16; only in a node's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policed: Option<u16>,
    /// Frames lost by the link, modulo 2^16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lloss: Option<u16>,
    /// Signal in dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rssi: Option<i8>,
    /// Signal over noise in dB; only in a node's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snr: Option<i8>,
    /// Channel in MHz; only in a node's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u16>,
    /// Data rate of the link in 0.1 Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_100k: Option<u32>,
    /// Streams less one (3 bits) and index of the modulation (5 bits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
}

impl HopReport {
    /// What a packet's record says.
    pub fn of(record: &NodeRecord) -> Self {
        Self {
            node: record.node,
            hl: Some(record.hop_limit).filter(|left| *left > 0),
            eg: record.egress,
            avail_pkts: record.room_packets,
            limit_pkts: None,
            qbytes: record.queue_bytes,
            rate_pps: record.arrival_pps.map(|pps| pps as u32),
            flows: record.flows,
            qdrop: record.dropped,
            policed: None,
            lloss: record.link_lost,
            rssi: record.rssi_dbm,
            snr: None,
            channel: None,
            rate_100k: record.rate_100k,
            mcs: record.mcs,
        }
    }

    /// What the words of a way say of the hop that has the least to give, by [`WordSignal`]: the words of another hop are not counted, and
    /// `before` is what they said last, since a link that is full does not say its rate. `None`: it has not been known yet.
    pub fn of_words(words: &[Option<PathWord>; 3], before: Option<&Self>) -> Option<Self> {
        let least = words[WordSignal::Available as usize]?;
        let of_hop = |signal: WordSignal| words[signal as usize].filter(|word| word.hop_limit == least.hop_limit);
        let (available, share) = (least.value()?, of_hop(WordSignal::AvailableShare)?.value()?);
        let node = u32::from(least.hop_limit);
        let known = before.filter(|before| before.node == node).and_then(Self::capacity);
        let said = (share >= SAYS).then(|| Rate::from_bytes_per_sec((available / share / 8.0) as u64));
        let capacity = said.or(known)?.as_bytes_per_sec() as f64;
        let waits = of_hop(WordSignal::Delay).and_then(|word| word.value());
        Some(Self {
            node,
            qbytes: waits.map(|seconds| (seconds * capacity + 0.5) as u32),
            rate_pps: Some((capacity * (1.0 - share) / REFERENCE as f64) as u32),
            rate_100k: Some((capacity / 12_500.0 + 0.5) as u32),
            ..Self::default()
        })
    }

    /// The link's data rate.
    pub fn capacity(&self) -> Option<Rate> {
        self.rate_100k.filter(|rate| *rate > 0).map(|rate| Rate::from_bytes_per_sec(u64::from(rate) * 12_500))
    }

    /// How long a full queue takes to drain, where limit and data rate are known.
    pub fn drain(&self) -> Option<Nanos> {
        Some(self.capacity()?.time_for(u64::from(self.limit_pkts?) * REFERENCE))
    }

    /// Time until the queue is full if each flow brings what all bring now, in seconds: the paper's A / (lambda F). The bottleneck
    /// is where it is smallest.
    pub fn time_to_fill(&self) -> Option<f64> {
        let load = f64::from(self.rate_pps?.max(1)) * f64::from(self.flows.unwrap_or(1).max(1));
        Some(f64::from(self.avail_pkts?) / load)
    }

    /// As controllers see it. Counters are of 16 bits here, so that no difference can be taken of [`Hop::drops`]: it is not set.
    pub fn hop(&self) -> Hop {
        let mut hop = Hop::new(self.node);
        hop.queue_bytes = self.qbytes.map(u64::from);
        hop.room_packets = self.avail_pkts;
        hop.limit_packets = self.limit_pkts;
        hop.capacity = self.capacity();
        hop.arrival = self.rate_pps.map(|pps| Rate::from_bytes_per_sec(u64::from(pps) * REFERENCE));
        hop.flows = self.flows;
        hop.signal_dbm = self.rssi.map(f32::from);
        hop
    }
}

/// What a sink says of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// [`VERSION`].
    pub v: u8,
    /// [`NAMESPACE`].
    pub ns: u16,
    /// The flow's number: a keyed hash of the tuple.
    pub flow: u32,
    /// The flow.
    pub tuple: Tuple,
    /// Number of the report: grows by one with each of a flow.
    pub rseq: u64,
    /// When it was made, by the sink's clock, in nanoseconds.
    pub t_sink_ns: u64,
    /// Time that it covers, in microseconds: since the report before it.
    pub win_us: u64,
    /// Highest sequence number that has come.
    pub hi: u32,
    /// Wire packets that were due in the window: numbers that are old enough not to be merely late.
    pub exp: u32,
    /// How many of them came.
    pub rcv: u32,
    /// Packets that came after they had been counted as lost, or twice.
    #[serde(default)]
    pub late: u32,
    /// How many were dropped by a full queue.
    pub lost_q: u32,
    /// How many a policer dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_p: u32,
    /// How many the medium lost.
    pub lost_m: u32,
    /// How many were lost for a reason that is not known.
    pub lost_u: u32,
    /// Why packets were lost, as far as it is known already; unknown where none were.
    #[serde(serialize_with = "write_cause", deserialize_with = "read_cause")]
    pub verdict: Cause,
    /// One-way delay; `None`: nothing came in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lat_us: Option<Latency>,
    /// The smallest difference between arrival, by the sink's clock, and departure, by the sender's, in microseconds modulo 2^32: the
    /// delay, and how far the sink's clock is ahead. `None`: nothing came in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_us: Option<i32>,
    /// Hop limit with which packets come; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hl: Option<u8>,
    /// Jitter in microseconds (RFC 3550 section 6.4.1).
    pub jit_us: u64,
    /// Largest difference of delay of two packets in a row, in the window, in microseconds.
    #[serde(default)]
    pub jit_max_us: u64,
    /// The congestion window in the newest packet, in packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_echo: Option<u32>,
    /// The hops as the newest packet saw them, first hop first.
    #[serde(default, deserialize_with = "read_hops")]
    pub hops: Vec<HopReport>,
    /// Which of `hops` has the smallest [`HopReport::time_to_fill`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<u8>,
}

impl Default for FlowReport {
    fn default() -> Self {
        Self {
            v: VERSION,
            ns: NAMESPACE,
            flow: 0,
            tuple: Tuple::default(),
            rseq: 0,
            t_sink_ns: 0,
            win_us: 0,
            hi: 0,
            exp: 0,
            rcv: 0,
            late: 0,
            lost_q: 0,
            lost_p: 0,
            lost_m: 0,
            lost_u: 0,
            verdict: Cause::Unknown,
            lat_us: None,
            ahead_us: None,
            hl: None,
            jit_us: 0,
            jit_max_us: 0,
            cwnd_echo: None,
            hops: Vec::new(),
            bottleneck: None,
        }
    }
}

/// What a node says of its queues, ten times a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// [`VERSION`].
    pub v: u8,
    /// [`NAMESPACE`].
    pub ns: u16,
    /// The node's number.
    pub node: u32,
    /// Number of the report: grows by one with each of a node.
    pub rseq: u64,
    /// When it was made, by the node's clock, in nanoseconds.
    pub t_node_ns: u64,
    /// Its egress queues.
    #[serde(default, deserialize_with = "read_hops")]
    pub hops: Vec<HopReport>,
}

impl Default for NodeReport {
    fn default() -> Self {
        Self { v: VERSION, ns: NAMESPACE, node: 0, rseq: 0, t_node_ns: 0, hops: Vec::new() }
    }
}

/// Why octets are not a report.
#[derive(Debug, thiserror::Error)]
pub enum MalformedReport {
    /// Longer than any report.
    #[error("{0} octets are too many for a report, at most {MAX_OCTETS}")]
    Long(usize),
    /// Not JSON, or a field that is missing or of another kind.
    #[error("the report cannot be read: {0}")]
    Json(serde_json::Error),
    /// Another version.
    #[error("the report is of version {0}, this is version {VERSION}; run the same paceline everywhere")]
    Version(u8),
    /// Another namespace.
    #[error("the report is of IOAM namespace {0:#06x}, this is {NAMESPACE:#06x}")]
    Namespace(u16),
    /// A field that says what cannot be.
    #[error("the report contradicts itself: {0}")]
    Nonsense(&'static str),
}

impl FlowReport {
    /// The report as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, texts and lists can always be written")
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`MalformedReport`] when it is malformed, or contradicts itself.
    pub fn from_json(bytes: &[u8]) -> Result<Self, MalformedReport> {
        let report: Self = parse(bytes)?;
        report.check()?;
        Ok(report)
    }

    /// Whether its numbers can be.
    ///
    /// # Errors
    /// [`MalformedReport`] with the first that cannot.
    pub fn check(&self) -> Result<(), MalformedReport> {
        spoken(self.v, self.ns)?;
        let lost: u64 = [self.lost_q, self.lost_p, self.lost_m, self.lost_u].map(u64::from).iter().sum();
        if u64::from(self.rcv) + lost > u64::from(self.exp) {
            return Err(MalformedReport::Nonsense("exp is less than what came and what was lost"));
        }
        if self.hops.len() > MAX_HOPS {
            return Err(MalformedReport::Nonsense("it has too many hops"));
        }
        if self.bottleneck.is_some_and(|hop| usize::from(hop) >= self.hops.len()) {
            return Err(MalformedReport::Nonsense("bottleneck is not one of the hops"));
        }
        Ok(())
    }

    /// Packets lost in the window.
    pub fn lost(&self) -> u32 {
        [self.lost_p, self.lost_m, self.lost_u].iter().fold(self.lost_q, |sum, more| sum.saturating_add(*more))
    }

    /// The hop that fills first.
    pub fn bottleneck(&self) -> Option<&HopReport> {
        self.hops.get(usize::from(self.bottleneck?))
    }
}

impl NodeReport {
    /// The report as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and lists can always be written")
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`MalformedReport`] when it is malformed.
    pub fn from_json(bytes: &[u8]) -> Result<Self, MalformedReport> {
        let report: Self = parse(bytes)?;
        spoken(report.v, report.ns)?;
        Ok(report)
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, MalformedReport> {
    if bytes.len() > MAX_OCTETS {
        return Err(MalformedReport::Long(bytes.len()));
    }
    serde_json::from_slice(bytes).map_err(MalformedReport::Json)
}

fn spoken(version: u8, namespace: u16) -> Result<(), MalformedReport> {
    match (version, namespace) {
        (VERSION, NAMESPACE) => Ok(()),
        (VERSION, _) => Err(MalformedReport::Namespace(namespace)),
        _ => Err(MalformedReport::Version(version)),
    }
}

/// 0: unknown, 1: medium, 2: congestion, 3: policer.
pub fn cause_number(cause: Cause) -> u8 {
    match cause {
        Cause::Medium => 1,
        Cause::Congestion => 2,
        Cause::Policer => 3,
        _ => 0,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn write_cause<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(cause_number(*cause))
}

fn read_cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cause, D::Error> {
    match u8::deserialize(deserializer)? {
        0 => Ok(Cause::Unknown),
        1 => Ok(Cause::Medium),
        2 => Ok(Cause::Congestion),
        3 => Ok(Cause::Policer),
        other => Err(serde::de::Error::custom(format_args!("verdict {other} is not one of 0, 1, 2, 3"))),
    }
}

fn read_hops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HopReport>, D::Error> {
    let hops = Vec::<HopReport>::deserialize(deserializer)?;
    if hops.len() > MAX_HOPS {
        return Err(serde::de::Error::custom(format_args!("{} hops are more than {MAX_HOPS}", hops.len())));
    }
    Ok(hops)
}

#[cfg(test)]
mod tests;
