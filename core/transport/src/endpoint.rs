//! The interface of every endpoint towards its driver, which has a clock and a wire.

use std::ops::AddAssign;

use paceline_cc::{Controller, Nanos, Telemetry, Time};

use crate::segment::{AckSegment, Segment};

/// Counters of a sender, from the start of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent, retransmissions and empty ones included.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Of these, lost by the medium as telemetry had it by then.
    pub lost_by_medium: u64,
    /// Of these, dropped by a full queue as telemetry had it by then.
    pub lost_by_congestion: u64,
    /// Of these, dropped by a policer as telemetry had it by then.
    pub lost_by_policer: u64,
    /// Losses found to be wrong afterwards (duplicates reported, F-RTO).
    pub spurious: u64,
    /// Fast-recovery episodes.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Payload bytes known to be delivered.
    pub bytes_delivered: u64,
    /// Packets whose acknowledgement reported a CE mark.
    pub ce_packets: u64,
    /// Feedback blobs that the controller could not read.
    pub bad_feedback: u64,
    /// Above TCP: chunks handed over.
    pub chunks: u64,
    /// Above TCP: of these, the ones for which TCP was the limit: it held back earlier ones, or had refused this one.
    pub limited_below: u64,
}

impl SenderStats {
    /// Packets declared lost of which telemetry has not said why. Some are declared lost twice, and explained twice.
    pub fn lost_unexplained(&self) -> u64 {
        let explained = [self.lost_by_medium, self.lost_by_congestion, self.lost_by_policer];
        explained.iter().fold(self.packets_lost, |lost, part| lost.saturating_sub(*part))
    }

    /// Above TCP: share of its chunks for which TCP was the limit, 0 to 1; 0 before the first chunk.
    pub fn limited_share(&self) -> f64 {
        self.limited_below as f64 / self.chunks.max(1) as f64
    }
}

/// Counters of several senders together.
impl AddAssign<&Self> for SenderStats {
    fn add_assign(&mut self, other: &Self) {
        self.packets_sent += other.packets_sent;
        self.bytes_sent += other.bytes_sent;
        self.retransmits += other.retransmits;
        self.packets_lost += other.packets_lost;
        self.lost_by_medium += other.lost_by_medium;
        self.lost_by_congestion += other.lost_by_congestion;
        self.lost_by_policer += other.lost_by_policer;
        self.spurious += other.spurious;
        self.recoveries += other.recoveries;
        self.timeouts += other.timeouts;
        self.probes += other.probes;
        self.bytes_delivered += other.bytes_delivered;
        self.ce_packets += other.ce_packets;
        self.bad_feedback += other.bad_feedback;
        self.chunks += other.chunks;
        self.limited_below += other.limited_below;
    }
}

/// The end of a flow that has its controller: a [`Sender`], or the requester of data, where it goes.
///
/// Sans-IO. The driver asks it for packets until it has none after every other call and whenever
/// [`Steering::next_timeout`] has come.
pub trait Steering: Send {
    /// The application hands over `bytes` more bytes, or wants this many more. [`u64::MAX`] means "never runs out". A controller
    /// that holds the flow ([`paceline_cc::Pacing::Gap`] without end) is asked again.
    fn write(&mut self, bytes: u64);

    /// The application takes back everything that has not been sent or asked for; what has been is still delivered. Answers
    /// how many bytes that were; of what never runs out still more than any transfer has.
    fn cut(&mut self) -> u64;

    /// When [`Steering::on_timeout`] wants to be called, and its packets to be taken: the earliest of the pacing,
    /// probe, reordering and retransmission timers and the controller's tick.
    fn next_timeout(&self) -> Time;

    /// The time of [`Steering::next_timeout`] has come.
    fn on_timeout(&mut self, now: Time);

    /// Pacing holds the next packet until then; a time that has come: pacing does not hold it.
    fn paced_until(&self) -> Time;

    /// Everything written has been delivered (for datagrams: sent and no longer in flight).
    fn is_idle(&self) -> bool;

    /// Payload bytes in flight.
    fn in_flight(&self) -> u64;

    /// The window in force, in bytes: the controller's, or the recovery's while losses are repaired.
    fn window(&self) -> u64;

    /// Smoothed RTT; `None` before the first sample.
    fn srtt(&self) -> Option<Nanos>;

    /// Counters.
    fn stats(&self) -> SenderStats;

    /// The controller that decides (above TCP: the upper one).
    fn controller(&self) -> &dyn Controller;
}

/// A sender: a TCP-like stream, datagrams, or a controller above a TCP stream.
pub trait Sender: Steering {
    /// The packet that may leave now, if any.
    fn poll_transmit(&mut self, now: Time) -> Option<Segment>;

    /// An acknowledgement arrived. Answers the RTT that the controller learned from it, if any.
    fn on_ack(&mut self, now: Time, ack: &AckSegment) -> Option<Nanos>;

    /// The hops of the path reported. A sender that does not offer telemetry
    /// (`paceline_cc::Ability::Telemetry`) ignores it.
    fn on_telemetry(&mut self, _telemetry: &Telemetry<'_>) {}
}

/// A receiver: takes data, gives acknowledgements by its policy.
///
/// The driver calls [`Receiver::poll_ack`] until it answers `None` after each segment and whenever
/// [`Receiver::next_timeout`] has come.
pub trait Receiver: Send {
    /// A packet arrived; `ce` when it carries a CE mark.
    fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool);

    /// An acknowledgement that is due now.
    fn poll_ack(&mut self, now: Time) -> Option<AckSegment> {
        let mut ack = AckSegment::default();
        self.poll_ack_into(now, &mut ack).then_some(ack)
    }

    /// As [`Receiver::poll_ack`], over an acknowledgement that is no longer needed; false and nothing where none is due.
    fn poll_ack_into(&mut self, now: Time, ack: &mut AckSegment) -> bool;

    /// When `poll_ack` wants to be asked again (delayed acknowledgement, the receiver half's tick).
    fn next_timeout(&self) -> Time;

    /// Payload bytes ready for the application: in order for streams, all distinct ones for datagrams.
    fn bytes_ready(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_explained_twice_leaves_none_unexplained() {
        let stats = |medium, congestion| SenderStats {
            packets_lost: 5,
            lost_by_medium: medium,
            lost_by_congestion: congestion,
            ..SenderStats::default()
        };
        assert_eq!(
            [stats(0, 0), stats(3, 1), stats(3, 2), stats(4, 3)].map(|stats| stats.lost_unexplained()),
            [5, 1, 0, 0]
        );
    }
}
