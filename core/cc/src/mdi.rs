//! MDI: a table, trained by watching another controller, says how likely each next move of the window is; a random number
//! chooses one.
//!
//! Source: Khan, Zaki et al., "The case for model-driven interpretability of delay-based congestion control protocols", ACM
//! CCR 51(1), 2021, and the project's sender (`protocols/gmcc2/src/verus_server.cpp`). Names: `w` the window, `w1` and `w2`
//! those of the last two epochs, `d1` and `d2` the largest RTTs of the last two epochs that had acknowledgements. What
//! differs from the release:
//!
//! - An empty block is answered by what states with the same move of the delay do ([`table`]); the release walks to the row of
//!   another state and ends at a window of 1.
//! - The reflexes outside the grid (21 packets more, or 0.975 of the window) belong to the model: training measures them. The
//!   release has literals, changed by hand for each trace of its evaluation.
//! - A move of a value below 2 is weighted as at 2 ([`grid`]), and a window grows at most fourfold in an epoch.
//! - On a path with a longer round trip than training had, without its queue, a model's time goes as much slower: epochs are
//!   that much longer, and delays count that much less. So the window moves as far in a round trip as in training. The release
//!   goes on with 5 ms, and what it does is answered after more moves than training had: it floods.
//! - There it begins with slow start, until an RTT is a quarter above the smallest or a packet is lost: the first seconds of
//!   training would be minutes.
//! - A loss reduces once a flight, and the window of a loss is also the last one, so that the next epoch goes on from it. Until
//!   a packet sent since has arrived the window stays. In the release the first loss ends all later reductions.
//! - From 5 % of loss on the window has a [ceiling](crate::ceiling): models see no losses in training, and a buffer may be too
//!   short for the delays they wait for.
//! - A reduction by packets that were only late is undone.
//! - A timeout halves the window, and slow start begins anew where it is used at all. What was sent before the first arrival after
//!   a timeout gives no RTT, and its losses count no more: it waited for the end of an outage, or was lost in it.
//! - No epochs run before the first RTT, nor while nothing is in flight and nothing is to be sent. The window does not move
//!   while the application limits the flow: it has nothing to send, and what was acknowledged last did not fill the window.
//! - The packets of an epoch are spread over it. At most twice the window is in flight: Verus's rule alone goes on sending
//!   where no acknowledgement comes back.
//! - Epochs missed by a late timer are made up for, at most `MAX_EPOCHS` at once.
//! - The random numbers come from the flow's seed.

mod entry;
pub mod grid;
pub mod model;
pub mod models;
pub mod table;
pub mod text;

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::ceiling::{Ceiling, Signs, Verdict};
use crate::controller::{
    Ack, Acked, Controller, Env, Loss, Nature, Pacing, Permit, Recovery, Restart, Sent, Stamp, Timeout,
};
use crate::units::{Nanos, Rate, Time};
use grid::{Bins, Side, change, moved};
use table::Table;

pub use entry::ENTRY;
pub use model::{Delays, Model, Settings};
pub use text::ReadError;

/// Window at the beginning, in packets (the release).
const FIRST_WINDOW: f64 = 10.0;
/// Multiplicative decrease (`VERUS_M_DECREASE`).
const M: f64 = 0.7;
/// What a timeout leaves of the window (our choice: RFC 5681's half).
const AFTER_TIMEOUT: f64 = 0.5;
/// Weight of the old value in the RTT average (the release of Verus).
const OLD_RTT: f64 = 0.875;
/// Largest growth of the window in an epoch (our choice: small windows have large moves).
const GROWTH: f64 = 4.0;
/// Largest window in packets (`MAX_W_DELAY_CURVE` of Verus's release).
const MAX_WINDOW: f64 = 40_000.0;
/// Smallest delay in ms (our choice: a clock's step; moves are relative to it).
const MIN_DELAY: f64 = 0.001;
/// Most in flight, in windows (our choice: without acknowledgements Verus's rule comes to w (n - 1)/(n - 2), which is this at
/// three epochs a round trip).
const MOST_IN_FLIGHT: f64 = 2.0;
/// A window in packets that makes no queue: if the delay stays above the smallest, the path has become longer (the release of
/// Verus has it so).
const LITTLE_WINDOW: f64 = 2.0;
/// How far the smallest delay then grows in an epoch, in ms (the release of Verus).
const D_MIN_GROWTH: f64 = 10.0;
/// Round trips up to this many times those of training are the same (our choice: the smallest RTT that a flow sees has
/// transmissions and waiting in it).
const SLACK: f64 = 1.25;
/// Most epochs run by one late tick (our choice, as Verus: 20 ms is a bad timer, more is a stall whose steps are stale).
const MAX_EPOCHS: u64 = 4;

