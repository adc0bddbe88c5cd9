//! A start-up and a policy joined to a controller.

use super::{Answer, INITIAL_WINDOW, Lapse, MINIMUM_WINDOW, Policy, Retains, Setback, Signal, StartUp, Window};
use crate::controller::{
    Ack, Controller, Ecn, Env, Loss, Nature, Permit, Phase, Recovery, Remembered, Restart, Sent, Stamp, Telemetry,
    Timeout,
};
use crate::max_flight::MaxFlight;
use crate::units::{Nanos, Time};

/// A start-up and a policy joined to a controller.
pub struct WindowController<P> {
    env: Env,
    window: Window,
    start: Box<dyn StartUp>,
    /// [`StartUp::stays`].
    stays: bool,
    policy: P,
    max_flight: MaxFlight,
    /// The window before the last reduction, and maxFS, for undo.
    before: Option<(Window, f64)>,
    rtt: Nanos,
    /// Between a loss and the end of its repair.
    repairing: bool,
    /// The start-up answers the congestion that ended it ([`StartUp::retains`]).
    retained: bool,
    /// How the last losses were answered.
    answer: Answer,
    /// When an acknowledgement last found the window held, if the last one did.
    held: Option<Time>,
}

impl<P: Policy> WindowController<P> {
    /// Joins `start` and `policy` at the initial window.
    pub fn new(env: &Env, start: Box<dyn StartUp>, policy: P) -> Self {
        let window = Window { cwnd: start.initial(), ssthresh: start.threshold() };
        Self {
            env: *env,
            window,
            stays: start.stays(),
            start,
            policy,
            max_flight: MaxFlight::new(window.cwnd, f64::from(env.mss)),
            before: None,
            rtt: Nanos::ZERO,
            repairing: false,
            retained: false,
            answer: Answer::Reduce,
            held: None,
        }
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The window at present.
    pub fn state(&self) -> Window {
        self.window
    }

    /// The window is set from outside: takes in what an acknowledgement measures, and nothing grows.
    pub(crate) fn watch(&mut self, ack: &Ack<'_>) {
        self.rtt = ack.srtt;
        self.repairing &= ack.phase != Phase::Open;
        self.flies(ack.in_flight);
        self.policy.observe(ack, &self.window);
    }

    /// The window is set from outside, and this many bytes are in flight.
    pub(crate) fn flies(&mut self, in_flight: u64) {
        self.max_flight.update(in_flight, self.window.cwnd);
    }

    /// The window is set to this many packets, within `limit` of maxFS where it grows; the start-up is over, and there is nothing to undo.
    pub(crate) fn set(&mut self, packets: f64, limit: impl FnOnce(f64) -> f64) {
        if self.window.starting() || self.retained {
            self.start.on_congestion(Signal::Loss, &mut self.window);
        }
        self.retained = false;
        let cwnd = self.max_flight.bound(self.window.cwnd, packets.max(1.0), limit);
        self.window = Window { cwnd, ssthresh: cwnd };
        self.before = None;
        self.answer = Answer::Reduce;
    }

    /// What is known of flights, for one who keeps a window of its own.
    pub(crate) fn max_flight(&self) -> MaxFlight {
        self.max_flight
    }

    /// The window goes on from one that was kept elsewhere, with what is known of its flights.
    pub(crate) fn go_on(&mut self, packets: f64, max_flight: MaxFlight) {
        self.set(packets, |_| f64::INFINITY);
        self.max_flight = max_flight;
    }

    /// The window was smaller for a time for no good reason: the start-up brings it back to this many packets.
    pub(crate) fn regain(&mut self, packets: f64) {
        self.window.ssthresh = self.window.ssthresh.max(packets);
    }

    /// The policy, for one who sets the window.
    pub(crate) fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// A classic mark stands for a loss (RFC 3168) and is always answered.
    fn holds_against_marks(&self) -> bool {
        self.stays
            && self.window.starting()
            && self.start.holds_against_marks()
            && matches!(self.policy.ecn(), Ecn::Exact | Ecn::L4s)
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.env.mss)
    }

