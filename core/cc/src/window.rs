//! Window controllers made of two pieces: a *start-up* that finds the first window, and a *policy* that grows and
//! reduces it afterwards. Any start-up goes with any policy: `cubic:start=hystart`, `dctcp:start=slow`.
//!
//! The pieces share one [`Window`]. [`WindowController`] holds what they have in common (RFC 5681): which of the two is
//! in charge, one reduction an episode, undo, time-outs, idle restarts.

use crate::controller::{Ack, Controller, Ecn, Env, Loss, Pacing, Phase, Restart, Sent, Stamp, Timeout};
use crate::units::{Nanos, Time};

/// Initial window in packets (RFC 6928).
pub const INITIAL_WINDOW: f64 = 10.0;
/// Smallest window after a reduction in packets (RFC 5681 section 3.1).
pub const MINIMUM_WINDOW: f64 = 2.0;

/// The congestion window and the slow-start threshold, in packets of one MSS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window in packets.
    pub cwnd: f64,
    /// Below this the start-up is in charge. Infinite until the first reduction or the start-up's exit.
    pub ssthresh: f64,
}

impl Window {
    /// The start-up is in charge.
    pub fn starting(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by `packets`, but not past the slow-start threshold: the policy takes over there.
    pub fn open(&mut self, packets: f64) {
        self.cwnd = (self.cwnd + packets).min(self.ssthresh.max(self.cwnd));
    }
}

/// What asks for a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Packets lost, found by acknowledgements.
    Loss,
    /// A congestion echo.
    Ecn,
    /// The retransmission timer.
    Timeout,
}

/// Finds the first window. In charge while `cwnd < ssthresh`.
pub trait StartUp: Send {
    /// A packet left while the start-up is in charge; the answer is its [`Stamp::tag`].
    fn on_sent(&mut self, _sent: &Sent, _window: &mut Window) -> u64 {
        0
    }

    /// Every acknowledgement, whoever is in charge, before anything else.
    fn observe(&mut self, _ack: &Ack<'_>) {}

    /// Something was delivered: grow `cwnd`, or end the start-up by setting `ssthresh` to at most `cwnd`.
    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window);

    /// The start-up is over for another reason: a loss, a mark or a time-out. `window` is what the policy reduces next,
    /// if a reduction is due; a start-up whose `cwnd` stood for no capacity corrects it here.
    fn on_congestion(&mut self, _signal: Signal, _window: &mut Window) {}

    /// The congestion that ended the start-up was spurious; the window has been restored, and the start-up is in charge.
    fn on_spurious(&mut self) {}

    /// The flow sends again after `idle` with nothing in flight. True takes charge again: the start-up has set `window`,
    /// and the policy's own answer to a silence is left out.
    fn on_restart(&mut self, _now: Time, _idle: Nanos, _window: &mut Window) -> bool {
        false
    }

    /// Something was delivered while the policy is in charge and no reduction is due. True takes charge again, with
    /// `window` set for it.
    fn resumes(&mut self, _ack: &Ack<'_>, _window: &mut Window) -> bool {
        false
    }

    /// Marks do not end the start-up: the policy observes them and answers none until it is in charge.
    fn holds_against_marks(&self) -> bool {
        false
    }

    /// Full packets have `mss` payload bytes from now on.
    fn on_mss(&mut self, mss: u32);

    /// The gaps of a start-up that paces (a chirp); nothing leaves them to the policy.
    fn pacing(&self) -> Option<Pacing> {
        None
    }

    /// As [`Controller::next_tick`].
    fn next_tick(&self) -> Time {
        Time::NEVER
    }

    /// As [`Controller::on_tick`].
    fn on_tick(&mut self, _now: Time, _window: &mut Window) {}

    /// As [`Controller::describe`].
    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// Grows and reduces the window after the start-up.
pub trait Policy: Send {
    /// Something was delivered outside start-up and recovery, and the window limited the flow: grow.
    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window);

