//! A flow that takes its share: a hop's capacity divided by the number of its flows, while telemetry reports them, and CUBIC
//! otherwise.
//!
//! Sources: the idea that hops report what they see and that each sender computes its window of it from HPCC (Li et al., SIGCOMM
//! 2019); a rate that is the capacity divided by the flows, corrected by spare capacity and by the queue, from RCP (Dukkipati
//! and McKeown 2006), where the router computes it; CUBIC as in [`crate::cubic`]. `docs/design/telemetry-controllers.md`
//! explains the rest, all of it ours:
//!
//! - *Share.* Of each hop the flow takes 98 % of the capacity divided by the flows, and its part of what these leave; the smallest
//!   share of the path counts. A loss of the medium changes nothing of it.
//! - *Queue.* A queue of more than 2 ms that stays is drained by sending up to 15 % less, and no more: one who fills the queue all the same
//!   gets no more than 58 %, and when draining has been in vain for long it ends. Where the count of flows is far more than those who fill
//!   the queue, the flow has the window that CUBIC would have.
//! - *Radios.* A link whose reported capacity changes all the time is probed beyond it, and a flow alone there leaves the pace to it.
//! - *Capacity* that is not reported is measured while packets wait, and probed while none do.
//! - *Bounds.* Never more than twice of what arrives, so that no start is faster than slow start, neither in rate nor, with its headroom, in
//!   window; and never less than two packets in a round trip, so that a wrong report has no effect for long. Losses of other causes, and
//!   every 33rd of the medium in a row, take 20 % off for some round trips.
//! - *Doubt.* Where round trips are longer than the reported queues explain, or do not show half of them, where more is sent than arrives and
//!   half as much lost, where counts of flows go up and down at once, or where far more than the reports permit goes through
//!   (`hops/trial.rs`), the flow is CUBIC until that is over for a while. So it is at timeouts of a flow that sends no more than two packets in
//!   a round trip, where the queue is full: they are too many there.
//! - Without a fresh report it is CUBIC from the window it has.

mod burst;
mod hop;
mod rival;
mod trial;

use crate::controller::{
    Ack, Cause, Controller, Env, Loss, Lost, Nature, Pacing, Permit, Recovery, Remembered, Restart, Sent, Stamp,
    Telemetry, Timeout,
};
use crate::cubic::{Cubic, PARAMS, START, Settings};
use crate::doubt::{Doubt, Round, UNEXPLAINED};
use crate::entry::{Entry, Home, Params};
use crate::path_report::{HOP_PACKET_BYTES, OVERHEAD, PathReport};
use crate::path_rtt::PathRtt;
use crate::start_ups::start_up;
use crate::units::{Nanos, Rate, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Window, WindowController};

use burst::Burst;
use hop::{Link, Own};
use rival::Rival;
use trial::Trial;

/// Hops that are followed (our choice: paths of a limited domain are shorter).
const MOST_HOPS: usize = 8;
/// No more than this many times what arrives is sent (RFC 5681 section 3.1: slow start doubles in a round trip).
const RAMP: f64 = 2.0;
/// Round trips in which the largest delivery rate counts, twice (BBR's filter is of ten).
const DELIVERY_ROUNDS: u32 = 5;
/// The window is this much larger than rate and RTT ask for, so that pacing decides (our choice: a quarter of an RTT is what loss
/// detection waits, RFC 8985 section 6.2), and holds this many packets more.
const HEADROOM: f64 = 1.25;
const SPARE_PACKETS: f64 = 3.0;
/// The same on a radio that a flow has for itself, without headroom (our choice: two are held back by their acknowledgement).
const RADIO_SPARE: f64 = 5.0;
/// A flow that leaves the pace to a radio may send this many times its rate (our choice: enough to follow bursts, and no burst of a whole window).
const AT_ITS_PACE: f64 = 3.0;
/// CUBIC's window counts where it is this many times the share (our choice: more than CUBIC's own sawtooth).
const RIVALS: f64 = 1.5;
/// What losses that are not of the medium leave of the rate, together at least the second (our choice: less than CUBIC gives up, since the
/// rate is a share and not what fills the queue).
const YIELD: f64 = 0.8;
const YIELD_LEAST: f64 = 0.7;
/// What comes back of it in a round trip (our choice: all of a loss within two).
const YIELD_BACK: f64 = 0.1;
/// This many losses of the medium in a row are spared (our choice: its rate is back within eight round trips).
const SPARED_IN_A_ROW: u32 = 32;
/// More than this many times what arrives is more than the path takes, if this much of what arrives is lost besides (our choices: half of what
/// [`RAMP`] adds, and half of what a link loses then; a radio that loses a fifth loses a quarter of what arrives) ...
const OVERLOAD: f64 = 1.5;
const OVERLOAD_LOST: f64 = 0.5;
/// ... and if this many packets are (our choice: an initial window).
const OVERLOAD_LEAST: f64 = INITIAL_WINDOW;
/// A smoothed RTT of more than this many of the newest is that of an outage (our choice: more than round trips of a radio differ that waits for
/// its turn; the mean would need ten round trips to forget it).
const STALE: u64 = 16;
/// A flow that sends this share of what it may is held back by nothing else (our choice: the other part is [`HEADROOM`]'s).
const USED: f64 = 0.8;

