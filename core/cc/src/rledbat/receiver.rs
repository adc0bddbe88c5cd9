//! The receiver of rLEDBAT: LEDBAT++ on what arrives, and the edge up to which the sender may send.

use std::collections::VecDeque;

use super::{Advertised, FIRST_PACKETS};
use crate::controller::{Ack, Acked, Arrival, Cause, Controller, Env, Loss, Lost, Phase, ReceiverHalf};
use crate::ledbat::Ledbat;
use crate::units::{Nanos, Time};

/// Packets behind a hole that make it a loss (RFC 9002 section 6.1.1, for datagrams).
const BEHIND: u32 = 3;
/// Holes that are remembered (our choice: more are a path that is gone).
const MOST_HOLES: usize = 64;

/// What did not arrive, and may be on its way.
#[derive(Clone, Copy, Debug)]
struct Hole {
    from: u64,
    to: u64,
    /// Packets from behind it.
    behind: u32,
    /// The newest stamp that had come back before it.
    left: Time,
}

/// The receiving half.
pub(super) struct Receiver {
    core: Ledbat,
    mss: u64,
    /// One past the highest byte that arrived; not known before the first.
    highest: Option<u64>,
    edge: u64,
    /// The newest stamp that came back.
    echoed: Time,
    srtt: Nanos,
    min_rtt: Nanos,
    holes: VecDeque<Hole>,
    delivered: u64,
    /// Bytes that arrived in the round trip that began then, and in the one before it.
    round: (Time, u64),
    before: u64,
    news: bool,
}

impl Receiver {
    pub(super) fn new(env: &Env, target_ms: f64) -> Self {
        Self {
            core: Ledbat::at_receiver(env, target_ms),
            mss: u64::from(env.mss.max(1)),
            highest: None,
            edge: 0,
            echoed: Time::ZERO,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            holes: VecDeque::new(),
            delivered: 0,
            round: (Time::ZERO, 0),
            before: 0,
            news: false,
        }
    }

    #[cfg(test)]
    pub(super) fn window(&self) -> u64 {
        self.core.window()
    }

    /// The round trip of a packet, where it is the first that shows a stamp.
    fn sample(&mut self, now: Time, echo: Time) -> Nanos {
        let rtt = now - echo;
        self.min_rtt = self.min_rtt.min(rtt);
        let smoothed = self.srtt.mul_div(7, 8) + rtt.mul_div(1, 8);
        self.srtt = if self.srtt == Nanos::ZERO { rtt } else { smoothed };
        rtt
    }

    /// Bytes that arrive in a round trip, the larger of two.
    fn flight(&mut self, arrival: &Arrival) -> u64 {
        if arrival.now - self.round.0 >= self.srtt {
            self.before = self.round.1;
            self.round = (arrival.now, 0);
        }
        self.round.1 += u64::from(arrival.bytes);
        self.before.max(self.round.1)
    }

    /// Which packet it is: an early one opens a hole, a late one closes one. Says when what is lost left, and whether the packet was
    /// sent again.
    fn place(&mut self, arrival: &Arrival, first: u64, fresh: bool) -> (Option<Time>, bool) {
        let (from, to) = (arrival.seq, arrival.seq.saturating_add(u64::from(arrival.bytes)));
        let highest = self.highest.unwrap_or(first);
        self.highest = Some(highest.max(to));
        if from < highest {
            let left = self.holes.iter().find(|hole| hole.from < to && from < hole.to).map(|hole| hole.left);
            self.holes.retain(|hole| hole.to <= from || to <= hole.from);
            // RFC 9840 section 4.3: below what was seen, with a newer stamp, it is a retransmission.
            return if fresh { (left.or(Some(self.echoed)), true) } else { (None, false) };
        }
        if from > highest {
            if self.holes.len() == MOST_HOLES {
                self.holes.pop_front();
            }
            self.holes.push_back(Hole { from: highest, to: from, behind: 0, left: self.echoed });
        }
        if self.holes.is_empty() {
            return (None, false);
        }
        self.holes.iter_mut().for_each(|hole| hole.behind += 1);
        let lost = self.holes.iter().filter(|hole| hole.behind >= BEHIND).map(|hole| hole.left).max();
        self.holes.retain(|hole| hole.behind < BEHIND);
        (lost, false)
    }
}

impl ReceiverHalf for Receiver {
    fn on_arrival(&mut self, arrival: &Arrival) {
        let (now, bytes) = (arrival.now, u64::from(arrival.bytes));
        let echo = Time::from_nanos(arrival.note);
        let fresh = arrival.note > 0 && echo > self.echoed && echo <= now;
        self.news = true;
        if bytes == 0 {
            return;
        }
        let (lost, again) = self.place(arrival, arrival.seq, fresh);
        let rtt = if fresh && !again { Some(self.sample(now, echo)) } else { None };
        if fresh {
            self.echoed = echo;
        }
        self.delivered += bytes;
        let flight = self.flight(arrival);
        let highest = self.highest.unwrap_or_default();
        if let Some(sent_at) = lost {
            let packets = [Lost { seq: 0, bytes: self.mss as u32, sent_at, tag: 0, cause: Cause::Unknown }];
            let [prior_in_flight, in_flight] = [flight; 2];
            self.core.on_loss(&Loss { now, packets: &packets, bytes, prior_in_flight, in_flight, new_episode: true });
        }
        let packet = Acked {
            seq: arrival.seq,
            bytes: arrival.bytes,
            sent_at: echo,
            tag: 0,
            retransmitted: again,
            app_limited: false,
            ce: false,
            received_at: None,
        };
        self.core.on_ack(&Ack {
            now,
            packets: &[packet],
            bytes,
            rtt,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            rate: None,
            prior_in_flight: flight,
            in_flight: flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: self.delivered,
            una: highest,
            next: self.edge,
            phase: Phase::Open,
            window_limited: flight.saturating_mul(2) > self.core.window(),
        });
        // What was promised stays: a smaller window is paid by what arrives.
        let least = if self.edge == 0 { arrival.seq.saturating_add(FIRST_PACKETS * self.mss) } else { self.edge };
        self.edge = least.max(highest.saturating_add(self.core.window()));
    }

    fn feedback(&mut self, now: Time, blob: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.news) || self.edge == 0 {
            return false;
        }
        Advertised { edge: self.edge, stamp: now.as_nanos() }.write(blob);
        true
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.core.describe(report);
    }
}