/// How a model is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Packets added below the grid.
    pub up: f64,
    /// The window's factor above the grid.
    pub down: f64,
    /// How moves find their place on the grid.
    pub bins: Bins,
}

impl Config {
    /// As the model says.
    pub fn of(table: &Table) -> Self {
        let Settings { up, down, .. } = table.settings();
        Self { up, down, bins: Bins::Nearest }
    }
}

/// The controller. Delays in ms, windows in packets.
#[derive(Clone, Debug)]
pub struct Mdi {
    table: Arc<Table>,
    config: Config,
    rng: Pcg64,
    mss: u32,
    w: f64,
    w1: f64,
    w2: f64,
    d1: f64,
    d2: f64,
    d_min: f64,
    /// The first RTT is known.
    running: bool,
    /// Neither a queue nor a loss has been seen.
    opening: bool,
    rtt_avg: f64,
    /// Largest RTT acknowledged in this epoch.
    epoch_max: Option<f64>,
    last_ack_at: Time,
    /// The last reduction; only packets sent since make another one ...
    reduced_at: Option<Time>,
    /// ... and until one of them has arrived the window stays.
    held: bool,
    /// The window before the last reduction, for undo.
    before: Option<f64>,
    /// The first arrival after a timeout, or the timeout while there is none: an outage may have lasted until then.
    dark_until: Option<Time>,
    /// Nothing has arrived since a timeout.
    dark: bool,
    ceiling: Ceiling,
    /// Bytes, as the datapath last said.
    in_flight: u64,
    /// Bytes that may still leave in this epoch.
    allowance: u64,
    pacing: Pacing,
    next_epoch: Time,
    app_limited: bool,
    /// The window limited the flow when the packet acknowledged last was sent.
    window_limited: bool,
    /// The last moves, for reports.
    moves: (f64, f64),
}

impl Mdi {
    /// MDI before its first RTT.
    pub fn new(env: &Env, table: Arc<Table>, config: Config) -> Self {
        let mut mdi = Self {
            table,
            config,
            rng: Pcg64::seed_from_u64(env.seed),
            mss: env.mss.max(1),
            w: FIRST_WINDOW,
            w1: FIRST_WINDOW,
            w2: FIRST_WINDOW,
            d1: 0.0,
            d2: 0.0,
            d_min: f64::INFINITY,
            running: false,
            opening: true,
            rtt_avg: 0.0,
            epoch_max: None,
            last_ack_at: Time::ZERO,
            reduced_at: None,
            held: false,
            before: None,
            dark_until: None,
            dark: false,
            ceiling: Ceiling::default(),
            in_flight: 0,
            allowance: 0,
            pacing: Pacing::Free,
            next_epoch: Time::NEVER,
            app_limited: false,
            window_limited: false,
            moves: (0.0, 0.0),
        };
        mdi.open();
        mdi
    }

    /// How many times longer the round trip is than it was in training.
    fn stretch(&self) -> f64 {
        let trained = SLACK * self.table.settings().rtt.as_millis_f64();
        if self.running { (self.d_min / trained).max(1.0) } else { 1.0 }
    }

    fn epoch(&self) -> Nanos {
        self.table.settings().epoch.mul_f64(self.stretch())
    }

    fn flight(&self) -> f64 {
        self.in_flight as f64 / f64::from(self.mss)
    }

    fn allow(&mut self, packets: f64) {
        self.allowance = packets.max(0.0) as u64 * u64::from(self.mss);
    }

    /// Before the first RTT the window alone counts.
    fn open(&mut self) {
        self.allow(self.w - self.flight());
        self.pacing = Pacing::Free;
    }

    /// The window, from which the next epoch goes on as if it had not moved.
    fn settle(&mut self, w: f64) {
        self.w = w.min(self.ceiling.packets()).clamp(1.0, MAX_WINDOW);
        self.w1 = self.w;
        self.w2 = self.w;
    }

