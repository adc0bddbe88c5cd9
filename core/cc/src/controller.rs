//! The one abstraction: a congestion controller is a pure state machine.
//!
//! A datapath (simulated TCP, UDP datagrams, a socket above TCP, a kernel flow's agent, an ICN receiver) feeds it
//! events and asks what it permits ([`Controller::permit`]): how many bytes may be in flight, and when the next packet may
//! leave. Nothing else differs between the places where a controller runs.
//!
//! Order of calls: [`Controller::nature`] once, as the flow starts. For one incoming acknowledgement: [`Controller::on_loss`]
//! when the acknowledgement showed packets to be lost, then [`Controller::on_ack`]. For one outgoing packet:
//! [`Controller::on_sent`]. After any event the datapath reads [`Controller::permit`] again.

mod answers;
mod constructors;

use crate::units::{Nanos, Rate, Time};

pub use answers::{Ecn, Nature, Pacing, Permit, Recovery};

/// What the controller is given once, when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Env {
    /// Payload bytes of a full packet (TCP's MSS).
    pub mss: u32,
    /// Seeds the controller's own generator, when it needs one (BBR's probing phase).
    pub seed: u64,
    /// The datapath paces what the controller leaves [`Pacing::Free`] (Linux with fq), so that acknowledgements come
    /// spread over the round trip.
    pub paced: bool,
    /// What an earlier flow to the same place learnt, lent to this one alone.
    pub remembered: Option<Remembered>,
}

impl Default for Env {
    /// 1448 bytes (1500 less IPv4, TCP and time-stamp headers), seed 1, unpaced, and nothing remembered.
    fn default() -> Self {
        Self { mss: 1448, seed: 1, paced: false, remembered: None }
    }
}

/// What a flow learnt of the path to a place, for later ones to the same place (RFC 9959 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remembered {
    /// Bytes that were acknowledged in a round trip.
    pub window: u64,
    /// Smallest RTT.
    pub min_rtt: Nanos,
    /// How long ago that was.
    pub age: Nanos,
}

/// A packet has just left.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// Now.
    pub now: Time,
    /// Position of the packet's first payload byte in the stream. For datagrams: payload bytes sent before it.
    pub seq: u64,
    /// Payload bytes.
    pub bytes: u32,
    /// Bytes in flight, this packet included.
    pub in_flight: u64,
    /// The payload was sent before.
    pub retransmission: bool,
    /// The application had less to send than the window allows.
    pub app_limited: bool,
    /// Bytes that the application has handed over and that have not been sent, these not included.
    pub unsent: u64,
}

/// What a controller attaches to a packet that has just left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stamp {
    /// Comes back with this packet's [`Acked`] or [`Lost`]: the window at sending, a chirp's number.
    pub tag: u64,
    /// Travels with the packet to the controller's [`ReceiverHalf`], where there is one.
    pub note: u64,
}

/// One newly delivered packet.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Acked {
    /// Position of its first payload byte, as in [`Sent::seq`].
    pub seq: u64,
    /// Payload bytes.
    pub bytes: u32,
    /// When it was (last) sent.
    pub sent_at: Time,
    /// The controller's own [`Stamp::tag`].
    pub tag: u64,
    /// It was sent more than once, so its RTT is ambiguous (Karn).
    pub retransmitted: bool,
    /// It was sent while the application limited the flow.
    pub app_limited: bool,
    /// It carried a CE mark (exact feedback only).
    pub ce: bool,
    /// The receiver's clock at its arrival, where the feedback carries one. Only differences mean anything.
    pub received_at: Option<Time>,
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation; Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// Bytes delivered over the interval.
    pub delivered: u64,
    /// Length of the interval: the longer of the sending and the acknowledging interval. Never zero.
    pub interval: Nanos,
    /// The flow's delivered bytes when the sampled packet was sent: a round trip ends when this passes the
    /// delivered count noted at its start.
    pub prior_delivered: u64,
    /// The sampled packet was sent while the application limited the flow.
    pub app_limited: bool,
    /// The sampled packet was a retransmission.
    pub retransmission: bool,
}

