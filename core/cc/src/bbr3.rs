//! BBR version 3: paces at the measured bottleneck bandwidth, and bounds what is in flight by what the path was seen to hold
//! without loss (draft-ietf-ccwg-bbr-06, of which the sections below are; google/bbr, branch v3, where it says so).
//!
//! The datapath makes the delivery-rate samples. This file holds the state and the order of an acknowledgement; beside it: the
//! model of the path (`model`), the states and the ways between them (`states`), losses and their undoing (`losses`), and
//! window and pacing rate (`outputs`). Volumes are payload bytes, rates bytes per second, and infinity is a bound not set.
//!
//! Where the draft is open, the choice:
//! - An episode's window and bounds are saved once, as it begins (as in Linux): the draft's pseudocode saves again at each lossy
//!   round, and would undo to what the episode itself had cut.
//! - ProbeRTT's window is reckoned with the smallest RTT from before the acknowledgement that begins it, and may only fall after.
//! - "In flight has reached the long-term bound" asks what was in flight before the acknowledgement, within one packet.
//! - The bandwidth's filter holds two slots, one for each cycle of probing. Lost ranges in Startup are ranges of the stream.
//! - Fast recovery for a round, which ends Startup with what it lost, is a loss round that no timeout repairs: datagrams are not sent
//!   again, so that no recovery of theirs outlasts the round (Linux asks for the state of its recovery as the round ends).
//! - Losses found by an acknowledgement come before its delivery is counted here, and after it in Linux: the marks that they set
//!   move to the acknowledgement's count.
//! - Packets are not ECN-capable: the draft defines no answer to marks.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::controller::{
    Ack, Controller, Env, Loss, Nature, Pacing, Permit, Phase, Recovery, Restart, Sent, Stamp, Timeout,
};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::units::{Nanos, Rate, Time};

pub use self::constants::Constants;
use self::losses::{Losses, Tag, Undo};
use self::model::{Aggregation, Bandwidth, FullPipe, MinRtt, Rounds, Sample};
use self::outputs::INITIAL_PACKETS;
use self::states::{Probe, ProbeRtt, State};

mod constants;
mod losses;
mod model;
mod outputs;
mod states;
#[cfg(test)]
mod tests;

/// BBRv3. See the [module](self).
pub struct Bbr3 {
    constants: Constants,
    /// Send quanta that the datapath may hold at once (section 5.5.8).
    budget: f64,
    mss: f64,
    rng: Pcg64,
    /// The time of the present event; the first one's sets every stamp.
    now: Option<Time>,

    state: State,
    rounds: Rounds,
    bandwidth: Bandwidth,
    full: FullPipe,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    probe: Probe,
    probe_rtt: ProbeRtt,
    losses: Losses,
    undo: Undo,
    /// The long-term bound on what is in flight: the most that was seen to be carried without much loss.
    inflight_long: f64,
    /// The short-term bound, and the largest delivery of the present loss round.
    inflight_short: f64,
    inflight_latest: f64,

    delivered: u64,
    /// Packets that leave before this much has been delivered are limited by the application; zero where they are not.
    app_limited_until: u64,
    idle_restart: bool,
    seen_rtt: bool,

    cwnd: f64,
    pacing_rate: f64,
}

impl Bbr3 {
    /// With these constants, over a datapath that may hold this many send quanta at once.
    pub fn new(env: &Env, budget: f64, constants: Constants) -> Self {
        let mss = f64::from(env.mss.max(1));
        let mut bbr = Self {
            constants,
            budget,
            mss,
            rng: Pcg64::seed_from_u64(env.seed),
            now: None,
            state: State::Startup,
            rounds: Rounds::default(),
            bandwidth: Bandwidth::default(),
            full: FullPipe::default(),
            min_rtt: MinRtt::default(),
            aggregation: Aggregation::default(),
            probe: Probe::default(),
            probe_rtt: ProbeRtt::default(),
            losses: Losses::default(),
            undo: Undo::default(),
            inflight_long: f64::INFINITY,
            inflight_short: f64::INFINITY,
            inflight_latest: 0.0,
            delivered: 0,
            app_limited_until: 0,
            idle_restart: false,
            seen_rtt: false,
            cwnd: INITIAL_PACKETS * mss,
            pacing_rate: 0.0,
        };
        bbr.pace_first_window(outputs::ASSUMED_RTT);
        bbr
    }

    /// An event at `now`. Stamps that the draft leaves unset at a flow's birth begin at its first event.
    fn begin(&mut self, now: Time) {
        if self.now.replace(now).is_none() {
            self.min_rtt.begin(now);
            self.probe.cycle_stamp = now;
            self.aggregation.restart(now);
        }
    }

    fn now(&self) -> Time {
        self.now.unwrap_or(Time::ZERO)
    }

    fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// What leaves until what is in flight now has been delivered is limited by the application (section 4.1.2.4).
    fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Nothing was in flight, and the application was the reason (section 5.4).
    fn restart_from_idle(&mut self) {
        self.idle_restart = true;
        self.aggregation.restart(self.now());
        match self.state {
            State::ProbeRtt => self.exit_probe_rtt_if_done(),
            state if state.probes_bandwidth() => self.pace(1.0),
            _ => {}
        }
    }