/// What gives no reason for doubt where the capacity of no link changes all the time (our choice: a radio that others use too holds packets back
/// for longer).
const UNEXPLAINED_BY_WIRES: Nanos = Nanos::from_millis(5);
/// Reports that were believed for a shorter time leave CUBIC the window that it had before (our choice: some sawteeth of CUBIC).
const BRIEF: Nanos = Nanos::from_secs(10);

/// The controller.
pub struct Hops {
    cubic: WindowController<Cubic>,
    mss: u32,
    /// Causes of losses, and the tightest queue.
    report: PathReport,
    links: [Link; MOST_HOPS],
    fresh_until: Time,
    /// The window is that of the shares and not CUBIC's.
    steering: bool,
    /// Packets for which the tightest queue has room, for each of its flows.
    room: f64,
    /// Packets a second, of [`HOP_PACKET_BYTES`], and how many times as fast they may leave.
    rate: f64,
    gain: f64,
    rival: Rival,
    /// What losses have left of it.
    share_kept: f64,
    spared: u32,
    /// Smoothed, and at most [`STALE`] times the newest.
    srtt: Nanos,
    path: PathRtt,
    limited: bool,
    /// Largest delivery rates of these round trips and of those before them, in packets a second.
    delivered: [f64; 2],
    /// Most packets that arrived in one of these round trips, and in one of those before them.
    arrived: [f64; 2],
    burst: Burst,
    round: Round,
    doubt: Doubt,
    /// When reports began to be believed, and CUBIC's window then.
    before: (Time, Window),
    /// What the reports permit, in packets a second.
    permitted: f64,
    trial: Trial,
}

impl Hops {
    /// A flow of packets of `env.mss` bytes.
    pub fn new(env: &Env, cubic: WindowController<Cubic>) -> Self {
        Self {
            before: (Time::ZERO, cubic.state()),
            cubic,
            mss: env.mss,
            report: PathReport::new(0.0),
            links: [Link::default(); MOST_HOPS],
            fresh_until: Time::ZERO,
            steering: false,
            room: f64::INFINITY,
            rate: 0.0,
            gain: 1.0,
            rival: Rival::default(),
            share_kept: 1.0,
            spared: 0,
            srtt: Nanos::ZERO,
            path: PathRtt::default(),
            limited: false,
            delivered: [0.0; 2],
            arrived: [0.0; 2],
            burst: Burst::default(),
            round: Round::default(),
            doubt: Doubt::default(),
            permitted: 0.0,
            trial: Trial::default(),
        }
    }

    /// Packets of hops for each of the flow's own full packets.
    fn weight(&self) -> f64 {
        (f64::from(self.mss) + OVERHEAD) / HOP_PACKET_BYTES as f64
    }

    /// What arrives at the receiver, in packets a second: ten in a round trip before anything is known.
    fn arriving(&self) -> f64 {
        let first = INITIAL_WINDOW * self.weight() / self.srtt.as_secs_f64();
        self.delivered[0].max(self.delivered[1]).max(first)
    }