impl RateSample {
    /// Delivered bytes over the interval.
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_in(self.delivered, self.interval)
    }
}

/// Where the datapath's loss recovery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// No loss is being repaired.
    #[default]
    Open,
    /// Reducing after an ECN echo (RFC 3168), nothing to repair.
    Cwr,
    /// Fast recovery: from the first loss until everything sent before it has been acknowledged.
    Recovery,
    /// After a retransmission timeout, until everything sent before it has been acknowledged.
    Loss,
}

/// An acknowledgement arrived and delivered something, or carried news of congestion.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ack<'a> {
    /// Now.
    pub now: Time,
    /// The packets newly delivered, in sending order; empty for an acknowledgement that only carried marks, and for the
    /// answer to a handshake, which brings the first RTT before any data has left.
    pub packets: &'a [Acked],
    /// Payload bytes newly delivered (the sum over `packets`).
    pub bytes: u64,
    /// RTT of the newest packet among `packets` that was never retransmitted.
    pub rtt: Option<Nanos>,
    /// Smoothed RTT (RFC 6298); zero before the first sample.
    pub srtt: Nanos,
    /// Smallest RTT since the flow began; [`Nanos::MAX`] before the first sample.
    pub min_rtt: Nanos,
    /// Delivery-rate sample, when a valid one could be made.
    pub rate: Option<RateSample>,
    /// Bytes in flight before this acknowledgement.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// Bytes found lost by this acknowledgement (already reported through [`Controller::on_loss`]).
    pub lost_bytes: u64,
    /// Newly delivered bytes that carried a CE mark. With classic feedback: all of `bytes` when ECE was set.
    pub ce_bytes: u64,
    /// Packets behind `ce_bytes`.
    pub ce_packets: u32,
    /// First congestion echo of this round trip: a controller that answers marks by a reduction reduces now. The next
    /// one comes when something sent after this one has been acknowledged, not before (Linux holds CWR that long). A
    /// controller that [holds against marks](Permit::holds_against_marks) sees it on every marked acknowledgement.
    pub echo: bool,
    /// Payload bytes delivered since the flow began, these included.
    pub delivered: u64,
    /// Everything below this position has been delivered.
    pub una: u64,
    /// Position of the next new byte to send.
    pub next: u64,
    /// Where loss recovery stands after this acknowledgement.
    pub phase: Phase,
    /// The window, not the application, limited the flow when the newest of these packets was sent. Windows grow
    /// only then (RFC 9438 section 4.2, RFC 5681 section 4.1 by way of RFC 7661).
    pub window_limited: bool,
}

impl Ack<'_> {
    /// Newly delivered packets, counted in units of `mss` bytes.
    pub fn packets_of(&self, mss: u32) -> f64 {
        self.bytes as f64 / f64::from(mss)
    }
}

/// One packet declared lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// As [`Sent::seq`].
    pub seq: u64,
    /// Payload bytes.
    pub bytes: u32,
    /// When it was (last) sent.
    pub sent_at: Time,
    /// The controller's own [`Stamp::tag`].
    pub tag: u64,
    /// Why, where the path has said so by now.
    pub cause: Cause,
}

/// Why a packet was lost, when the path says so by telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cause {
    /// Nothing is known.
    #[default]
    Unknown,
    /// A queue was full.
    Congestion,
    /// A queue's management dropped it before the queue was full.
    Aqm,
    /// A policer's rate was exceeded.
    Policer,
    /// The medium corrupted it.
    Medium,
    /// The path changed under it.
    Handover,
}

/// Packets were declared lost (not by a timeout: that is [`Timeout`]).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Loss<'a> {
    /// Now.
    pub now: Time,
    /// The packets, in sending order. Never empty.
    pub packets: &'a [Lost],
    /// Payload bytes lost (the sum over `packets`).
    pub bytes: u64,
    /// Bytes in flight before the packets were taken off.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// First loss of an episode: recovery starts here. A reduction is due once per episode.
    pub new_episode: bool,
}