    /// One acknowledgement, in the order of section 5.2.3.
    fn acknowledge(&mut self, ack: &Ack<'_>, sample: &Sample) {
        let loss_round_start = self.update_latest_signals(sample);
        self.update_rounds(sample);
        self.bandwidth.update(sample);
        if loss_round_start {
            self.adapt_lower_bounds();
        }
        self.aggregation.update(
            &model::Delivery {
                now: ack.now,
                bytes: sample.acked,
                bandwidth: self.bandwidth.bw,
                cwnd: self.cwnd,
                round: self.rounds.count,
            },
            self.full.reached,
        );
        if self.rounds.started && !sample.app_limited && !self.full.now {
            self.full.check(sample.rate.unwrap_or(0.0), self.constants.full_rounds);
        }
        self.check_startup(ack, sample, loss_round_start);
        self.check_drain(sample);
        if self.full.reached {
            self.probe_bandwidth(sample);
        }
        self.update_min_rtt(ack.rtt);
        self.check_probe_rtt(ack, sample);
        if loss_round_start {
            self.bandwidth.latest = sample.rate.unwrap_or(0.0);
            self.inflight_latest = sample.delivered;
        }
        self.bandwidth.bound();
    }
}

impl Controller for Bbr3 {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.begin(sent.now);
        let app_limited = sent.app_limited || self.is_app_limited();
        if sent.in_flight == u64::from(sent.bytes) && app_limited {
            self.restart_from_idle();
        }
        self.rounds.cwnd_limited |= sent.in_flight as f64 + self.mss > self.cwnd;
        Stamp { tag: Tag { app_limited, in_flight: sent.in_flight, lost: self.losses.lost }.into(), note: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.begin(ack.now);
        if !self.seen_rtt && ack.srtt > Nanos::ZERO {
            self.seen_rtt = true;
            self.pace_first_window(ack.srtt);
        }
        if ack.bytes == 0 {
            self.update_min_rtt(ack.rtt);
            return;
        }
        self.delivered = ack.delivered;
        self.move_marks(ack);
        let sample = self.sample(ack);
        if self.app_limited_until < ack.delivered {
            self.app_limited_until = 0;
        }
        self.acknowledge(ack, &sample);
        self.pace(self.pacing_gain());
        if self.losses.episode && matches!(ack.phase, Phase::Open | Phase::Cwr) {
            self.losses.episode = false;
            self.restore_cwnd();
        }
        self.set_cwnd(sample.acked);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.begin(loss.now);
        if loss.new_episode {
            self.save_for_undo();
        }
        self.losses.by_acknowledgement = true;
        loss.packets.iter().for_each(|packet| self.lose(packet));
        self.losses.by_acknowledgement = false;
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.begin(timeout.now);
        if !self.losses.episode {
            self.save_for_undo();
        }
        timeout.packets.iter().for_each(|packet| self.lose(packet));
        self.cwnd = timeout.in_flight as f64 + self.mss;
    }

    fn on_spurious(&mut self, now: Time) {
        self.begin(now);
        self.undo_losses();
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.begin(restart.now);
        if self.is_app_limited() {
            self.restart_from_idle();
        }
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.begin(now);
        self.mark_app_limited(in_flight);
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        self.mss = f64::from(mss.max(1));
        self.cwnd = self.cwnd.max(self.mss);
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit {
            pacing: Pacing::Rate(Rate::from_bytes_per_sec(self.pacing_rate as u64)),
            recovery: Recovery::Controller,
            ..Permit::up_to(self.cwnd as u64)
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let set = |value: f64| if value.is_finite() { value } else { 0.0 };
        let packets = |bytes: f64| set(bytes / self.mss);
        let millis = |span: Nanos| if span == Nanos::MAX { 0.0 } else { span.as_millis_f64() };
        let flag = |on: bool| f64::from(u8::from(on));
        report("state", f64::from(self.state as u8));
        report("ack_phase", f64::from(self.probe.ack_phase as u8));
        report("cwnd_packets", packets(self.cwnd));
        report("pacing_mbps", self.pacing_rate * 8e-6);
        report("bw_mbps", self.bandwidth.bw * 8e-6);
        report("max_bw_mbps", self.bandwidth.max() * 8e-6);
        report("bw_short_mbps", set(self.bandwidth.short) * 8e-6);
        report("bw_latest_mbps", self.bandwidth.latest * 8e-6);
        report("inflight_long_packets", packets(self.inflight_long));
        report("inflight_short_packets", packets(self.inflight_short));
        report("min_rtt_ms", millis(self.min_rtt.value));
        report("probe_rtt_delay_ms", millis(self.min_rtt.probed));
        report("extra_acked_packets", packets(self.aggregation.extra()));
        report("rounds", self.rounds.count as f64);
        report("full_bw_mbps", self.full.bw * 8e-6);
        report("full_count", f64::from(self.full.count));
        report("full_now", flag(self.full.now));
        report("full_reached", flag(self.full.reached));
        report("pacing_gain", self.pacing_gain());
        report("cwnd_gain", self.state.cwnd_gain());
        report("probe_wait_ms", self.probe.wait.as_millis_f64());
        report("rounds_since_probe", self.probe.rounds as f64);
        report("too_high", flag(self.probe.too_high));
        report("precautionary", flag(self.probe.precautionary));
        report("probe_sample", flag(self.probe.is_sample));
        report("idle_restart", flag(self.idle_restart));
        report("undo", flag(self.undo.state.is_some()));
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    Box::new(Bbr3::new(env, params.number("budget"), Constants::default()))
}

/// `bbr3` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr3",
    summary: "BBR version 3: paces at the measured bandwidth, and bounds what is in flight by what the path held without loss",
    source: "draft-ietf-ccwg-bbr-06; google/bbr, branch v3",
    statements: crate::statements::BBR3,
    home: Home::Tcp,
    start: None,
    params: &[Param {
        name: "budget",
        unit: "send quanta that the datapath may hold at once; over datagrams 1 unless it is given",
        kind: Kind::Number { min: 1.0, max: 3.0 },
        default: "3",
        source: "draft-ietf-ccwg-bbr-06 section 5.5.8: 3 for TCP, where sender, segmentation and receiver hold one each, 1 for QUIC",
    }],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};
