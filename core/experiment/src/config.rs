//! What happens in a world: who sends what, when, over which datapath.

use paceline_cc::datapath::ICN;
use paceline_cc::{Bytes, Nanos, Rate, Remembered, Spec, Time};
use serde::{Deserialize, Serialize};

use crate::media::{MediaRate, Stream};
use crate::misbehaving::Misbehaviour;
use crate::seed::Seed;
use crate::telemetry::FlowTelemetry;
use crate::topology::Topology;
use crate::via::Via;
use crate::when::When;

/// A world to run. The body of its paths' packets belongs to its driver.
pub struct Config<P> {
    /// Everything random comes from here.
    pub seed: Seed,
    /// How long.
    pub duration: Nanos,
    /// Nodes, and the links that packets travel over.
    pub topology: Topology<P>,
    /// Flows with a controller.
    pub flows: Vec<Flow>,
    /// Traffic without congestion control.
    pub cross: Vec<Cross>,
    /// Time between two points of [`crate::Series`]; `None` records no series.
    pub sample_every: Option<Nanos>,
}

/// Which way packets travel over a dumbbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DumbbellWay {
    /// From the network to the user.
    #[default]
    Down,
    /// From the user to the network.
    Up,
}

impl DumbbellWay {
    /// Its name in scenarios and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// Where data comes from and where it goes: numbers of nodes. Acknowledgements go the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// Where data is sent.
    pub from: u32,
    /// Where it is received.
    pub to: u32,
}

impl Way {
    /// Of a dumbbell: from the network to the user.
    pub const DOWN: Self = Self { from: 0, to: 1 };
    /// Of a dumbbell: from the user to the network.
    pub const UP: Self = Self { from: 1, to: 0 };
}

impl From<DumbbellWay> for Way {
    fn from(direction: DumbbellWay) -> Self {
        match direction {
            DumbbellWay::Down => Self::DOWN,
            DumbbellWay::Up => Self::UP,
        }
    }
}

/// One flow, or a family of like flows that come and go.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The controller.
    pub controller: Spec,
    /// The datapath.
    pub via: Via,
    /// Where data comes from and where it goes.
    pub way: Way,
    /// When it starts.
    pub start: Time,
    /// When its application stops writing; `None`: with the world.
    pub stop: Option<Time>,
    /// What its application writes.
    pub workload: Workload,
    /// Added to the path's delay for this flow alone, each way.
    pub extra_delay: Nanos,
    /// Payload bytes of a full packet: over [`Via::icn`] those of a unit, [`paceline_icn::UNIT`].
    pub mss: u32,
    /// The TCP receiver's delayed-acknowledgement policy: packets for one acknowledgement; 1 acknowledges each.
    pub ack_every: u32,
    /// Longest delay of an acknowledgement.
    pub ack_delay: Nanos,
    /// Pace TCP flows whose controller leaves pacing to the datapath (Linux with fq).
    pub paced: bool,
    /// The flow begins with an empty packet and its answer (TCP's handshake) before any data; completion times count it.
    pub handshake: bool,
    /// What an earlier flow to the same place learnt.
    pub remembered: Option<Remembered>,
    /// Flows of this family come one after the other to the same place: what one learns is lent to the next.
    pub remember: bool,
    /// Acknowledgements report when each packet arrived ([`paceline_transport::AckSegment::arrivals`]).
    pub arrivals: bool,
    /// What its receiver does in place of what it should; not over [`Via::icn`].
    pub receiver: Option<Misbehaviour>,
    /// How well its two hosts keep time.
    pub timers: Timing,
    /// In-band telemetry. Its header comes on top of the bytes of each data packet.
    pub telemetry: Option<FlowTelemetry>,
    /// Over [`Via::icn`] from a node with a content router: what is fetched from it.
    pub content: Content,
    /// What its controller triggers. Not for a family of flows.
    pub when: Vec<When>,
}

/// An object that flows fetch from content routers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Flows with the same name fetch the same object; without one, each has its own.
    pub object: Option<String>,
    /// Further nodes that are asked for it, beside the one where the flow's data comes from.
    pub sources: Vec<u32>,
}