    /// Every acknowledgement, before anything else (DCTCP's marked fraction).
    fn observe(&mut self, _ack: &Ack<'_>, _window: &Window) {}

    /// A reduction is due: the new slow-start threshold in packets, before the floor of [`MINIMUM_WINDOW`].
    fn reduce(&mut self, signal: Signal, now: Time, window: &Window, in_flight: f64) -> f64;

    /// The retransmission timer fired, whether a reduction was due or not: what it makes forgotten.
    fn on_timeout(&mut self) {}

    /// The last reduction was a mistake; the window has been restored.
    fn undo(&mut self) {}

    /// Full packets have `mss` payload bytes from now on; `scale` packets of that size are what one was.
    fn on_mss(&mut self, mss: u32, scale: f64);

    /// The flow was idle for `idle`.
    fn on_restart(&mut self, _now: Time, _idle: Nanos) {}

    /// The start-up has just ended without congestion.
    fn on_start_end(&mut self, _now: Time, _window: &Window) {}

    /// Use of ECN.
    fn ecn(&self) -> Ecn {
        Ecn::Off
    }

    /// Whether a reduction is due for the marks that `ack` reports: for the first echo of a round trip.
    fn answers(&self, ack: &Ack<'_>) -> bool {
        ack.echo && self.ecn() != Ecn::Off
    }

    /// The window grows also in the round trip after an echo ([`Phase::Cwr`]).
    fn grows_while_reducing(&self) -> bool {
        false
    }

    /// The pace of `window` at a smoothed RTT of `srtt`, where the start-up asks for none.
    fn pacing(&self, _window: &Window, _srtt: Nanos) -> Pacing {
        Pacing::Free
    }

    /// As [`Controller::describe`].
    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// Slow start (RFC 5681 section 3.1 with appropriate byte counting): one packet for each packet acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStart {
    mss: u32,
}

impl SlowStart {
    /// Slow start for packets of `env.mss` bytes.
    pub fn new(env: &Env) -> Self {
        Self { mss: env.mss }
    }
}

impl StartUp for SlowStart {
    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        if ack.window_limited {
            window.open(ack.packets_of(self.mss));
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }
}

/// A start-up and a policy joined to a controller.
pub struct WindowController<P> {
    env: Env,
    window: Window,
    start: Box<dyn StartUp>,
    policy: P,
    /// The window before the last reduction, for undo.
    before: Option<Window>,
    rtt: Nanos,
    /// Between a loss and the end of its repair.
    repairing: bool,
}

impl<P: Policy> WindowController<P> {
    /// Joins `start` and `policy` at the initial window.
    pub fn new(env: &Env, start: Box<dyn StartUp>, policy: P) -> Self {
        let window = Window { cwnd: INITIAL_WINDOW, ssthresh: f64::INFINITY };
        Self { env: *env, window, start, policy, before: None, rtt: Nanos::ZERO, repairing: false }
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The window at present.
    pub fn state(&self) -> Window {
        self.window
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.env.mss)
    }