    /// Shares out anew: window and pace.
    fn steer(&mut self) {
        let (share, own_radio, crowd) = self
            .tightest()
            .map_or((f64::INFINITY, false, false), |(link, share)| (share, link.is_own_radio(), link.is_full()));
        let arriving = self.arriving();
        // While no link is known to be full, the tightest queue must hold what is sent above what arrives.
        let room = if share.is_finite() { f64::INFINITY } else { self.room / self.srtt.as_secs_f64() };
        let least = MINIMUM_WINDOW * self.weight() / self.srtt.as_secs_f64();
        let rival = self.rival.window().map_or(0.0, |window| window * self.weight() / self.srtt.as_secs_f64());
        // One that is about the share shows that the count is right, and that flows may only be answering each other.
        let share = if rival > RIVALS * share { rival } else { share * self.share_kept };
        // While round trips contradict the reports, no more is sent than arrives.
        let ramp = if self.doubt.is_rising() { 1.0 } else { RAMP };
        self.permitted = share.max(least);
        self.rate = (self.permitted * self.trial.gain()).min(arriving + room).min(ramp * arriving).max(least);
        // A rate sample of a few acknowledgements that came together is too large, and what arrived in a round trip is not.
        let arrived = self.arrived[0].max(self.arrived[1]).max(INITIAL_WINDOW);
        let window = (self.rate / self.weight() * self.srtt.as_secs_f64()).min(RAMP * arrived);
        // A radio of its own has its own pace, and no more in flight.
        let (headroom, spare, gain) =
            if own_radio { (1.0, RADIO_SPARE, AT_ITS_PACE) } else { (HEADROOM, SPARE_PACKETS, 1.0) };
        // Of a flow in a crowd, which has less than it may send at least, spare packets would be as many again.
        let spare = if crowd { spare.min(window - MINIMUM_WINDOW) } else { spare };
        self.gain = gain;
        self.cubic.set((headroom * window + spare).max(MINIMUM_WINDOW), |flight| RAMP * flight + spare);
    }

    /// Where the tightest link is contended, the flow has what CUBIC would have at least.
    fn contend(&mut self, now: Time) {
        if self.tightest().is_some_and(|(link, _)| link.is_contended()) {
            let window = self.rate / self.weight() * self.srtt.as_secs_f64();
            self.rival.begin(now, window.max(MINIMUM_WINDOW), self.cubic.policy_mut());
        } else if self.rival.window().is_some() {
            let rate = self.rate;
            self.links.iter_mut().filter(|link| link.current).for_each(|link| link.keep(rate));
            self.rival.end(now);
        }
    }

    /// The link that permits least, with the share of it.
    fn tightest(&self) -> Option<(&Link, f64)> {
        let current = self.links.iter().filter(|link| link.current);
        current.filter_map(|link| Some((link, link.share()?))).min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Whether the reports say what to do at `now`. Where they no longer do, CUBIC goes on from the window that the rate asks for.
    fn steers(&mut self, now: Time) -> bool {
        let steers = now < self.fresh_until && self.doubt.is_over(now);
        match (self.steering, steers) {
            (true, false) => self.leave(now),
            (false, true) => {
                self.before = (now, self.cubic.state());
                self.trial.begin(now);
            }
            _ => {}
        }
        self.steering = steers;
        if !steers {
            self.rival.end(now);
        }
        steers
    }

    /// CUBIC goes on: from the window that the rate asks for, or, of reports that are not believed any more, from what arrives in a round trip
    /// of the empty path. Where they were believed for a moment, or held the flow back, CUBIC has the window that it had before; where it has
    /// less now, by slow start.
    fn leave(&mut self, now: Time) {
        let believed = self.doubt.is_over(now);
        let (rate, span) =
            if believed { (self.rate, self.srtt) } else { (self.rate.min(self.arriving()), self.path.smallest()) };
        let window = (rate / self.weight() * span.as_secs_f64()).min(self.cubic.state().cwnd).max(MINIMUM_WINDOW);
        let (since, Window { cwnd, ssthresh }) = self.before;
        if believed || (now - since > BRIEF && !self.doubt.held_back()) {
            self.cubic.set(window, |flight| flight);
            self.cubic.policy_mut().begin_at(window);
            return;
        }
        self.cubic.set(window.min(cwnd), |flight| flight);
        // A start-up that had not ended goes on.
        let (threshold, plateau) = if cwnd < ssthresh { (ssthresh, 0.0) } else { (cwnd, cwnd) };
        self.cubic.regain(threshold);
        self.cubic.policy_mut().begin_at(plateau);
    }

    /// Measures.
    fn observe(&mut self, ack: &Ack<'_>) {
        self.srtt = ack.srtt.min(ack.rtt.map_or(Nanos::MAX, |rtt| rtt.mul_div(STALE, 1)));
        if self.path.ack(ack, self.mss) {
            self.doubt = Doubt::default();
        }
        self.round.take(ack);
        self.burst.take(ack, self.packets(ack.bytes));
        self.arrived[0] = self.arrived[0].max(self.packets(self.round.arrived));
        if let Some(sample) = ack.rate {
            let rate = sample.rate().as_bytes_per_sec() as f64 / f64::from(self.mss) * self.weight();
            self.delivered[0] = self.delivered[0].max(rate);
        }
        if !self.round.is_over(ack) {
            return;
        }
        self.share_kept = (self.share_kept + YIELD_BACK).min(1.0);
        self.limited = ack.window_limited || self.uses_rate(ack.now);
        self.judge(ack.now);
        self.round = self.round.next(ack);
        if self.round.count.is_multiple_of(DELIVERY_ROUNDS) {
            self.delivered = [0.0, self.delivered[0]];
            self.arrived = [0.0, self.arrived[0]];
        }
    }

    /// Whether the round trip brought what pacing permitted: the window alone does not say so, since a paced flow of a few packets in a
    /// round trip never fills half of it. One packet may have come just before, or be just behind.
    fn uses_rate(&self, now: Time) -> bool {
        let sent = self.packets(self.round.arrived + self.round.lost) * self.weight();
        sent + 1.0 >= USED * self.rate * (now - self.round.since).as_secs_f64()
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.mss)
    }

