//! A tiny datapath for unit tests of controllers: rounds of a fixed RTT, no path behind it.
//!
//! For anything with a queue, write a simulation in `sim`; for measuring what an event costs, [`steady`]. A controller that stands
//! around another is held to [`assert_passes_on`].

mod around;
pub mod rate_limited;
pub mod steady;

use crate::controller::{Ack, Acked, Controller, Ecn, Env, Loss, Lost, Phase, RateSample, Sent};
use crate::units::{Nanos, Time};

pub use around::assert_passes_on;

/// The controller's window in whole packets of the default MSS.
pub fn packets(controller: &dyn Controller) -> u64 {
    controller.window() / u64::from(Env::default().mss)
}

/// An acknowledgement at `now` of `packets` packets of the default MSS, every RTT of which was `rtt`, outside recovery
/// and limited by the window. Change what the test is about.
pub fn ack(now: Time, rtt: Nanos, packets: u32) -> Ack<'static> {
    let bytes = u64::from(packets) * u64::from(Env::default().mss);
    let mut ack = Ack::new(now, &[]);
    (ack.bytes, ack.prior_in_flight) = (bytes, bytes);
    (ack.rtt, ack.srtt, ack.min_rtt) = (Some(rtt), rtt, rtt);
    (ack.delivered, ack.una, ack.next) = (bytes, bytes, bytes);
    ack
}

/// A full packet leaves `controller` at `now`, and the window is full.
pub fn fill(controller: &mut dyn Controller, now: Time) {
    let (bytes, in_flight) = (Env::default().mss, controller.window());
    controller.on_sent(&Sent {
        now,
        seq: 0,
        bytes,
        in_flight,
        retransmission: false,
        app_limited: false,
        unsent: u64::MAX,
    });
}

/// Slow start of `controller` at `now` up to a window of this many packets.
pub fn open(controller: &mut dyn Controller, now: Time, rtt: Nanos, window: u64) {
    while packets(controller) < window {
        let more = packets(controller).min(window - packets(controller));
        fill(controller, now);
        controller.on_ack(&ack(now, rtt, more as u32));
    }
    fill(controller, now);
}

/// Feeds a controller whole rounds: send a window, one RTT later acknowledge it packet by packet.
pub struct Feed {
    /// The controller under test.
    pub controller: Box<dyn Controller>,
    /// The time.
    pub now: Time,
    /// RTT of the next round.
    pub rtt: Nanos,
    /// Share of packets marked CE in the next rounds: every n-th packet; zero marks none.
    pub mark_every: u64,
    mss: u32,
    seq: u64,
    una: u64,
    delivered: u64,
    srtt: Nanos,
    min_rtt: Nanos,
}

impl Feed {
    /// A feed at time zero with an RTT of 100 ms.
    pub fn new(controller: Box<dyn Controller>) -> Self {
        Self {
            controller,
            now: Time::ZERO,
            rtt: Nanos::from_millis(100),
            mark_every: 0,
            mss: Env::default().mss,
            seq: 0,
            una: 0,
            delivered: 0,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
        }
    }

    /// Sends a window's worth, waits one RTT, acknowledges each packet by itself.
    pub fn round(&mut self) {
        let sent = self.send_window();
        let sent_at = self.now;
        let prior_delivered = self.delivered;
        self.now += self.rtt;
        let mut echoed = false;
        for (index, (seq, tag)) in sent.iter().enumerate() {
            let ce = self.mark_every > 0 && (index as u64).is_multiple_of(self.mark_every);
            let acked = Acked {
                seq: *seq,
                bytes: self.mss,
                sent_at,
                tag: *tag,
                retransmitted: false,
                app_limited: false,
                ce,
                received_at: None,
            };
            // Between the first echo and the end of the round the flow reduces (RFC 3168): no growth.
            let reducing = echoed && self.controller.nature().ecn != Ecn::Off;
            let phase = if reducing { Phase::Cwr } else { Phase::Open };
            self.acknowledge(acked, prior_delivered, ce && !echoed, phase);
            echoed |= ce;
        }
    }

    /// Sends a window's worth and loses its first packet; the rest is acknowledged in recovery.
    pub fn lose_one(&mut self) {
        let sent = self.send_window();
        let sent_at = self.now;
        self.now += self.rtt;
        let (seq, tag) = sent[0];
        let lost = [Lost { seq, bytes: self.mss, sent_at, tag, cause: crate::Cause::Unknown }];
        let in_flight = self.seq - self.una;
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &lost,
            bytes: u64::from(self.mss),
            prior_in_flight: in_flight,
            in_flight: in_flight - u64::from(self.mss),
            new_episode: true,
        });
        self.una = self.seq;
        self.delivered = self.seq;
    }

    fn send_window(&mut self) -> Vec<(u64, u64)> {
        let count = (self.controller.window() / u64::from(self.mss)).max(1);
        (0..count)
            .map(|_| {
                let seq = self.seq;
                self.seq += u64::from(self.mss);
                let stamp = self.controller.on_sent(&Sent {
                    now: self.now,
                    seq,
                    bytes: self.mss,
                    in_flight: self.seq - self.una,
                    retransmission: false,
                    app_limited: false,
                    unsent: u64::MAX,
                });
                (seq, stamp.tag)
            })
            .collect()
    }

    fn acknowledge(&mut self, acked: Acked, prior_delivered: u64, echo: bool, phase: Phase) {
        let prior_in_flight = self.seq - self.una;
        let bytes = u64::from(acked.bytes);
        self.una += bytes;
        self.delivered += bytes;
        self.min_rtt = self.min_rtt.min(self.rtt);
        self.srtt = if self.srtt == Nanos::ZERO { self.rtt } else { self.srtt.mul_div(7, 8) + self.rtt.mul_div(1, 8) };
        self.controller.on_ack(&Ack {
            now: self.now,
            packets: &[acked],
            bytes,
            rtt: Some(self.rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            rate: Some(RateSample {
                delivered: self.delivered - prior_delivered,
                interval: self.rtt,
                prior_delivered,
                app_limited: false,
                retransmission: false,
            }),
            prior_in_flight,
            in_flight: self.seq - self.una,
            lost_bytes: 0,
            ce_bytes: if acked.ce { bytes } else { 0 },
            ce_packets: u32::from(acked.ce),
            echo,
            delivered: self.delivered,
            una: self.una,
            next: self.seq,
            phase,
            window_limited: true,
        });
    }
}