    /// limit(maxFS), of the start-up where it is in charge.
    #[inline]
    fn limit(&self, starting: bool, max_flight: f64) -> f64 {
        let window = &self.window;
        if starting { self.start.limit(window, max_flight) } else { self.policy.limit(window, max_flight) }
    }

    /// An event is over that found the window at `before`, and the start-up in charge or not: growth ends at limit(maxFS).
    #[inline]
    fn bound(&mut self, before: f64, starting: bool) {
        if self.window.cwnd != before {
            // The floor of a reduction does not count as growth.
            let limit = |max_flight| self.limit(starting, max_flight).max(MINIMUM_WINDOW);
            let mut max_flight = self.max_flight;
            self.window.cwnd = max_flight.bound(before, self.window.cwnd, limit);
            self.max_flight = max_flight;
        }
    }

    /// The window is at limit(maxFS): to start-up and policy it does not limit the flow.
    #[inline]
    fn is_unused(&self) -> bool {
        let (max_flight, cwnd) = (self.max_flight.packets(), self.window.cwnd);
        max_flight < cwnd && self.limit(self.window.starting(), max_flight) <= cwnd
    }

    /// The policy is in charge, and was held at `held`, if it was when the last acknowledgement came.
    fn grow(&mut self, ack: &Ack<'_>, held: Option<Time>) {
        if let Some(share) = self.stays.then(|| self.start.holds(ack)).flatten() {
            // Where the window did not limit the flow, the policy knows by itself that it could not grow.
            if let Some(since) = held.filter(|_| ack.window_limited) {
                self.policy.hold(ack.now - since);
            }
            self.held = Some(ack.now);
            if share < 1.0 && ack.window_limited {
                let cwnd = self.policy.give_way(&self.window, share).max(MINIMUM_WINDOW).min(self.window.cwnd);
                self.window = Window { cwnd, ssthresh: cwnd };
            }
        } else if ack.bytes > 0 && ack.window_limited {
            self.policy.grow(ack, &mut self.window);
        }
    }

    /// An acknowledgement; what it says of who limits the flow is as it counts.
    fn take(&mut self, ack: &Ack<'_>) {
        self.rtt = ack.srtt;
        self.repairing &= ack.phase != Phase::Open;
        let held = self.held.take();
        self.policy.observe(ack, &self.window);
        if self.stays {
            self.start.observe(ack);
        }
        if self.retained {
            self.repair(ack);
            return;
        }
        let holds = self.holds_against_marks();
        if self.policy.answers(ack) && !holds {
            self.follow(Answer::Reduce, Signal::Ecn, ack.now, ack.prior_in_flight);
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
                self.policy.on_start_end(ack.now, &self.window, self.start.product());
                // It has not passed limit(maxFS), and the rest of a window's acknowledgements is still to come.
                if ack.window_limited {
                    self.max_flight.restore(self.window.cwnd);
                }
            }
        } else if ack.bytes == 0 || !self.stays || !self.start.resumes(ack, &mut self.window) {
            self.grow(ack, held);
        }
    }

    /// Does as `answer` says.
    fn follow(&mut self, answer: Answer, signal: Signal, now: Time, in_flight: u64) {
        self.before = Some((self.window, self.max_flight.packets()));
        self.answer = answer;
        if answer == Answer::Stay && self.window.starting() {
            let to = self.policy.spare(signal, now, &self.window);
            self.window.cwnd = to.max(MINIMUM_WINDOW).min(self.window.ssthresh);
            return;
        }
        let in_flight = self.packets(in_flight);
        let starting = self.window.starting();
        self.start.on_congestion(signal, &mut self.window);
        let target = match answer {
            Answer::Reduce => self.policy.reduce(signal, now, &self.window, in_flight),
            Answer::Spare | Answer::Stay => self.policy.spare(signal, now, &self.window),
        };
        if starting && self.stays && answer == Answer::Reduce && signal != Signal::Timeout {
            let kept = (target / self.window.cwnd).clamp(0.0, 1.0);
            let retains = self.start.retains(&Setback { signal, now, kept }, &mut self.window);
            if retains == Retains::Firmly {
                self.before = None;
            }
            self.retained = retains != Retains::Nothing;
            if self.retained {
                self.keep_retained();
                return;
            }
        }
        self.window.ssthresh = target.max(MINIMUM_WINDOW);
        self.window.cwnd = self.window.ssthresh;
    }

    /// The start-up stays in charge after losses.
    fn is_spared(&self) -> bool {
        self.answer == Answer::Stay && self.window.starting()
    }

    /// The start-up is not in charge of growth while it retains the window.
    fn keep_retained(&mut self) {
        self.window.cwnd = self.window.cwnd.max(MINIMUM_WINDOW);
        self.window.ssthresh = self.window.cwnd;
    }

    /// An acknowledgement while the start-up retains the window.
    fn repair(&mut self, ack: &Ack<'_>) {
        self.retained = self.start.repairs(ack, &mut self.window);
        if self.retained {
            self.keep_retained();
            return;
        }
        self.window.cwnd = self.window.cwnd.max(MINIMUM_WINDOW);
        self.window.ssthresh = self.window.ssthresh.max(MINIMUM_WINDOW);
        self.policy.on_start_end(ack.now, &self.window, self.start.product());
    }

    /// A timeout that asks for no answer of its own: a timeout while losses are repaired is of the same congestion (Linux
    /// `tcp_enter_loss`). One that follows another shows that losses were wrongly spared: what they were spared is made up for.
    fn on_another_timeout(&mut self, timeout: &Timeout<'_>) {
        self.start.on_congestion(Signal::Timeout, &mut self.window);
        let spared = std::mem::take(&mut self.answer) != Answer::Reduce;
        if timeout.count == 1 {
            self.answer = if spared { Answer::Spare } else { Answer::Reduce };
        } else if spared && let Some((before, _)) = self.before {
            let in_flight = self.packets(timeout.prior_in_flight);
            let target = self.policy.reduce(Signal::Timeout, timeout.now, &before, in_flight);
            self.window.ssthresh = target.max(MINIMUM_WINDOW);
        }
    }
}