    /// Whether the flow sends what it may send at least, or hardly more, and the queue is full: a timeout then shows that there is less
    /// for each.
    fn is_crowded(&self) -> bool {
        self.rate / self.weight() * self.srtt.as_secs_f64() < HEADROOM * MINIMUM_WINDOW
            && self.tightest().is_some_and(|(link, _)| link.is_full())
    }

    /// Whether the round trip shows that the path takes less than the reports permit.
    fn is_overload(&self) -> bool {
        let (lost, arrived) = (self.packets(self.round.lost), self.packets(self.round.arrived));
        self.rate > OVERLOAD * self.arriving() && lost >= OVERLOAD_LEAST && lost > OVERLOAD_LOST * arrived
    }

    /// A round trip is over: do the reported queues explain how long it was, does the path take what they permit, and no more?
    fn judge(&mut self, now: Time) {
        if self.steering && self.is_overload() {
            self.doubt.begin(now);
        }
        let (judged, smallest) = (self.steering && self.doubt.is_over(now), self.path.smallest());
        let breathes = self.links.iter().any(|link| link.current && link.breathes());
        let allowed = if breathes { UNEXPLAINED } else { UNEXPLAINED_BY_WIRES };
        self.doubt.end_round(now, &self.round, smallest, allowed, judged);
        if judged && self.takes_more(now, self.doubt.least_queues(now, &self.round, smallest)) {
            self.doubt.repay(now);
        }
    }

    /// Whether a trial shows that the path takes far more than the reports permit: the round trip that is over had a queue of this length at least.
    fn takes_more(&mut self, now: Time, queue: Nanos) -> bool {
        let Some((link, _)) = self.tightest().filter(|(link, _)| self.limited && !link.is_own_radio()) else {
            self.trial.rest(now);
            return false;
        };
        let capacity = link.capacity.unwrap_or(0.0);
        let span = now - self.round.since;
        let arrived = self.packets(self.round.arrived) * self.weight() / span.as_secs_f64();
        self.trial.end_round(now, (span, queue), arrived, (self.permitted, capacity))
    }

    /// Losses: whether they are spared, or else what they leave of the rate. Where the sink gave no reason and every queue has room,
    /// none has dropped.
    fn lose(&mut self, now: Time, packets: &[Lost]) {
        let medium = match self.report.cause(now, packets) {
            Cause::Medium => true,
            Cause::Unknown => self.report.tightest(now).is_some(),
            Cause::Congestion | Cause::Aqm | Cause::Policer | Cause::Handover => false,
        };
        if medium && !self.report.is_scarce() && self.spared < SPARED_IN_A_ROW {
            self.spared += 1;
            return;
        }
        self.spared = 0;
        self.trial.rest(now);
        let flight = self.cubic.state().cwnd;
        self.rival.lose(now, flight, self.cubic.policy_mut());
        self.share_kept = (self.share_kept * YIELD).max(YIELD_LEAST);
    }

    /// The link that `id` has, or a place for it.
    fn link(&mut self, id: u32) -> Option<&mut Link> {
        let known = self.links.iter().position(|link| link.current && link.id == id);
        let known = known.or_else(|| self.links.iter().position(|link| link.id == id));
        let place = known.or_else(|| self.links.iter().position(|link| !link.current))?;
        Some(&mut self.links[place])
    }
}