/// The retransmission timer fired: what left a round trip ago or more is taken for lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timeout<'a> {
    /// Now.
    pub now: Time,
    /// The packets that it declares lost, in sending order, as far as the datapath knows them.
    pub packets: &'a [Lost],
    /// Bytes in flight before.
    pub prior_in_flight: u64,
    /// Bytes still thought to be in flight: sent less than a round trip ago (RFC 8985 section 6.3).
    pub in_flight: u64,
    /// How many times in a row, from 1.
    pub count: u32,
}

/// The flow sends again after a silence with nothing in flight.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Restart {
    /// Now.
    pub now: Time,
    /// Time since the last packet left.
    pub idle: Nanos,
    /// The flow's retransmission timeout at present, without back-off.
    pub rto: Nanos,
}

/// One hop's report from in-band telemetry. What a hop did not report is `None`, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Hop {
    /// Which hop: its node's number, unique on the path.
    pub id: u32,
    /// When the packet came to it, by the hop's own clock: only differences mean anything.
    pub arrived_at: Option<Time>,
    /// How long the packet stayed there.
    pub delay: Option<Nanos>,
    /// Bytes waiting as the packet left.
    pub queue_bytes: Option<u64>,
    /// Packets for which its queue had room.
    pub room_packets: Option<u32>,
    /// Packets that its queue holds when it is full.
    pub limit_packets: Option<u32>,
    /// Capacity of the link at present.
    pub capacity: Option<Rate>,
    /// Rate at which traffic arrives.
    pub arrival: Option<Rate>,
    /// Flows seen lately.
    pub flows: Option<u32>,
    /// Packets that its queue has dropped since the hop began, modulo 2^32: only differences mean anything.
    pub drops: Option<u32>,
    /// Radio signal in dBm, where the hop is a radio.
    pub signal_dbm: Option<f32>,
    /// Share of frames that the radio had to send again, from 0 to 1.
    pub radio_retry_share: Option<f32>,
}

/// The packet that carried a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carrier {
    /// As [`Sent::seq`].
    pub seq: u64,
    /// When it was sent.
    pub sent_at: Time,
    /// The controller's own [`Stamp::tag`].
    pub tag: u64,
}

/// What the hops of the path reported.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Telemetry<'a> {
    /// Now.
    pub now: Time,
    /// The packet that carried it, where the datapath knows it: a report over a broker names none.
    pub packet: Option<Carrier>,
    /// Why packets of the flow were lost in the time that the report covers, as its receiver sees it;
    /// [`Cause::Unknown`] where nothing was lost.
    pub verdict: Cause,
    /// For how long from now on the report may be relied upon. Each report sets it again; afterwards the controller must work as
    /// if there had never been one.
    pub fresh_for: Nanos,
    /// Hops in the direction of data.
    pub hops: &'a [Hop],
}

/// A feedback blob from the receiver half could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("receiver feedback of {len} bytes is malformed: {what}; both ends must run the same controller")]
#[non_exhaustive]
pub struct BadFeedback {
    /// Length of the blob.
    pub len: usize,
    /// What was wrong.
    pub what: &'static str,
}

/// A congestion controller. See the [module](self) for the order of calls.
///
/// Obligations, tested for every registered controller: the window is at least one packet, every described number is
/// finite, no call panics whatever the order of events, and the steady state allocates nothing.
pub trait Controller: Send {
    /// A packet left. The stamp comes back with its acknowledgement or loss.
    fn on_sent(&mut self, sent: &Sent) -> Stamp;

