//! Queues by name: `droptail:bytes=2MB`, `codel:target=5ms,interval=100ms`.

use std::fmt;
use std::str::FromStr;

use paceline_cc::foreign::clipped;
use paceline_cc::names::nearest;
use paceline_cc::units::{rate_text, span_text};
use paceline_cc::{Bytes, Nanos, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keys::Keys;
use super::{
    CoDel, DropHead, DropTail, DualPi2, DualPi2Params, Fq, FqCoDel, FqParams, Pie, Queue, Red, RedParams, Step,
    Threshold, codel, pie,
};
use crate::stats::Count;

/// How much a queue holds; nothing set means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct QueueBound {
    /// Most bytes.
    pub bytes: Option<u64>,
    /// Most packets.
    pub packets: Option<u64>,
    /// Most bytes as a multiple of the bandwidth-delay product.
    pub bdp: Option<f64>,
    /// What waits may take less than this at the present rate, the rest of the packet in service included, when a packet comes; only
    /// of a drop-tail queue.
    pub time: Option<Nanos>,
}

impl QueueBound {
    /// At most this many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..Self::NONE }
    }

    /// At most this many packets.
    pub const fn packets(packets: u64) -> Self {
        Self { packets: Some(packets), ..Self::NONE }
    }

    /// No limit.
    pub const NONE: Self = Self { bytes: None, packets: None, bdp: None, time: None };

    /// Whether a packet of `size` bytes still fits in, apart from what is limited in time.
    pub fn holds(&self, queued: Count, size: u32) -> bool {
        self.bytes.is_none_or(|most| queued.bytes + u64::from(size) <= most)
            && self.packets.is_none_or(|most| queued.packets < most)
    }

    /// For how many packets of [`TYPICAL_PACKET`] bytes there is room beside `queued`; `None` without a limit. A multiple of the
    /// bandwidth-delay product has no limit before it is in bytes.
    pub fn room(&self, queued: Count) -> Option<u64> {
        let by_bytes = self.bytes.map(|most| most.saturating_sub(queued.bytes) / u64::from(TYPICAL_PACKET));
        let by_packets = self.packets.map(|most| most.saturating_sub(queued.packets));
        [by_bytes, by_packets].into_iter().flatten().min()
    }

    /// Bytes that it holds of packets of `packet` bytes; `None` without a limit. A multiple of the bandwidth-delay product is
    /// none before it is in bytes.
    pub fn most(&self, packet: u32) -> Option<u64> {
        let by_packets = self.packets.map(|most| most.saturating_mul(u64::from(packet)));
        [self.bytes, by_packets].into_iter().flatten().min()
    }

    /// What holds whatever this or the other holds.
    pub(super) fn or_more(self, other: Self) -> Self {
        let more = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one.max(other));
        Self {
            bytes: more(self.bytes, other.bytes),
            packets: more(self.packets, other.packets),
            bdp: None,
            time: self.time.zip(other.time).map(|(one, other)| one.max(other)),
        }
    }

    /// Whether what waits is more than it holds.
    pub(super) fn exceeded(self, queued: Count) -> bool {
        self.bytes.is_some_and(|most| queued.bytes > most) || self.packets.is_some_and(|most| queued.packets > most)
    }

    /// As keys: `bytes=2MB,packets=100`.
    fn keys(self) -> String {
        let bytes = self.bytes.map(|bytes| format!("bytes={}", with_unit(bytes)));
        let packets = self.packets.map(|packets| format!("packets={packets}"));
        let bdp = self.bdp.map(|bdp| format!("bdp={bdp}"));
        let time = self.time.map(|time| format!("time={}", span_text(time)));
        let keys: Vec<String> = [bytes, packets, bdp, time].into_iter().flatten().collect();
        keys.join(",")
    }

    /// The limit in bytes and packets for a link of this mean rate and round trip: room for one packet of the largest kind
    /// at least.
    pub(crate) fn resolved(self, rate: Rate, base_rtt: Nanos, largest: u32) -> Self {
        let product = self.bdp.map(|times| ((rate.bytes_in(base_rtt) as f64 * times) as u64).max(u64::from(largest)));
        let bytes = [self.bytes, product].into_iter().flatten().min();
        Self { bytes, bdp: None, ..self }
    }
}