    fn reduce(&mut self, signal: Signal, now: Time, in_flight: u64) {
        self.before = Some(self.window);
        let in_flight = self.packets(in_flight);
        self.start.on_congestion(signal, &mut self.window);
        let target = self.policy.reduce(signal, now, &self.window, in_flight).max(MINIMUM_WINDOW);
        self.window.ssthresh = target;
        self.window.cwnd = target;
    }
}

impl<P: Policy> Controller for WindowController<P> {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let tag = if self.window.starting() { self.start.on_sent(sent, &mut self.window) } else { 0 };
        Stamp { tag, note: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.rtt = ack.srtt;
        self.repairing &= ack.phase != Phase::Open;
        self.policy.observe(ack, &self.window);
        self.start.observe(ack);
        let holds = self.holds_against_marks();
        if self.policy.answers(ack) && !holds {
            self.reduce(Signal::Ecn, ack.now, ack.prior_in_flight);
            return;
        }
        match ack.phase {
            Phase::Recovery => return,
            Phase::Cwr if !holds && !self.policy.grows_while_reducing() => return,
            Phase::Open | Phase::Cwr | Phase::Loss => {}
        }
        if self.window.starting() {
            self.start.on_ack(ack, &mut self.window);
            if !self.window.starting() {
                self.policy.on_start_end(ack.now, &self.window);
            }
        } else if ack.bytes > 0 {
            if self.start.resumes(ack, &mut self.window) {
                return;
            }
            if ack.window_limited {
                self.policy.grow(ack, &mut self.window);
            }
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if loss.new_episode {
            self.repairing = true;
            self.reduce(Signal::Loss, loss.now, loss.prior_in_flight);
        } else if self.window.starting() {
            self.start.on_congestion(Signal::Loss, &mut self.window);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        // A time-out while losses are repaired is of the same congestion (Linux `tcp_enter_loss`).
        let before = self.window.cwnd;
        if timeout.count == 1 && !self.repairing {
            self.reduce(Signal::Timeout, timeout.now, timeout.prior_in_flight);
        } else {
            self.start.on_congestion(Signal::Timeout, &mut self.window);
        }
        self.policy.on_timeout();
        // RFC 5681's loss window of one, beside what is still in flight (Linux `tcp_enter_loss`).
        self.window.cwnd = (self.packets(timeout.in_flight) + 1.0).min(before.max(1.0));
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some(before) = self.before.take() {
            self.window.cwnd = self.window.cwnd.max(before.cwnd);
            self.window.ssthresh = self.window.ssthresh.max(before.ssthresh);
            if before.ssthresh == f64::INFINITY {
                self.start.on_spurious();
            }
            self.policy.undo();
        }
    }

    /// RFC 5681 section 4.1 in Linux's form (`tcp_cwnd_restart`): halve once for each RTO of silence, not below the initial
    /// window.
    fn on_restart(&mut self, restart: &Restart) {
        let Restart { now, idle, rto } = *restart;
        self.policy.on_restart(now, idle);
        if self.start.on_restart(now, idle, &mut self.window) {
            return;
        }
        let halvings = rto.times_in(idle).min(32);
        if halvings == 0 {
            return;
        }
        self.window.ssthresh = self.window.ssthresh.max(0.75 * self.window.cwnd);
        let floor = INITIAL_WINDOW.min(self.window.cwnd);
        self.window.cwnd = (self.window.cwnd / (1u64 << halvings) as f64).max(floor);
    }

    /// Windows keep their bytes: what the path holds has not changed.
    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = mss.max(1);
        let scale = f64::from(self.env.mss) / f64::from(mss);
        self.env.mss = mss;
        for window in [&mut self.window].into_iter().chain(self.before.as_mut()) {
            window.cwnd = (window.cwnd * scale).max(1.0);
            window.ssthresh = (window.ssthresh * scale).max(1.0);
        }
        self.policy.on_mss(mss, scale);
        self.start.on_mss(mss);
    }

    fn next_tick(&self) -> Time {
        if self.window.starting() { self.start.next_tick() } else { Time::NEVER }
    }

    fn on_tick(&mut self, now: Time) {
        if self.window.starting() {
            self.start.on_tick(now, &mut self.window);
        }
    }

    fn window(&self) -> u64 {
        (self.window.cwnd.max(1.0) * f64::from(self.env.mss)) as u64
    }

    fn pacing(&self) -> Pacing {
        let start = if self.window.starting() { self.start.pacing() } else { None };
        start.unwrap_or_else(|| self.policy.pacing(&self.window, self.rtt))
    }

    fn outlasts_departures(&self) -> bool {
        !self.window.starting()
    }

    fn threshold(&self) -> u64 {
        (self.window.ssthresh * f64::from(self.env.mss)) as u64
    }

    fn ecn(&self) -> Ecn {
        self.policy.ecn()
    }

    /// A classic mark stands for a loss (RFC 3168) and is always answered.
    fn holds_against_marks(&self) -> bool {
        self.window.starting() && self.start.holds_against_marks() && matches!(self.policy.ecn(), Ecn::Exact | Ecn::L4s)
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.window.cwnd);
        if self.window.ssthresh.is_finite() {
            report("ssthresh_packets", self.window.ssthresh);
        }
        report("starting", f64::from(u8::from(self.window.starting())));
        self.start.describe(report);
        self.policy.describe(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Spec;
    use crate::testing::{Feed, packets};

    /// Four round trips of slow start: 160 packets.
    fn grown(spec: &str) -> Feed {
        let mut feed = Feed::new(spec.parse::<Spec>().unwrap().build(&Env::default()));
        for _ in 0..4 {
            feed.round();
        }
        assert_eq!(packets(feed.controller.as_ref()), 160);
        feed
    }

    #[test]
    fn a_silence_halves_the_window_for_each_time_out_of_the_flow() {
        for (rto, left) in [(450, 40), (999, 80), (1001, 160), (100, 10)] {
            let mut feed = grown("reno");
            let (idle, rto) = (Nanos::from_secs(1), Nanos::from_millis(rto));
            feed.controller.on_restart(&Restart { now: Time::from_millis(5_000), idle, rto });
            assert_eq!(packets(feed.controller.as_ref()), left, "{rto}");
        }
    }

    #[test]
    fn after_a_time_out_the_threshold_is_the_policys_and_not_half_the_flight() {
        let mss = u64::from(Env::default().mss);
        for (spec, threshold) in [("reno", 80), ("cubic:start=slow", 112)] {
            let mut feed = grown(spec);
            let controller = feed.controller.as_mut();
            assert_eq!(controller.threshold(), u64::MAX, "{spec}");
            let prior_in_flight = 160 * mss;
            controller.on_timeout(&Timeout {
                now: Time::from_millis(5_000),
                packets: &[],
                prior_in_flight,
                in_flight: 0,
                count: 1,
            });
            assert_eq!((packets(controller), controller.threshold()), (1, threshold * mss), "{spec}");
            controller.on_spurious(Time::from_millis(5_010));
            assert_eq!(controller.threshold(), u64::MAX, "{spec}");
        }
    }
}