    /// Something was delivered or marked.
    fn on_ack(&mut self, ack: &Ack<'_>);

    /// Packets were declared lost.
    fn on_loss(&mut self, loss: &Loss<'_>);

    /// The retransmission timer fired.
    fn on_timeout(&mut self, timeout: &Timeout<'_>);

    /// The last reduction answered a spurious loss (reordering, a spurious timeout): undo it.
    fn on_spurious(&mut self, _now: Time) {}

    /// Why `packets` were lost has become known after [`Controller::on_loss`] or [`Controller::on_timeout`] reported them:
    /// telemetry often comes later than the loss.
    fn on_cause(&mut self, _now: Time, _packets: &[Lost]) {}

    /// The flow sends again after a silence.
    fn on_restart(&mut self, _restart: &Restart) {}

    /// The application has nothing more to send although the window is open.
    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {}

    /// The hops of the path reported.
    fn on_telemetry(&mut self, _telemetry: &Telemetry<'_>) {}

    /// Another flow over the same path, which shares what it knows, measured an RTT of `min`. It may come at any time, and
    /// may be larger than what this controller has seen itself.
    fn on_shared_rtt(&mut self, _now: Time, _min: Nanos) {}

    /// Full packets have `mss` payload bytes from now on. The window keeps its bytes, if it holds a packet.
    fn on_mss(&mut self, _now: Time, _mss: u32) {}

    /// A blob from this controller's receiver half arrived.
    ///
    /// # Errors
    /// [`BadFeedback`] when the blob is not one that the receiver half writes; the controller's state is unchanged.
    fn on_feedback(&mut self, _now: Time, _blob: &[u8]) -> Result<(), BadFeedback> {
        Ok(())
    }

    /// The time of [`Permit::next_tick`] has come (or passed).
    fn on_tick(&mut self, _now: Time) {}

    /// What stays as it is from the start of the flow to the end.
    fn nature(&self) -> Nature;

    /// What is permitted until the next event.
    fn permit(&self) -> Permit;

    /// [`Permit::window`] alone. No controller writes its own.
    #[inline]
    fn window(&self) -> u64 {
        self.permit().window
    }

    /// [`Permit::pacing`] alone. No controller writes its own.
    #[inline]
    fn pacing(&self) -> Pacing {
        self.permit().pacing
    }

    /// [`Permit::next_tick`] alone. No controller writes its own.
    #[inline]
    fn next_tick(&self) -> Time {
        self.permit().next_tick
    }

    /// What later flows to the same place may make use of; asked as the flow ends. What it was [lent](Env::remembered) is forgotten
    /// unless it is part of the answer.
    fn remember(&self, _now: Time) -> Option<Remembered> {
        None
    }

    /// What gave the present window, where that is not this project: class, method, file and line, for an error about it.
    fn window_set_at(&self) -> Option<String> {
        None
    }

    /// Reports the controller's own variables, for logs and plots. The names are stable, the unit is in the name
    /// unless it is a plain number or packets.
    fn describe(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// A packet arrived at the receiver half.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Arrival {
    /// Now, by the receiver's clock.
    pub now: Time,
    /// As [`Sent::seq`].
    pub seq: u64,
    /// Payload bytes; zero for a heartbeat.
    pub bytes: u32,
    /// The sender's [`Stamp::note`].
    pub note: u64,
    /// It carried a CE mark.
    pub ce: bool,
}

/// The part of a controller that lives at the receiver (Sprout's forecaster).
pub trait ReceiverHalf: Send {
    /// A data packet arrived.
    fn on_arrival(&mut self, arrival: &Arrival);

    /// Writes the feedback for the sender into `blob` (at most [`MAX_FEEDBACK`] bytes) when there is news, and says
    /// whether it did. Asked before each acknowledgement leaves, and at [`ReceiverHalf::next_tick`].
    fn feedback(&mut self, now: Time, blob: &mut Vec<u8>) -> bool;

    /// When [`ReceiverHalf::feedback`] wants to be asked although nothing arrived.
    fn next_tick(&self) -> Time {
        Time::NEVER
    }

    /// As [`Controller::describe`].
    fn describe(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// Largest feedback blob in bytes (our choice: it rides on acknowledgements).
pub const MAX_FEEDBACK: usize = 64;
