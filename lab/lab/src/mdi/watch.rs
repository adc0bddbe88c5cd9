//! What is seen of a controller: one move of the delay and of the window for each epoch.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::mdi::Delays;
use paceline_cc::mdi::grid::{change, moved};
use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Nanos, Time};
use paceline_experiment::{Layer, Subject, Tap};

/// Smallest delay in ms, as the sender has it (`paceline_cc::mdi`).
const MIN_DELAY: f64 = 0.001;

/// From one epoch to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Of the largest RTT.
    pub delay: f32,
    /// Of the window.
    pub window: f32,
    /// The window before it, in packets.
    pub from: f32,
}

impl Move {
    /// The window after it, in packets.
    pub fn to(&self) -> f64 {
        moved(self.from.into(), self.window.into())
    }
}

/// Watches a controller. Its window is what it reports as `cwnd_packets`, or else what may be in flight.
///
/// Epochs begin with the first RTT. A controller that ticks once an epoch has its own: an epoch ends when it has ticked.
#[derive(Debug)]
pub(super) struct Epochs {
    epoch: Nanos,
    delays: Delays,
    d_min: f64,
    /// End of the present epoch; never before the first RTT.
    end: Time,
    last_tick: Time,
    /// The window as last seen.
    window: f64,
    mss: f64,
    epoch_max: Option<f64>,
    last_ack_at: Time,
    /// Delay and window of the last epoch.
    last: Option<(f64, f64)>,
    pub(super) moves: Vec<Move>,
}

impl Epochs {
    fn new(epoch: Nanos, delays: Delays, mss: u32) -> Self {
        Self {
            epoch,
            delays,
            d_min: f64::INFINITY,
            end: Time::NEVER,
            last_tick: Time::NEVER,
            window: 1.0,
            mss: f64::from(mss.max(1)),
            epoch_max: None,
            last_ack_at: Time::ZERO,
            last: None,
            moves: Vec::new(),
        }
    }

    /// The present epoch ends at `at`.
    fn close(&mut self, at: Time) {
        let silence = at.since(self.last_ack_at).as_millis_f64();
        let seen = self.epoch_max.take();
        let delay = seen.unwrap_or_else(|| self.last.map_or(0.0, |(delay, _)| delay).max(silence)).max(MIN_DELAY);
        let window = self.window.max(1.0);
        if let Some((last_delay, last_window)) = self.last {
            self.moves.push(Move {
                delay: change(if self.delays == Delays::Level { self.d_min } else { last_delay }, delay) as f32,
                window: change(last_window, window) as f32,
                from: last_window as f32,
            });
        }
        // As the sender: a silence is not a delay to come back from.
        let kept = if seen.is_some() { delay } else { self.last.map_or(delay, |(last, _)| last) };
        self.last = Some((kept, window));
    }

    fn look(&mut self, controller: &dyn Controller) {
        let mut described = None;
        controller.describe(&mut |name, value| {
            if name == "cwnd_packets" {
                described = Some(value);
            }
        });
        self.window = described.unwrap_or_else(|| controller.window() as f64 / self.mss);
    }
}

impl Observer for Epochs {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let now = event.now();
        if let Event::Tick(_) = event {
            let own = now.since(self.last_tick) == self.epoch;
            self.last_tick = now;
            if own && self.end < Time::NEVER {
                self.look(controller);
                // The first time epochs move to where the controller's are; a short rest of one is left out.
                if self.end.since(now) < Nanos::from_nanos(self.epoch.as_nanos() / 2) || self.end <= now {
                    self.close(now);
                }
                self.end = now + self.epoch;
                return;
            }
        }
        // An epoch that ends with this very event may still be ended by the controller's tick.
        while self.end < now {
            let end = self.end;
            self.close(end);
            self.end = end + self.epoch;
        }
        self.look(controller);
        if let Event::Acked(ack) = event {
            let packets = ack.packets.iter().filter(|packet| !packet.retransmitted);
            let rtts = packets.map(|packet| now.since(packet.sent_at).as_millis_f64());
            if let Some(rtt) = rtts.clone().reduce(f64::max) {
                let smallest = rtts.fold(rtt, f64::min);
                self.d_min = self.d_min.min(smallest.max(MIN_DELAY));
                self.epoch_max = Some(self.epoch_max.map_or(rtt, |max| max.max(rtt)));
                if self.end == Time::NEVER {
                    self.end = now + self.epoch;
                }
            }
            self.last_ack_at = now;
        }
    }
}

/// Sees the controller of the only flow.
pub(super) struct Watch {
    epoch: Nanos,
    delays: Delays,
    seen: Option<Arc<Mutex<Epochs>>>,
}

impl Watch {
    pub(super) fn new(epoch: Nanos, delays: Delays) -> Self {
        Self { epoch, delays, seen: None }
    }

    /// What was seen.
    pub(super) fn moves(self) -> Vec<Move> {
        let taken =
            |seen: Arc<Mutex<Epochs>>| std::mem::take(&mut seen.lock().unwrap_or_else(PoisonError::into_inner).moves);
        self.seen.map(taken).unwrap_or_default()
    }
}

impl Tap for Watch {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        if of.layer != Layer::Packets {
            return None;
        }
        let epochs = Arc::new(Mutex::new(Epochs::new(self.epoch, self.delays, of.env.mss)));
        self.seen = Some(Arc::clone(&epochs));
        Some(Box::new(epochs))
    }
}
