//! Window controllers made of two pieces: a *start-up* that finds the first window, and a *policy* that grows and
//! reduces it afterwards. Any start-up goes with any policy: `cubic:start=hystart`, `dctcp:start=slow`.
//!
//! The pieces share one [`Window`]. [`WindowController`] holds what they have in common (RFC 5681): which of the two is
//! in charge, one reduction an episode, undo, timeouts, idle restarts, and that no window grows beyond [`crate::max_flight`].

mod joined;

use crate::controller::{Ack, Ecn, Env, Lost, Pacing, Remembered, Restart, Sent, Telemetry};
use crate::units::{Nanos, Time};

pub use joined::WindowController;

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

/// Losses that ask for an answer: those that begin an episode, and those of the first of several timeouts in a row.
#[derive(Clone, Copy, Debug)]
pub struct Lapse<'a> {
    /// [`Signal::Loss`] or [`Signal::Timeout`].
    pub signal: Signal,
    /// Now.
    pub now: Time,
    /// The packets, as far as the datapath knows them, each with its cause where telemetry knows it.
    pub packets: &'a [Lost],
}

/// Congestion that ends a start-up, unless it answers it itself.
#[derive(Clone, Copy, Debug)]
pub struct Setback {
    /// [`Signal::Loss`] or [`Signal::Ecn`].
    pub signal: Signal,
    /// Now.
    pub now: Time,
    /// Share of the window that the policy would keep, from 0 to 1.
    pub kept: f64,
}

/// Whether a start-up answers congestion in the policy's place: it has set `cwnd`, and shapes the window until [`StartUp::repairs`] says
/// otherwise. The policy has counted the reduction, its window is not used, and
/// [`Recovery::Controller`](crate::controller::Recovery::Controller) holds meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retains {
    /// The answer is the policy's.
    Nothing,
    /// The start-up answers, unless the congestion proves spurious.
    Undoably,
    /// The start-up answers, and that stands.
    Firmly,
}

/// How a policy answers losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// The start-up ends, [`Policy::reduce`] gives the window.
    #[default]
    Reduce,
    /// The start-up ends, [`Policy::spare`] gives the window.
    Spare,
    /// [`Policy::spare`] gives the window, and a start-up that is in charge stays so and is not informed of the losses.
    Stay,
}

/// Finds the first window. In charge while `cwnd < ssthresh`.
pub trait StartUp: Send {
    /// The window at the start of the flow in packets.
    fn initial(&self) -> f64 {
        INITIAL_WINDOW
    }

    /// A packet left while the start-up is in charge; the answer is its [`Stamp::tag`](crate::controller::Stamp::tag).
    fn on_sent(&mut self, _sent: &Sent, _window: &mut Window) -> u64 {
        0
    }

    /// Every acknowledgement, whether start-up or policy is in charge, before anything else.
    fn observe(&mut self, _ack: &Ack<'_>) {}

    /// Something was delivered: grow `cwnd`, or end the start-up by setting `ssthresh` to at most `cwnd`.
    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window);

    /// The start-up is over for another reason: a loss, a mark or a timeout. `window` is what the policy reduces next,
    /// if a reduction is due; a start-up whose `cwnd` stood for no capacity corrects it here.
    fn on_congestion(&mut self, _signal: Signal, _window: &mut Window) {}

    /// Asked after [`StartUp::on_congestion`] for losses or a mark that the policy answers by a reduction.
    fn retains(&mut self, _setback: &Setback, _window: &mut Window) -> Retains {
        Retains::Nothing
    }

    /// `packets` packets are lost while the start-up [retains](StartUp::retains) the window, those that it retained it for included,
    /// or [stays](Answer::Stay) in charge all the same.
    fn loses(&mut self, _packets: f64, _window: &mut Window) {}

    /// Every acknowledgement, in any phase, while the start-up [retains](StartUp::retains) the window. False: that is over, and
    /// `window` is how the flow goes on.
    fn repairs(&mut self, _ack: &Ack<'_>, _window: &mut Window) -> bool {
        false
    }

    /// As [`Controller::remember`](crate::controller::Controller::remember).
    fn remember(&self, _window: &Window, _now: Time) -> Option<Remembered> {
        None
    }

    /// What the path holds in packets, its queue included, as far as the start-up that has just ended found it.
    fn product(&self) -> Option<f64> {
        None
    }

    /// The congestion that ended the start-up was spurious; the window has been restored, and the start-up is in charge.
    fn on_spurious(&mut self) {}