impl<P: Policy> Controller for WindowController<P> {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let mut tag = 0;
        if self.window.starting() {
            let before = self.window.cwnd;
            tag = self.start.on_sent(sent, &mut self.window);
            self.bound(before, true);
        }
        self.flies(sent.in_flight);
        Stamp { tag, note: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.flies(ack.in_flight);
        let (before, starting) = (self.window.cwnd, self.window.starting());
        let unused;
        let counts = if ack.window_limited && self.is_unused() {
            unused = Ack { window_limited: false, ..*ack };
            &unused
        } else {
            ack
        };
        self.take(counts);
        self.bound(before, starting);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.flies(loss.in_flight);
        let (before, starting) = (self.window.cwnd, self.window.starting());
        self.repairing |= loss.new_episode;
        if loss.new_episode && !self.retained {
            let lapse = Lapse { signal: Signal::Loss, now: loss.now, packets: loss.packets };
            let answer = self.policy.answer(&lapse, &self.window);
            self.follow(answer, Signal::Loss, loss.now, loss.prior_in_flight);
        } else if self.window.starting() && self.answer != Answer::Stay {
            self.start.on_congestion(Signal::Loss, &mut self.window);
        }
        if self.retained || self.is_spared() {
            self.start.loses(self.packets(loss.bytes), &mut self.window);
        }
        if self.retained {
            self.keep_retained();
        }
        self.bound(before, starting);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.flies(timeout.in_flight);
        let (before, starting) = (self.window.cwnd, self.window.starting());
        self.retained = false;
        let mut answer = Answer::Reduce;
        if timeout.count == 1 {
            let lapse = Lapse { signal: Signal::Timeout, now: timeout.now, packets: timeout.packets };
            answer = self.policy.answer(&lapse, &self.window);
        }
        if timeout.count == 1 && !self.repairing {
            self.follow(answer, Signal::Timeout, timeout.now, timeout.prior_in_flight);
        } else {
            self.on_another_timeout(timeout);
        }
        // RFC 5681's loss window of one, beside what is still in flight (Linux `tcp_enter_loss`).
        let mut window = self.packets(timeout.in_flight) + 1.0;
        if answer == Answer::Reduce {
            self.policy.on_timeout();
        } else {
            window = window.max(self.policy.loss_window());
        }
        self.window.cwnd = window.min(before.max(1.0));
        if self.is_spared() {
            let lost = timeout.prior_in_flight.saturating_sub(timeout.in_flight);
            self.start.loses(self.packets(lost), &mut self.window);
        }
        self.bound(before, starting);
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some((before, max_flight)) = self.before.take() {
            self.max_flight.restore(max_flight);
            self.window.cwnd = self.window.cwnd.max(before.cwnd);
            self.window.ssthresh = self.window.ssthresh.max(before.ssthresh);
            self.retained = false;
            if before.ssthresh == f64::INFINITY && self.answer != Answer::Stay {
                self.start.on_spurious();
            }
            self.policy.undo();
        }
    }

