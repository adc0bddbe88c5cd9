//! Sprout: the receiver forecasts how much the link will deliver at the least; the sender sends what will be through the
//! queue within 100 ms. This file is the sender; [`receiver`] is the other half.
//!
//! Source: Winstein, Sivaraman, Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular
//! Networks", NSDI 2013, section 3.5, and the authors' release (`sproutconn.cc`, `sproutbt2.cc`). What differs:
//!
//! - Each tick without feedback drains what the forecast adds for that tick. The release drains the cumulative count
//!   each time, so that it sends too much when feedback is late (`age=release`).
//! - Packets are counted in the datapath's payload at both ends, whole packets leave, and headers are not counted.
//! - The heartbeat is an empty packet.
//! - With nothing in flight one packet may always leave, so that no path is given up for dead.
//!
//! A tick in which the sender stopped before the link did says "the link could do at least this many" (`idle=bound`; our choice). As
//! published, and in the release, it counts as all that the link could do (`idle=exact`), and that can starve for long: one packet a
//! tick makes it believe in 68 packets/s, for which it sends one packet a tick. How often is chance, and hangs on how packets and ticks
//! meet: on links of its own model `exact` uses 50 to 94 % where `bound` uses 98 (medians of ten runs; 80 to 96 where both hosts keep
//! time as measured ones do), and over real sockets 60 % and 99 on two of these links, where `bound` is within 1 % of the simulator.
//! `feedback=0`, feedback exactly at the end of each tick, starves the most; half a tick, which feedback waits in the release for its
//! reverse stream, meets the release's figures on real traces. So `idle=exact` is for comparing with the release: on one recorded trace
//! of three it has the release's 2.3 Mbit/s, where `bound` has 3.3.
//!
//! Sprout-EWMA looks 100 ms ahead at the average rate, whatever a buffer holds: behind less than one BDP it loses 15 to 33 %. A
//! tick of heartbeats alone says nothing of the rate there (our choice: else a silent application takes the average to 0).
//!
//! Two limits belong to the idea. Rates above `max` packets/s are not believed: at 1000, the literature's value, at most
//! 87 packets are on their way (the forecast of 100 ms less its first tick), which is 26 Mbit/s on a round trip of 20 ms
//! and 13 Mbit/s on one of 60 ms. And the 100 ms hold the whole loop, flight and feedback included: on long round trips
//! little is left for the link, unless `lookahead` grows.

pub mod feedback;
pub mod forecast;
pub mod receiver;
pub mod tables;

use std::collections::VecDeque;

use crate::controller::{
    Ack, BadFeedback, Controller, Env, Loss, Nature, Permit, ReceiverHalf, Recovery, Sent, Stamp, Timeout,
};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::units::{Nanos, Time};
use feedback::{Feedback, Note};
use forecast::{Average, Bayesian, Forecast};
use receiver::{Idle, Receiver, TICK};
use tables::{HORIZON, Outage};

/// Packets may overtake each other by this much (section 3.4; the release, `network.cc`).
const REORDERING: Nanos = Nanos::from_millis(10);
/// An idle sender sends an empty packet this often (`fallback_interval` of `sproutbt2.cc`).
const HEARTBEAT: Nanos = Nanos::from_millis(50);
/// What a receiver that knows nothing forecasts: until its first feedback the sender assumes it (the release).
const UNINFORMED: Forecast = [1, 1, 3, 4, 5, 6, 8, 9];

/// How the estimate of the queue shrinks while no feedback arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aging {
    /// By what the forecast adds for each tick (section 3.5).
    Fixed,
    /// By the cumulative count at each tick (`sproutconn.cc`).
    Release,
}

/// The sending half.
#[derive(Clone, Debug)]
pub struct Sprout {
    /// Payload bytes of a packet of the forecasts.
    mss: u32,
    /// Payload bytes of a full packet at present.
    packet: u32,
    lookahead: usize,
    aging: Aging,
    forecast: Forecast,
    /// The receiver's tick behind the forecast; none while it is the uninformed one.
    feedback_tick: Option<u64>,
    /// When the forecast came (the uninformed one: when the first packet left).
    forecast_at: Option<Time>,
    /// Ticks since then, at most the last one foreseen.
    age: usize,
    /// Bytes estimated to be in the network.
    queue: u64,
    next_seq: u64,
    /// Position and time of the packets sent within [`REORDERING`].
    recent: VecDeque<(u64, Time)>,
    /// Bytes, as the datapath last said.
    in_flight: u64,
}