impl Controller for Hops {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        if !self.steering {
            return self.cubic.on_sent(sent);
        }
        self.cubic.flies(sent.in_flight);
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.observe(ack);
        if self.steers(ack.now) {
            self.cubic.watch(ack);
            self.rival.grow(ack, self.cubic.policy_mut());
            self.steer();
        } else {
            self.cubic.on_ack(ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.round.lost += loss.bytes;
        if !self.steers(loss.now) {
            self.cubic.on_loss(loss);
        } else if loss.new_episode {
            self.lose(loss.now, loss.packets);
            self.steer();
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        if timeout.count > 1 {
            // The path may be gone: reports count again from the next one on.
            self.fresh_until = timeout.now;
        }
        if self.steering && self.is_crowded() {
            self.doubt.begin(timeout.now);
        }
        if !self.steers(timeout.now) {
            self.cubic.on_timeout(timeout);
            return;
        }
        self.lose(timeout.now, timeout.packets);
        let flight = timeout.in_flight as f64 / f64::from(self.mss) + 1.0;
        let window = self.cubic.state().cwnd;
        self.cubic.set(window.min(flight.max(INITIAL_WINDOW)), |flight| flight);
    }

    fn on_spurious(&mut self, now: Time) {
        if !self.steers(now) {
            self.cubic.on_spurious(now);
        }
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        let now = telemetry.now;
        self.report.take(telemetry);
        self.path.report(telemetry);
        self.cubic.on_telemetry(telemetry);
        self.room = self.report.tightest(now).map_or(f64::INFINITY, |hop| hop.share);
        if self.srtt == Nanos::ZERO {
            return;
        }
        let own = Own {
            srtt: self.srtt,
            path: self.path.smallest(),
            burst: self.burst.mean(),
            rate: self.rate,
            delivered: self.delivered[0].max(self.delivered[1]),
            limited: self.limited,
        };
        self.links.iter_mut().for_each(|link| link.current = false);
        let mut shared = false;
        for hop in telemetry.hops {
            shared |= self.link(hop.id).is_some_and(|link| link.take(now, hop, &own));
        }
        let delays = self.links.iter().filter(|link| link.current).filter_map(Link::delay);
        let reported = delays.fold(Nanos::ZERO, |sum, delay| sum + delay);
        self.round.report(reported);
        self.fresh_until = if shared { now + telemetry.fresh_for } else { now };
        if !self.report.is_fresh(now) {
            self.doubt.begin(now);
        }
        if self.steers(now) {
            self.contend(now);
            self.steer();
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.steers(restart.now);
        self.cubic.on_restart(restart);
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        self.mss = mss.max(1);
        self.cubic.on_mss(now, mss);
    }

    fn on_tick(&mut self, now: Time) {
        if !self.steers(now) && self.cubic.next_tick() <= now {
            self.cubic.on_tick(now);
        }
    }

    fn remember(&self, now: Time) -> Option<Remembered> {
        self.cubic.remember(now)
    }

    fn nature(&self) -> Nature {
        self.cubic.nature()
    }

    fn permit(&self) -> Permit {
        let cubic = self.cubic.permit();
        if !self.steering {
            return cubic;
        }
        let bytes = self.gain * self.rate / self.weight() * f64::from(self.mss);
        Permit {
            pacing: Pacing::Rate(Rate::from_bytes_per_sec((bytes as u64).max(1))),
            next_tick: self.fresh_until,
            recovery: Recovery::Controller,
            outlasts_departures: true,
            ..cubic
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.cubic.describe(report);
        report("steering", f64::from(u8::from(self.steering)));
        report("share_kept", self.share_kept);
        if let Some((link, share)) = self.tightest().filter(|_| self.steering) {
            let mbps = |packets: f64| packets * HOP_PACKET_BYTES as f64 * 8.0 / 1e6;
            report("hop", f64::from(link.id));
            report("hop_flows", link.flows);
            report("hop_capacity_mbps", mbps(link.capacity.unwrap_or(0.0)));
            report("hop_share_mbps", mbps(share));
            report("hop_excess_mbps", mbps(link.excess));
            report("hop_queue_ms", link.delay().unwrap_or(Nanos::ZERO).as_millis_f64());
        }
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let policy = Cubic::new(env, Settings::of(params));
    Box::new(Hops::new(env, WindowController::new(env, start_up(params, env), policy)))
}

/// `hops` in the registry.
pub const ENTRY: Entry = Entry {
    name: "hops",
    summary: "the hops' capacity divided by their flows, as telemetry reports them; CUBIC without",
    source: "ours, after HPCC (Li et al., SIGCOMM 2019) and RCP (Dukkipati and McKeown 2006)",
    statements: crate::statements::HOPS,
    home: Home::Tcp,
    start: Some(START),
    params: &PARAMS,
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests;