    /// RFC 5681 section 4.1 in Linux's form (`tcp_cwnd_restart`): halve once for each RTO of silence, not below the initial
    /// window.
    fn on_restart(&mut self, restart: &Restart) {
        let Restart { now, idle, rto } = *restart;
        self.held = None;
        let (before, starting) = (self.window.cwnd, self.window.starting());
        self.policy.on_restart(now, idle);
        if self.start.on_restart(restart, &mut self.window) {
            self.bound(before, starting);
            return;
        }
        let halvings = rto.times_in(idle).min(32);
        if halvings == 0 {
            return;
        }
        self.window.ssthresh = self.window.ssthresh.max(0.75 * self.window.cwnd);
        let floor = INITIAL_WINDOW.min(self.window.cwnd);
        self.window.cwnd = (self.window.cwnd / (1u64 << halvings) as f64).max(floor);
        self.bound(before, starting);
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.policy.on_telemetry(telemetry);
        self.start.on_telemetry(telemetry);
    }

    /// Windows keep their bytes: what the path holds has not changed.
    fn on_mss(&mut self, _now: Time, mss: u32) {
        let mss = mss.max(1);
        let scale = f64::from(self.env.mss) / f64::from(mss);
        self.env.mss = mss;
        self.max_flight.on_mss(f64::from(mss));
        let mut before = self.before.as_mut();
        if let Some((_, max_flight)) = &mut before {
            *max_flight *= scale;
        }
        for window in [&mut self.window].into_iter().chain(before.map(|(window, _)| window)) {
            window.cwnd = (window.cwnd * scale).max(1.0);
            window.ssthresh = (window.ssthresh * scale).max(1.0);
        }
        self.policy.on_mss(mss, scale);
        self.start.on_mss(mss);
    }

    fn on_tick(&mut self, now: Time) {
        if self.window.starting() {
            let before = self.window.cwnd;
            self.start.on_tick(now, &mut self.window);
            self.bound(before, true);
        }
    }

    fn remember(&self, now: Time) -> Option<Remembered> {
        self.start.remember(&self.window, now)
    }

    fn nature(&self) -> Nature {
        Nature { ecn: self.policy.ecn(), ..Nature::PLAIN }
    }

    fn permit(&self) -> Permit {
        let (mss, starting) = (f64::from(self.env.mss), self.window.starting());
        let mut permit = Permit {
            threshold: (self.window.ssthresh * mss) as u64,
            outlasts_departures: !starting,
            ..Permit::up_to((self.window.cwnd.max(1.0) * mss) as u64)
        };
        if self.retained {
            permit.recovery = Recovery::Controller;
        }
        let paced = self.stays.then(|| self.start.pacing()).flatten();
        permit.pacing = paced.unwrap_or_else(|| self.policy.pacing(&self.window, self.rtt));
        if self.stays && starting {
            permit.next_tick = self.start.next_tick();
            permit.holds_against_marks = self.holds_against_marks();
        }
        permit
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
            assert_eq!(controller.permit().threshold, u64::MAX, "{spec}");
            let prior_in_flight = 160 * mss;
            controller.on_timeout(&Timeout {
                now: Time::from_millis(5_000),
                packets: &[],
                prior_in_flight,
                in_flight: 0,
                count: 1,
            });
            assert_eq!((packets(controller), controller.permit().threshold), (1, threshold * mss), "{spec}");
            controller.on_spurious(Time::from_millis(5_010));
            assert_eq!(controller.permit().threshold, u64::MAX, "{spec}");
        }
    }
}