impl Sprout {
    /// A sender that looks `lookahead` ticks of 20 ms ahead.
    pub fn new(env: &Env, lookahead: usize, aging: Aging) -> Self {
        Self {
            mss: env.mss,
            packet: env.mss,
            lookahead,
            aging,
            forecast: UNINFORMED,
            feedback_tick: None,
            forecast_at: None,
            age: 0,
            queue: 0,
            next_seq: 0,
            recent: VecDeque::with_capacity(64),
            in_flight: 0,
        }
    }

    fn bytes(&self, packets: u32) -> u64 {
        u64::from(packets) * u64::from(self.mss)
    }

    /// Bytes that may leave now.
    fn room(&self) -> u64 {
        let ahead = (self.age + self.lookahead).min(HORIZON - 1);
        self.bytes(self.forecast[ahead] - self.forecast[self.age]).saturating_sub(self.queue)
    }

    fn grow_old(&mut self, now: Time) {
        let Some(at) = self.forecast_at else { return };
        let age = TICK.times_in(now.since(at)).min(HORIZON as u64 - 1) as usize;
        while self.age < age {
            let before = match self.aging {
                Aging::Fixed if self.age > 0 => self.forecast[self.age - 1],
                _ => 0,
            };
            self.queue = self.queue.saturating_sub(self.bytes(self.forecast[self.age] - before));
            self.age += 1;
        }
    }
}

impl Controller for Sprout {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.forecast_at.get_or_insert(sent.now);
        self.grow_old(sent.now);
        self.in_flight = sent.in_flight;
        self.queue = self.queue.saturating_add(u64::from(sent.bytes));
        self.next_seq = self.next_seq.max(sent.seq.saturating_add(u64::from(sent.bytes)));
        while self.recent.front().is_some_and(|(_, at)| sent.now.since(*at) > REORDERING) {
            self.recent.pop_front();
        }
        if !sent.retransmission {
            self.recent.push_back((sent.seq, sent.now));
        }
        let oldest = self.recent.front().map_or(sent.seq, |(seq, _)| *seq);
        let ends_flight = sent.app_limited || self.room() < u64::from(self.mss);
        let time_to_next = if ends_flight { HEARTBEAT } else { Nanos::ZERO };
        Stamp { tag: 0, note: Note { throwaway: sent.seq.saturating_sub(oldest), time_to_next }.pack() }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.in_flight = ack.in_flight;
    }

    /// No reaction at all: the forecast knows what the link delivers.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.in_flight = loss.in_flight;
    }

    fn on_timeout(&mut self, _timeout: &Timeout<'_>) {
        self.in_flight = 0;
    }

    fn on_feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        let feedback = Feedback::read(blob)?;
        let Some(queue) = self.next_seq.checked_sub(feedback.received_or_lost) else {
            return Err(BadFeedback { len: blob.len(), what: "it accounts for bytes that were never sent" });
        };
        if self.feedback_tick.is_some_and(|tick| feedback.tick <= tick) {
            return Ok(());
        }
        self.feedback_tick = Some(feedback.tick);
        self.forecast = feedback.forecast;
        self.forecast_at = Some(now);
        self.age = 0;
        self.queue = queue;
        Ok(())
    }

    fn on_tick(&mut self, now: Time) {
        self.grow_old(now);
    }

    /// Forecasts count packets of the size that both ends were made for, so they say the same bytes as before.
    fn on_mss(&mut self, _now: Time, mss: u32) {
        self.packet = mss;
    }

    fn nature(&self) -> Nature {
        Nature { heartbeat: Some(HEARTBEAT), ..Nature::PLAIN }
    }

    fn permit(&self) -> Permit {
        let next_tick = match self.forecast_at {
            Some(at) if self.age + 1 < HORIZON => at + Nanos::from_nanos(TICK.as_nanos() * (self.age as u64 + 1)),
            _ => Time::NEVER,
        };
        let window = self.in_flight.saturating_add(self.room()).max(u64::from(self.packet));
        Permit { next_tick, recovery: Recovery::Controller, ..Permit::up_to(window) }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let packets = |bytes: u64| bytes as f64 / f64::from(self.mss);
        report("cwnd_packets", packets(self.window()));
        report("room_packets", packets(self.room()));
        report("queue_packets", packets(self.queue));
        report("forecast_100ms_packets", f64::from(self.forecast[4]));
        report("forecast_age_ticks", self.age as f64);
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let aging = if params.word("age") == "release" { Aging::Release } else { Aging::Fixed };
    Box::new(Sprout::new(env, params.number("lookahead") as usize, aging))
}