    /// The flow sends again after a silence, whether start-up or policy is in charge. True leaves out the usual answer to it: the start-up has
    /// set `window`.
    fn on_restart(&mut self, _restart: &Restart, _window: &mut Window) -> bool {
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

    /// The hops of the path reported, whether start-up or policy is in charge.
    fn on_telemetry(&mut self, _telemetry: &Telemetry<'_>) {}

    /// Whether it does more than to grow the window while it is in charge: observe, pace, hold against marks, hold the window,
    /// retain it or take charge again. Asked once; of one that does not, none of this is asked.
    fn stays(&self) -> bool {
        true
    }

    /// limit(maxFS) of [`crate::max_flight`] while the start-up is in charge: the largest window in packets that it reaches when one window
    /// of `max_flight` packets, sent whole, is acknowledged; not less than `max_flight`. Endless while the window is that of a
    /// measurement or a memory, which needs a source.
    fn limit(&self, _window: &Window, max_flight: f64) -> f64 {
        2.0 * max_flight
    }

    /// The slow-start threshold at the start of the flow in packets, where the start-up sets one.
    fn threshold(&self) -> f64 {
        f64::INFINITY
    }

    /// What the start-up knows of the path leaves no room at present: the policy does not grow, and its window keeps this share of itself.
    /// Asked at each acknowledgement at which the policy might grow.
    fn holds(&mut self, _ack: &Ack<'_>) -> Option<f64> {
        None
    }

    /// Full packets have `mss` payload bytes from now on.
    fn on_mss(&mut self, mss: u32);

    /// The gaps of a start-up that paces (a chirp), whether start-up or policy is in charge; nothing leaves them to the policy.
    fn pacing(&self) -> Option<Pacing> {
        None
    }

    /// As [`Controller::next_tick`](crate::controller::Controller::next_tick).
    fn next_tick(&self) -> Time {
        Time::NEVER
    }

    /// As [`Controller::on_tick`](crate::controller::Controller::on_tick).
    fn on_tick(&mut self, _now: Time, _window: &mut Window) {}

    /// As [`Controller::describe`](crate::controller::Controller::describe).
    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// Grows and reduces the window after the start-up.
pub trait Policy: Send {
    /// Something was delivered outside start-up and recovery, and the window limited the flow: grow.
    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window);

    /// limit(maxFS) of [`crate::max_flight`] while the policy is in charge, as [`StartUp::limit`]; beyond the present window it need not be
    /// exact.
    fn limit(&self, _window: &Window, max_flight: f64) -> f64 {
        max_flight + 1.0
    }

    /// Every acknowledgement, before anything else (DCTCP's marked fraction).
    fn observe(&mut self, _ack: &Ack<'_>, _window: &Window) {}

    /// The window stood still for this long since the last acknowledgement, because [`StartUp::holds`] it.
    fn hold(&mut self, _span: Nanos) {}

    /// The window gives way and keeps this share of itself, because [`StartUp::holds`] it: what it is now, in packets.
    fn give_way(&mut self, window: &Window, share: f64) -> f64 {
        window.cwnd * share
    }

    /// A reduction is due: the new slow-start threshold in packets, before the floor of [`MINIMUM_WINDOW`].
    fn reduce(&mut self, signal: Signal, now: Time, window: &Window, in_flight: f64) -> f64;

    /// The hops of the path reported.
    fn on_telemetry(&mut self, _telemetry: &Telemetry<'_>) {}

    /// How the window answers losses: asked before anything is changed.
    fn answer(&mut self, _lapse: &Lapse<'_>, _window: &Window) -> Answer {
        Answer::Reduce
    }

    /// The window in packets after losses that are not answered by a reduction, before the floor of [`MINIMUM_WINDOW`].
    fn spare(&mut self, _signal: Signal, _now: Time, window: &Window) -> f64 {
        window.cwnd
    }

    /// The window in packets, at least and if the flow had as much, after a timeout that is not answered by a reduction.
    fn loss_window(&self) -> f64 {
        1.0
    }

    /// The retransmission timer fired, and a reduction answered this or an earlier loss: what it makes forgotten.
    fn on_timeout(&mut self) {}

    /// The last reduction was a mistake; the window has been restored.
    fn undo(&mut self) {}

    /// Full packets have `mss` payload bytes from now on; `scale` packets of that size are what one was.
    fn on_mss(&mut self, mss: u32, scale: f64);

    /// The flow was idle for `idle`.
    fn on_restart(&mut self, _now: Time, _idle: Nanos) {}

    /// The start-up has just ended without congestion, or what it [retained](StartUp::retains) the window for is repaired; the path
    /// holds `product` packets, if it has found that.
    fn on_start_end(&mut self, _now: Time, _window: &Window, _product: Option<f64>) {}

    /// Use of ECN.
    fn ecn(&self) -> Ecn {
        Ecn::Off
    }

    /// Whether a reduction is due for the marks that `ack` reports: for the first echo of a round trip.
    fn answers(&self, ack: &Ack<'_>) -> bool {
        ack.echo && self.ecn() != Ecn::Off
    }

    /// The window grows also in the round trip after an echo ([`Phase::Cwr`](crate::controller::Phase::Cwr)).
    fn grows_while_reducing(&self) -> bool {
        false
    }

    /// The pace of `window` at a smoothed RTT of `srtt`, where the start-up asks for none.
    fn pacing(&self, _window: &Window, _srtt: Nanos) -> Pacing {
        Pacing::Free
    }

    /// As [`Controller::describe`](crate::controller::Controller::describe).
    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// Slow start (RFC 5681 section 3.1 with appropriate byte counting): one packet for each packet acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStart {
    mss: u32,
    /// The threshold at the start of the flow, where there is one.
    threshold: Option<f64>,
}

impl SlowStart {
    /// Slow start for packets of `env.mss` bytes.
    pub fn new(env: &Env) -> Self {
        Self { mss: env.mss, threshold: None }
    }

    /// Slow start that ends at `threshold` packets.
    pub fn until(env: &Env, threshold: f64) -> Self {
        Self { mss: env.mss, threshold: Some(threshold) }
    }
}

impl StartUp for SlowStart {
    fn stays(&self) -> bool {
        false
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        if ack.window_limited {
            window.open(ack.packets_of(self.mss));
        }
    }

    fn threshold(&self) -> f64 {
        self.threshold.unwrap_or(f64::INFINITY)
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }
}