/// A queue and its parameters, as parsed from `name:key=value,key=value` or `name:limit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSpec {
    /// First in, first out, dropping what finds it full; without a limit, the infinite queue.
    DropTail {
        /// How much it holds.
        limit: QueueBound,
    },
    /// First in, first out, dropping the oldest for what finds it full.
    DropHead {
        /// How much it holds.
        limit: QueueBound,
    },
    /// RFC 8289.
    CoDel {
        /// Delay to stay below.
        target: Nanos,
        /// How long the delay may be above.
        interval: Nanos,
        /// How much it holds.
        limit: QueueBound,
    },
    /// RFC 8290.
    FqCoDel {
        /// Delay that each flow stays below.
        target: Nanos,
        /// How long the delay may be above.
        interval: Nanos,
        /// Bytes of a flow in a round.
        quantum: u64,
        /// How much its queues hold together.
        limit: QueueBound,
    },
    /// Linux `sch_fq.c`.
    Fq {
        /// Rounds, the limit of a flow, and a threshold for marks.
        params: FqParams,
        /// How much its queues hold together.
        limit: QueueBound,
    },
    /// RFC 8033.
    Pie {
        /// Delay to settle at.
        target: Nanos,
        /// Time between updates of the probability.
        update: Nanos,
        /// Time for which a burst passes untouched.
        burst: Nanos,
        /// How much it holds.
        limit: QueueBound,
    },
    /// Floyd and Jacobson, gentle.
    Red {
        /// Thresholds, probability and weight.
        params: RedParams,
        /// How much it holds.
        limit: QueueBound,
    },
    /// Marks above a threshold, as DCTCP's switches do.
    Step {
        /// Above what it marks.
        threshold: Threshold,
        /// How much it holds.
        limit: QueueBound,
    },
    /// RFC 9332.
    DualPi2 {
        /// Target, gains, coupling and thresholds.
        params: DualPi2Params,
        /// How much both of its queues hold together.
        limit: QueueBound,
    },
}

/// A queue by name: its keys, and where it comes from.
pub struct QueueEntry {
    /// The name in `name:key=value`.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [&'static str],
    /// One line for a list.
    pub summary: &'static str,
}

/// Every queue, in the order in which they are listed.
pub const QUEUES: &[QueueEntry] = &[
    QueueEntry { name: "infinite", keys: &[], summary: "first in, first out, without a limit" },
    QueueEntry {
        name: "droptail",
        keys: &["bytes", "packets", "bdp", "time", "limit"],
        summary: "first in, first out; drops what finds it full",
    },
    QueueEntry {
        name: "drophead",
        keys: &["bytes", "packets", "bdp", "limit"],
        summary: "first in, first out; drops the oldest for what finds it full",
    },
    QueueEntry { name: "codel", keys: &["target", "interval", "limit"], summary: "controlled delay (RFC 8289)" },
    QueueEntry {
        name: "fq_codel",
        keys: &["target", "interval", "quantum", "limit"],
        summary: "a CoDel queue for each flow, served in turn (RFC 8290)",
    },
    QueueEntry {
        name: "fq",
        keys: &["quantum", "initial_quantum", "flow_limit", "ce_threshold", "maxrate", "limit"],
        summary: "a queue for each flow, served in turn (Linux sch_fq)",
    },
    QueueEntry {
        name: "pie",
        keys: &["target", "update", "burst", "limit"],
        summary: "proportional integral controller enhanced (RFC 8033)",
    },
    QueueEntry {
        name: "red",
        keys: &["min", "max", "probability", "weight", "limit"],
        summary: "random early detection, gentle (Floyd and Jacobson 1993)",
    },
    QueueEntry {
        name: "step",
        keys: &["threshold", "limit"],
        summary: "marks ECN-capable packets above a threshold (DCTCP, SIGCOMM 2010)",
    },
    QueueEntry {
        name: "dualpi2",
        keys: &["target", "tupdate", "alpha", "beta", "k", "step", "range", "th_len", "protection", "spacing", "limit"],
        summary: "a low-latency and a classic queue, coupled (L4S, RFC 9332)",
    },
];

/// Limit behind an AQM for which none is given: Linux `sch_codel.c` and `sch_pie.c`.
const AQM_LIMIT: QueueBound = QueueBound::packets(1000);

/// Limit of all queues of FQ-CoDel, and bytes of a flow in a round, for which none are given: Linux `sch_fq_codel.c`, whose round is
/// an Ethernet frame.
const FQ_LIMIT: QueueBound = QueueBound::packets(10_240);
const FQ_QUANTUM: u64 = 1514;

/// Limit of all queues of DualPI2 or of fair queueing for which none is given: Linux `sch_dualpi2.c`, `sch_fq.c`.
const LONG_LIMIT: QueueBound = QueueBound::packets(10_000);

/// The packet by whose time RED's mean decays while idle, and the largest unless another is given (our choice: a full
/// one).
pub const TYPICAL_PACKET: u32 = 1500;