fn make_receiver(params: &Params, env: &Env) -> Box<dyn ReceiverHalf> {
    let outage = if params.word("outage") == "release" { Outage::Release } else { Outage::Normalised };
    let idle = if params.word("idle") == "exact" { Idle::Exact } else { Idle::Bound };
    Box::new(Receiver::new(env, Bayesian::new(params.number("max"), outage), idle, wait(params)))
}

fn make_average(params: &Params, env: &Env) -> Box<dyn ReceiverHalf> {
    Box::new(Receiver::new(env, Average::default(), Idle::Filled, wait(params)))
}

fn wait(params: &Params) -> Nanos {
    Nanos::from_millis_f64(params.number("feedback"))
}

const FEEDBACK: Param = Param {
    name: "feedback",
    unit: "ms from a tick's end to its feedback",
    kind: Kind::Number { min: 0.0, max: 20.0 },
    default: "10",
    source: "our choice: the release's feedback waits half a tick on average for its reverse stream; 0 may starve",
};

const LOOKAHEAD: Param = Param {
    name: "lookahead",
    unit: "ticks of 20 ms",
    kind: Kind::Number { min: 1.0, max: 7.0 },
    default: "5",
    source: "NSDI 2013, section 3.5: 100 ms",
};

const AGE: Param = Param {
    name: "age",
    unit: "how the queue estimate shrinks without feedback",
    kind: Kind::Choice(&["fixed", "release"]),
    default: "fixed",
    source: "NSDI 2013, section 3.5; the release drains the cumulative count each tick",
};

/// `sprout` in the registry.
pub const ENTRY: Entry = Entry {
    name: "sprout",
    summary: "Sprout: sends what the receiver forecasts to be through the queue in 100 ms (believes in at most `max` packets/s)",
    source: "Winstein et al., NSDI 2013, and the authors' release",
    statements: crate::statements::SPROUT,
    home: Home::Udp,
    start: None,
    params: &[
        Param {
            name: "max",
            unit: "packets/s, the fastest rate believed in (1000: 11.6 Mbit/s)",
            kind: Kind::Number { min: 100.0, max: 4000.0 },
            default: "1000",
            source: "NSDI 2013, section 3.1",
        },
        LOOKAHEAD,
        Param {
            name: "outage",
            unit: "form of the outage's row",
            kind: Kind::Choice(&["normalised", "release"]),
            default: "normalised",
            source: "our choice: probabilities sum to 1; the release's row sums to 0.55",
        },
        AGE,
        FEEDBACK,
        Param {
            name: "idle",
            unit: "what a tick says in which the sender stopped before the link",
            kind: Kind::Choice(&["bound", "exact"]),
            default: "bound",
            source: "our choice: `exact`, of Winstein et al. section 3.3 and the release, can starve for long",
        },
    ],
    needs: &[],
    make: &make,
    receiver: Some(&make_receiver),
    lower: None,
};

/// `sprout-ewma` in the registry.
pub const EWMA_ENTRY: Entry = Entry {
    name: "sprout-ewma",
    summary: "Sprout-EWMA: Sprout's sender with an average rate instead of a cautious forecast",
    source: "Winstein et al., NSDI 2013, section 5.3, and the release's branch ewma-noforecast",
    statements: crate::statements::SPROUT,
    home: Home::Udp,
    start: None,
    params: &[LOOKAHEAD, AGE, FEEDBACK],
    needs: &[],
    make: &make,
    receiver: Some(&make_average),
    lower: None,
};

#[cfg(test)]
mod tests;