    fn on_rtt(&mut self, now: Time, rtt: f64) {
        let rtt = rtt.max(MIN_DELAY);
        self.d_min = self.d_min.min(rtt);
        if !self.running {
            self.running = true;
            (self.d1, self.d2, self.rtt_avg) = (rtt, rtt, rtt);
            self.next_epoch = now + self.epoch();
        }
        self.rtt_avg = OLD_RTT * self.rtt_avg + (1.0 - OLD_RTT) * rtt;
        self.epoch_max = Some(self.epoch_max.map_or(rtt, |max| max.max(rtt)));
    }

    /// What was sent at `at` says something of the path: it has not waited for the end of an outage, nor been lost in one.
    fn is_fresh(&self, at: Time) -> bool {
        self.dark_until.is_none_or(|end| at > end)
    }

    fn on_packet(&mut self, now: Time, packet: &Acked) {
        self.held &= self.reduced_at.is_some_and(|at| packet.sent_at <= at);
        if !packet.retransmitted && self.is_fresh(packet.sent_at) {
            self.on_rtt(now, now.since(packet.sent_at).as_millis_f64());
        }
    }

    /// The window after this epoch.
    fn next_window(&mut self, d: f64) -> f64 {
        let (grid, bins) = (self.table.grid(), self.config.bins);
        let level = self.table.settings().delays == Delays::Level;
        let stretch = self.stretch();
        let [least, d2, d1, d] = [self.d_min, self.d2, self.d1, d].map(|delay| delay / stretch);
        let [before, delay] =
            if level { [change(least, d1), change(least, d)] } else { [change(d2, d1), change(d1, d)] };
        self.moves = (delay, 0.0);
        match grid.delays.side(delay) {
            Side::Above => self.config.down * self.w,
            Side::Below => self.w + self.config.up,
            Side::Within => {
                let last = grid.delays.bin(before, bins);
                let state = grid.state(last, grid.windows.bin(change(self.w2, self.w1), bins));
                let window = self.table.draw(state, grid.delays.bin(delay, bins), || self.rng.random());
                self.moves.1 = window;
                moved(self.w1, window).min(GROWTH * self.w1)
            }
        }
    }

    fn run_epochs(&mut self, now: Time, count: u64) {
        for _ in 0..count {
            let seen = self.epoch_max.take();
            let silence = now.since(self.last_ack_at).as_millis_f64();
            let d = seen.unwrap_or_else(|| self.d1.max(silence));
            if !self.held && (self.window_limited || !self.app_limited) {
                self.w = self.next_window(d).min(self.ceiling.packets()).clamp(1.0, MAX_WINDOW);
            }
            self.w2 = self.w1;
            self.w1 = self.w;
            if seen.is_some() {
                self.opening &= d <= SLACK * self.d_min;
                if self.w <= LITTLE_WINDOW {
                    // The smallest delay was another path's.
                    self.d_min = (self.d_min + D_MIN_GROWTH).min(d);
                }
                self.d2 = self.d1;
                self.d1 = d;
            }
        }
        let share = self.share();
        self.allow(share);
        self.pacing = if self.allowance > 0 {
            Pacing::Rate(Rate::from_bytes_in(self.allowance, self.epoch()))
        } else {
            Pacing::Free
        };
    }

    /// Packets to send in an epoch: what is missing in flight, and what returns during the epoch (Verus section 4).
    fn share(&self) -> f64 {
        let flight = self.flight();
        let epochs = (self.rtt_avg / self.epoch().as_millis_f64()).ceil();
        let share = if epochs > 1.0 { self.w + flight * (2.0 - epochs) / (epochs - 1.0) } else { self.w - flight };
        share.min(MOST_IN_FLIGHT * self.w - flight).max(0.0).floor()
    }

    /// Heavy loss says what no model has seen.
    fn count(&mut self, now: Time, delivered: usize, lost: usize) {
        let rtt = Nanos::from_millis_f64(self.rtt_avg);
        match self.ceiling.count(now, rtt, delivered, lost, Signs::Unclear) {
            Some(Verdict::Lossy(share)) => {
                self.ceiling.lower((1.0 - share) * self.w);
                self.settle(self.w);
            }
            Some(Verdict::Clean) => self.before = None,
            None => {}
        }
    }

    /// A smaller window, until the path has answered it.
    fn reduce(&mut self, now: Time, w: f64) {
        self.before = Some(self.w);
        self.reduced_at = Some(now);
        self.held = true;
        self.settle(w);
    }

