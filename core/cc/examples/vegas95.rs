//! Vegas's window (Brakmo and Peterson, "TCP Vegas: End to end congestion avoidance on a global Internet", IEEE JSAC
//! 13(8), 1995): keep a few packets of one's own in the queue.
//!
//! Differs from the paper: slow start doubles every round trip, not every other one; packets are paced, because bursts
//! of its own would look to it like a queue. (`vegas` is in the registry already, as Linux has it.)

use paceline_cc::controller::{Ack, Controller, Env, Loss, Nature, Pacing, Permit, Sent, Stamp, Timeout};
use paceline_cc::entry::{Entry, Kind, Param, Params};
use paceline_cc::units::{Nanos, Rate, Time};
use paceline_cc::window::{INITIAL_WINDOW, MINIMUM_WINDOW};

/// Pacing rate over window / RTT (Copa section 2: bursts are smoothed, the window still decides).
const PACING_GAIN: u64 = 2;
/// A rate of 0, from a tiny window over a huge RTT, would hold the flow for ever.
const SLOWEST: Rate = Rate::from_bytes_per_sec(1);

/// A window that follows the number of its own packets in the queue.
pub struct Vegas {
    /// Fewer packets queued than this: grow.
    alpha: f64,
    /// More packets queued than this: shrink.
    beta: f64,
    /// Window in packets.
    window: f64,
    /// In slow start.
    starting: bool,
    /// The round trip ends when something beyond this position has been delivered.
    round_end: u64,
    /// Smallest RTT of this round trip.
    round_rtt: Nanos,
    srtt: Nanos,
    mss: u32,
}

impl Vegas {
    /// Keeps between `alpha` and `beta` packets queued.
    pub fn new(env: &Env, alpha: f64, beta: f64) -> Self {
        Self {
            alpha,
            beta: beta.max(alpha),
            window: INITIAL_WINDOW,
            starting: true,
            round_end: 0,
            round_rtt: Nanos::MAX,
            srtt: Nanos::ZERO,
            mss: env.mss,
        }
    }

    /// Once a round trip: the packets queued are the window's surplus over what the bare path holds.
    fn end_round(&mut self, min_rtt: Nanos) {
        let bare = min_rtt.as_secs_f64() / self.round_rtt.as_secs_f64().max(1e-9);
        let queued = self.window * (1.0 - bare);
        if queued > self.beta {
            self.window -= 1.0;
        } else if queued < self.alpha && !self.starting {
            self.window += 1.0;
        }
        self.starting &= queued <= self.alpha;
        self.window = self.window.max(MINIMUM_WINDOW);
    }
}

impl Controller for Vegas {
    fn on_sent(&mut self, _sent: &Sent) -> Stamp {
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.srtt = ack.srtt;
        self.round_rtt = self.round_rtt.min(ack.rtt.unwrap_or(Nanos::MAX));
        if !ack.window_limited {
            return;
        }
        if self.starting {
            self.window += ack.packets_of(self.mss);
        }
        if ack.una > self.round_end && self.round_rtt < Nanos::MAX {
            self.end_round(ack.min_rtt);
            self.round_end = ack.next;
            self.round_rtt = Nanos::MAX;
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if loss.new_episode {
            self.window = (self.window / 2.0).max(MINIMUM_WINDOW);
            self.starting = false;
        }
    }

    fn on_timeout(&mut self, _timeout: &Timeout) {
        self.window = MINIMUM_WINDOW;
        self.starting = false;
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = mss.max(1);
        self.window = (self.window * f64::from(self.mss) / f64::from(mss)).max(MINIMUM_WINDOW);
        self.mss = mss;
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        let window = (self.window * f64::from(self.mss)) as u64;
        let pace = Rate::from_bytes_in(PACING_GAIN * window, self.srtt).max(SLOWEST);
        let mut permit = Permit::up_to(window);
        permit.pacing = Pacing::Rate(pace);
        permit
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.window);
        report("starting", f64::from(u8::from(self.starting)));
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    Box::new(Vegas::new(env, params.number("alpha"), params.number("beta")))
}

const PACKETS: Kind = Kind::Number { min: 0.0, max: 1000.0 };

const PARAMS: &[Param] = &[
    Param::new("alpha", PACKETS, "2").with_unit("packets").with_source("Linux tcp_vegas.c"),
    Param::new("beta", PACKETS, "4").with_unit("packets").with_source("Linux tcp_vegas.c"),
];

/// `vegas95` in the registry.
pub const ENTRY: Entry = {
    let (summary, source) =
        ("Vegas: keeps a few packets of its own in the queue", "Brakmo and Peterson, IEEE JSAC 13(8), 1995");
    let mut entry = Entry::new("vegas95", summary, source, &make);
    entry.params = PARAMS;
    entry
};

fn main() {
    println!("{}: {}", ENTRY.name, ENTRY.summary);
    let mut feed = paceline_cc::testing::Feed::new(Box::new(Vegas::new(&Env::default(), 2.0, 4.0)));
    for rtt in [100, 100, 120, 120, 120, 110, 100, 100] {
        feed.rtt = Nanos::from_millis(rtt);
        feed.round();
        println!("RTT {rtt} ms: window {} packets", feed.controller.window() / 1448);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::testing::{Feed, packets};

    #[test]
    fn a_queue_ends_slow_start_and_is_worked_off() {
        let mut feed = Feed::new(Box::new(Vegas::new(&Env::default(), 2.0, 4.0)));
        feed.round();
        feed.round();
        assert_eq!(packets(feed.controller.as_ref()), 40);
        // 20 ms of queue on 100 ms: a sixth of the window, more than beta.
        feed.rtt = Nanos::from_millis(120);
        feed.round();
        feed.round();
        let before = packets(feed.controller.as_ref());
        feed.round();
        assert_eq!(packets(feed.controller.as_ref()), before - 1);
        // No queue: one packet more each round trip.
        feed.rtt = Nanos::from_millis(100);
        feed.round();
        feed.round();
        assert_eq!(packets(feed.controller.as_ref()), before + 1);
    }
}