/// A size that says what it is, whatever it is: a bare number could be packets.
fn with_unit(bytes: u64) -> String {
    let text = Bytes(bytes).to_string();
    if text.ends_with('B') { text } else { format!("{text}B") }
}

/// Why a queue could not be made from its text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// No queue has this name.
    #[error("unknown queue '{name}'; {hint}")]
    UnknownQueue {
        /// The name as given.
        name: String,
        /// The nearest names.
        hint: String,
    },
    /// The queue has no such key.
    #[error("queue '{queue}' has no key '{key}'; {hint}")]
    UnknownKey {
        /// The queue.
        queue: String,
        /// The key as given.
        key: String,
        /// The nearest names.
        hint: String,
    },
    /// Not of the form `key=value`.
    #[error("queue '{queue}': '{text}' is not of the form key=value")]
    NotKeyValue {
        /// The queue.
        queue: String,
        /// The text as given.
        text: String,
    },
    /// The same key twice.
    #[error("queue '{queue}': key '{key}' is given twice; keep one")]
    Twice {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
    /// A value that the key does not take.
    #[error("queue '{queue}': {key}={value} is not {wanted}")]
    BadValue {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What it takes.
        wanted: String,
    },
    /// A queue without a key that it needs.
    #[error("queue '{queue}' needs {key}=: {wanted}")]
    Missing {
        /// The queue.
        queue: String,
        /// The key.
        key: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
}

impl QueueSpec {
    /// The queue without a limit.
    pub const INFINITE: Self = Self::DropTail { limit: QueueBound::NONE };

    /// Makes the queue for a link of this mean rate and a round trip without queues of `base_rtt`. `seed` feeds its
    /// random drops. Packets have up to 1500 bytes.
    pub fn build<P: Send + 'static>(&self, rate: Rate, base_rtt: Nanos, seed: u64) -> Box<dyn Queue<P>> {
        self.build_for(TYPICAL_PACKET, rate, base_rtt, seed)
    }

    /// As [`QueueSpec::build`], for packets of up to `largest` bytes: what is sized in bandwidth-delay products holds
    /// one of them at least.
    pub fn build_for<P: Send + 'static>(
        &self,
        largest: u32,
        rate: Rate,
        base_rtt: Nanos,
        seed: u64,
    ) -> Box<dyn Queue<P>> {
        let sized = |limit: QueueBound| limit.resolved(rate, base_rtt, largest);
        match *self {
            Self::DropTail { limit } => Box::new(DropTail::new(sized(limit))),
            Self::DropHead { limit } => Box::new(DropHead::new(sized(limit))),
            Self::CoDel { target, interval, limit } => Box::new(CoDel::new(target, interval, sized(limit))),
            Self::FqCoDel { target, interval, quantum, limit } => {
                Box::new(FqCoDel::new(target, interval, quantum, sized(limit)))
            }
            Self::Fq { params, limit } => Box::new(Fq::new(params, sized(limit))),
            Self::Pie { target, update, burst, limit } => Box::new(Pie::new(target, update, burst, sized(limit), seed)),
            Self::Red { params, limit } => {
                let packet_time = rate.time_for(u64::from(TYPICAL_PACKET));
                Box::new(Red::new(params, packet_time, sized(limit), seed))
            }
            Self::Step { threshold, limit } => Box::new(Step::new(threshold, sized(limit))),
            Self::DualPi2 { params, limit } => Box::new(DualPi2::new(params, sized(limit), seed)),
        }
    }

    /// How much it holds.
    pub fn limit(&self) -> QueueBound {
        match *self {
            Self::DropTail { limit }
            | Self::DropHead { limit }
            | Self::CoDel { limit, .. }
            | Self::FqCoDel { limit, .. }
            | Self::Fq { limit, .. }
            | Self::Pie { limit, .. }
            | Self::Red { limit, .. }
            | Self::Step { limit, .. }
            | Self::DualPi2 { limit, .. } => limit,
        }
    }
}