    fn paused(&self) -> bool {
        self.app_limited && self.in_flight == 0
    }

    /// Epochs run again after a pause, and nothing has moved.
    fn resume(&mut self, now: Time) {
        self.last_ack_at = now;
        self.epoch_max = None;
        self.settle(self.w);
        self.d2 = self.d1;
        if self.running {
            self.next_epoch = now + self.epoch();
        } else {
            self.open();
        }
    }

    /// When the next epoch is due, where the clock runs.
    fn epoch_ends(&self) -> Time {
        if self.paused() { Time::NEVER } else { self.next_epoch }
    }
}

impl Controller for Mdi {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        if self.paused() {
            self.resume(sent.now);
        }
        self.app_limited = sent.app_limited;
        self.in_flight = sent.in_flight;
        self.allowance = self.allowance.saturating_sub(u64::from(sent.bytes));
        Stamp { tag: self.w as u64, note: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if std::mem::take(&mut self.dark) {
            self.dark_until = Some(ack.now);
            self.ceiling.begin();
        }
        for packet in ack.packets {
            self.on_packet(ack.now, packet);
        }
        self.in_flight = ack.in_flight;
        if let Some(rtt) = ack.rtt.filter(|_| ack.packets.is_empty()) {
            self.on_rtt(ack.now, rtt.as_millis_f64());
        }
        if ack.bytes > 0 || ack.rtt.is_some() {
            self.last_ack_at = ack.now;
        }
        if !ack.packets.is_empty() {
            self.window_limited = ack.window_limited;
            if self.opening && ack.window_limited && self.stretch() > 1.0 {
                self.settle(self.w + ack.packets.len() as f64);
            }
            self.count(ack.now, ack.packets.len(), 0);
        }
        if !self.running {
            self.open();
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.in_flight = loss.in_flight;
        let since = |packet: &&crate::Lost| {
            self.reduced_at.is_none_or(|at| packet.sent_at > at) && self.is_fresh(packet.sent_at)
        };
        if let Some(lost) = loss.packets.iter().find(since) {
            self.opening = false;
            self.reduce(loss.now, self.w.min(M * lost.tag.max(1) as f64));
        }
        self.count(loss.now, 0, loss.packets.iter().filter(|lost| self.is_fresh(lost.sent_at)).count());
        if !self.running {
            self.open();
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.in_flight = 0;
        self.reduce(timeout.now, AFTER_TIMEOUT * self.w);
        (self.dark_until, self.dark, self.opening) = (Some(timeout.now), true, true);
        if self.running {
            self.allowance = 0;
        } else {
            self.open();
        }
    }

    fn on_spurious(&mut self, _now: Time) {
        self.ceiling.forgive();
        self.held = false;
        if let Some(before) = self.before.take() {
            self.settle(before.max(self.w));
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.resume(restart.now);
    }

    fn on_app_limited(&mut self, _now: Time, in_flight: u64) {
        self.app_limited = true;
        self.in_flight = in_flight;
    }

    fn on_tick(&mut self, now: Time) {
        if now < self.epoch_ends() {
            return;
        }
        let epoch = self.epoch();
        let due = 1 + epoch.times_in(now.since(self.next_epoch));
        self.run_epochs(now, due.min(MAX_EPOCHS));
        self.next_epoch += Nanos::from_nanos(epoch.as_nanos().saturating_mul(due));
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = mss.max(1);
        let scale = f64::from(self.mss) / f64::from(mss);
        self.mss = mss;
        for w in [&mut self.w, &mut self.w1, &mut self.w2] {
            *w = (*w * scale).clamp(1.0, MAX_WINDOW);
        }
        self.before = self.before.map(|w| w * scale);
        self.ceiling.scale(scale);
        if !self.running {
            self.open();
        }
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit {
            pacing: self.pacing,
            next_tick: self.epoch_ends(),
            recovery: Recovery::Controller,
            is_budget: self.running,
            ..Permit::up_to(self.in_flight.saturating_add(self.allowance).max(u64::from(self.mss)))
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.w);
        report("delay_move", self.moves.0);
        report("window_move", self.moves.1);
        if self.running {
            report("delay_ms", self.d1);
            report("epoch_ms", self.epoch().as_millis_f64());
        }
    }
}

#[cfg(test)]
mod tests;