impl Flow {
    /// Whether it is a fetch from a content router, where nodes have one as `has_router` says.
    pub fn is_fetch(&self, has_router: impl FnOnce(u32) -> bool) -> bool {
        self.via.row().datapath.name == ICN.name && has_router(self.way.from)
    }

    /// Bytes on the wire of a full packet.
    pub fn packet_bytes(&self) -> u32 {
        self.mss
            + self.via.row().headers
            + self.telemetry.as_ref().map_or(0, |telemetry| telemetry.trace.header_bytes())
    }

    /// A bulk flow downwards that lasts as long as the world.
    ///
    /// 1448 bytes: 1500 less IPv4, TCP and time-stamp headers. An acknowledgement every second packet, at the latest
    /// after 40 ms: RFC 5681 section 4.2 with Linux's `TCP_DELACK_MIN`. Unpaced: as Linux without fq.
    pub fn bulk(controller: Spec, via: Via) -> Self {
        let mss = via.payload(1448);
        Self {
            controller,
            via,
            way: Way::DOWN,
            start: Time::ZERO,
            stop: None,
            workload: Workload::Bulk,
            extra_delay: Nanos::ZERO,
            mss,
            ack_every: 2,
            ack_delay: Nanos::from_millis(40),
            paced: false,
            handshake: false,
            remembered: None,
            remember: false,
            arrivals: false,
            receiver: None,
            timers: Timing::default(),
            telemetry: None,
            content: Content::default(),
            when: Vec::new(),
        }
    }
}

/// How well the hosts of a flow keep time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// To the nanosecond: for arithmetic. Flows over a drop-tail queue show phase effects: who is dropped depends on the
    /// ratio of round trips.
    Exact,
    /// What an acknowledgement or the application sets free leaves after up to one packet time of the bottleneck (Floyd and
    /// Jacobson 1992, ns-2's `overhead_`). Timers are late by up to 4 µs; pacing and arrivals are not.
    #[default]
    Overhead,
    /// Late as Linux hosts were when measured, besides: timers, pacing and arrivals by 2 µs in the median, 20 µs in the 90th and 45 µs
    /// in the 99th percentile; packets that a controller paces by gaps are at least 20 µs apart.
    Host,
}

/// What an application writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Workload {
    /// Without end.
    Bulk,
    /// This many bytes, then the flow is done.
    Bytes(Bytes),
    /// Flows of this family arrive as a Poisson process with Pareto-distributed sizes.
    Poisson(Poisson),
    /// Busy and silent in turn.
    OnOff(OnOff),
    /// At a constant rate of payload, a packet at a time.
    Rate(Rate),
    /// Frames of audio and video, over [`Via::in_order`] or native datagrams.
    Media(Vec<Stream>),
    /// The same of a video whose encoder follows the controller.
    MediaRate(MediaRate),
}

/// Flows that arrive as a Poisson process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// Mean time between arrivals.
    pub mean_gap: Nanos,
    /// Shape of the Pareto distribution of sizes.
    pub alpha: f64,
    /// Smallest size.
    pub min: Bytes,
    /// Largest size.
    pub max: Bytes,
    /// Scale of the distribution where draws beyond the range are clamped; without it, `min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Bytes>,
    /// How the range is kept.
    #[serde(default)]
    pub cut: Cut,
    /// Most arrivals; without it, as long as the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How a Pareto distribution is kept in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The distribution is conditioned on the range (its CDF is rescaled).
    #[default]
    Truncate,
    /// A draw beyond the range counts as its end.
    Clamp,
}

/// Writes without end for a time, is silent for a time, in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Mean length of a busy time.
    pub on: Nanos,
    /// Mean length of a silence.
    pub off: Nanos,
    /// Lengths are exponentially distributed rather than fixed.
    #[serde(default)]
    pub random: bool,
}

/// Traffic without a controller: it sends whatever happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Cross {
    /// Where it comes from and where it goes.
    pub way: Way,
    /// Mean rate on the wire.
    pub rate: Rate,
    /// Bytes of a packet on the wire.
    pub packet: u32,
    /// Packets that leave together, such as those of a frame.
    pub burst: u32,
    /// Gaps are exponentially distributed rather than equal.
    pub poisson: bool,
    /// When it starts.
    pub start: Time,
    /// When it stops; `None`: with the world.
    pub stop: Option<Time>,
}