impl FromStr for QueueSpec {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Self, QueueError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let entry = QUEUES.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names = QUEUES.iter().map(|entry| entry.name);
            let hint = match name {
                // Letters would say codel, which knows no flows.
                "cake" | "sfq" => "fq_codel shares a link among flows, and fq without an AQM".to_owned(),
                _ => nearest(name, names),
            };
            QueueError::UnknownQueue { name: clipped(name), hint }
        })?;
        let keys = Keys::parse(name, rest, entry.keys)?;
        match name {
            "droptail" => Ok(Self::DropTail { limit: keys.some_limit()? }),
            "drophead" => Ok(Self::DropHead { limit: keys.some_limit()? }),
            "codel" => Ok(Self::CoDel {
                target: keys.span("target", codel::TARGET)?,
                interval: keys.span("interval", codel::INTERVAL)?,
                limit: keys.limit()?.unwrap_or(AQM_LIMIT),
            }),
            "fq_codel" => Ok(Self::FqCoDel {
                target: keys.span("target", codel::TARGET)?,
                interval: keys.span("interval", codel::INTERVAL)?,
                quantum: keys.bytes("quantum")?.unwrap_or(FQ_QUANTUM),
                limit: keys.limit()?.unwrap_or(FQ_LIMIT),
            }),
            "fq" => Ok(Self::Fq { params: keys.fq()?, limit: keys.limit()?.unwrap_or(LONG_LIMIT) }),
            "pie" => Ok(Self::Pie {
                target: keys.span("target", pie::TARGET)?,
                update: keys.span("update", pie::UPDATE)?,
                burst: keys.span("burst", pie::BURST)?,
                limit: keys.limit()?.unwrap_or(AQM_LIMIT),
            }),
            "red" => Ok(Self::Red { params: keys.red()?, limit: keys.limit()?.unwrap_or(AQM_LIMIT) }),
            "dualpi2" => Ok(Self::DualPi2 { params: keys.dualpi2()?, limit: keys.limit()?.unwrap_or(LONG_LIMIT) }),
            "step" => Ok(Self::Step { threshold: keys.threshold()?, limit: keys.limit()?.unwrap_or(AQM_LIMIT) }),
            _ => Ok(Self::INFINITE),
        }
    }
}

/// The text that gives the same queue again, with every key.
impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |span: &Nanos| span_text(*span);
        match self {
            Self::DropTail { limit: QueueBound::NONE } => f.write_str("infinite"),
            Self::DropTail { limit } => write!(f, "droptail:{}", limit.keys()),
            Self::DropHead { limit } => write!(f, "drophead:{}", limit.keys()),
            Self::CoDel { target, interval, limit } => {
                write!(f, "codel:target={},interval={},limit={limit}", span(target), span(interval))
            }
            Self::FqCoDel { target, interval, quantum, limit } => {
                let (target, interval, quantum) = (span(target), span(interval), with_unit(*quantum));
                write!(f, "fq_codel:target={target},interval={interval},quantum={quantum},limit={limit}")
            }
            Self::Fq { params, limit } => {
                let FqParams { quantum, initial_quantum, flow_limit, ce_threshold, maxrate } = params;
                let (quantum, initial) = (with_unit(*quantum), with_unit(*initial_quantum));
                write!(f, "fq:quantum={quantum},initial_quantum={initial},flow_limit={flow_limit}packets")?;
                ce_threshold.map_or(Ok(()), |most| write!(f, ",ce_threshold={}", span_text(most)))?;
                maxrate.map_or(Ok(()), |most| write!(f, ",maxrate={}", rate_text(most)))?;
                write!(f, ",limit={limit}")
            }
            Self::Pie { target, update, burst, limit } => {
                let (target, update, burst) = (span(target), span(update), span(burst));
                write!(f, "pie:target={target},update={update},burst={burst},limit={limit}")
            }
            Self::Red { params, limit } => {
                let RedParams { min, max, probability, weight } = params;
                write!(f, "red:min={min},max={max},probability={probability},weight={weight},limit={limit}")
            }
            Self::DualPi2 { params, limit } => write!(f, "dualpi2:{params},limit={limit}"),
            Self::Step { threshold, limit } => {
                match threshold {
                    Threshold::Bytes(bytes) => write!(f, "step:threshold={}", with_unit(*bytes))?,
                    Threshold::Packets(packets) => write!(f, "step:threshold={packets}packets")?,
                    Threshold::Wait(wait) => write!(f, "step:threshold={}", span(wait))?,
                }
                write!(f, ",limit={limit}")
            }
        }
    }
}

/// As one value with its unit: `2MB`, `100packets`, `1bdp`.
impl fmt::Display for QueueBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { bytes: Some(bytes), .. } => f.write_str(&with_unit(bytes)),
            Self { packets: Some(packets), .. } => write!(f, "{packets}packets"),
            Self { bdp: Some(bdp), .. } => write!(f, "{bdp}bdp"),
            Self { time: Some(time), .. } => f.write_str(&span_text(time)),
            Self::NONE => f.write_str("none"),
        }
    }
}

impl<'de> Deserialize<'de> for QueueSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for QueueSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
