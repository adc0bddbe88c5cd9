//! How aggressive to be: delta, and the switching between Default and Competitive mode (Arun and Balakrishnan, NSDI
//! 2018, section 3.3).

use super::Rules;
use super::delays::Queue;
use crate::units::{Nanos, Time};

/// Upper limit of 1/delta in packets (our choice: without losses nothing else bounds Competitive mode).
const MAX_AGGRESSIVENESS: f64 = 1000.0;

/// A queue stands when a half of its swing stays (our choice: of 50 like flows in Default mode a quarter stays) ...
const STANDING: u64 = 2;
/// ... and when a fifth stays (our choice: beside CUBIC Copa's own swing may empty that much) ...
const STANDING_IF_PROVEN: u64 = 5;
/// ... for this long after a loss (our choice: as long as RTTmin is remembered) ...
const PROVEN: Nanos = Nanos::from_secs(10);
/// ... that came when 1/delta was at least this many times its default (our choice: like flows that a newcomer's slow
/// start has misled lose packets before they come so far).
const PROOF: f64 = 8.0;

/// A flow does not drain for this long after that loss (our choice: Reno's losses are rare on long paths; with 10 s the
/// share beside it at 48 Mbit/s, 80 ms, 1 BDP is 0.26 instead of 0.45).
const UNDOUBTED: Nanos = Nanos::from_secs(30);
/// This long after its first acknowledgement a flow takes no queue for a competitor's (our choice: as long as RTTmin is
/// remembered; it may have begun in a queue, and many like flows may be starting; of ten that start together and
/// overflow the buffer, those that lost a packet would take the link from the others) ...
const SETTLING: Nanos = Nanos::from_secs(10);
/// ... nor this long after a drain, before it has lost a packet (our choice: Default mode then has time to empty the
/// queue; with 10 s the share beside Reno at 48 Mbit/s, 80 ms, falls to 0.08).
const AFTER_DRAIN: Nanos = Nanos::from_secs(3);

/// RTTs of growth that a flow makes up for at once when a queue that swung proves to stand (our choice: as many as the mode
/// test looks back; more wins nothing beside CUBIC).
const MADE_UP: u64 = 5;

/// Which modes a flow may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modes {
    Auto,
    Default,
    Competitive,
}

/// delta and the mode that moves it.
#[derive(Clone, Debug)]
pub(super) struct Aggressiveness {
    rules: Rules,
    modes: Modes,
    default: f64,
    /// Packets per RTT and second of queueing delay, inverted: small is aggressive.
    pub(super) delta: f64,
    pub(super) competitive: bool,
    /// When delta was last moved (release: also reset) ...
    last_change: Option<Time>,
    /// ... and when it last answered a loss.
    last_cut: Time,
    /// The last loss that showed a competitor.
    proof: Option<Time>,
    /// Until then the flow takes no queue for a competitor's; none before the first acknowledgement ...
    settles: Option<Time>,
    /// ... nor until then, before it has lost a packet.
    rests: Time,
}

impl Aggressiveness {
    pub(super) fn new(rules: Rules, modes: Modes, default: f64) -> Self {
        let competitive = modes == Modes::Competitive;
        Self {
            rules,
            modes,
            default,
            delta: default,
            competitive,
            last_change: None,
            last_cut: Time::ZERO,
            proof: None,
            settles: None,
            rests: Time::ZERO,
        }
    }

    /// What part of its swing, one in this many, stays in a queue that stands.
    pub(super) fn standing(&self, now: Time) -> u64 {
        if self.proven(now) { STANDING_IF_PROVEN } else { STANDING }
    }

    /// A loss has shown a competitor lately.
    pub(super) fn proven(&self, now: Time) -> bool {
        self.proof.is_some_and(|proof| now.since(proof) < PROVEN)
    }

    /// An acknowledgement came; `queue` says what the queue did lately. One that swung without emptying proves
    /// nothing: the mode stays, and 1/delta waits.
    pub(super) fn on_ack(&mut self, now: Time, rtt: Nanos, queue: Queue) {
        let settled =
            now >= self.rests.max(*self.settles.get_or_insert(now + SETTLING)) || self.rules == Rules::Release;
        let competitive = match (self.modes, queue) {
            (Modes::Auto, Queue::Emptied) | (Modes::Default, _) => false,
            (Modes::Auto, Queue::Stood) if !settled => self.competitive,
            (Modes::Auto, Queue::Swung) => self.competitive,
            (Modes::Auto, Queue::Stood) | (Modes::Competitive, _) => true,
        };
        let entered = competitive && !self.competitive;
        self.competitive = competitive;
        match self.rules {
            Rules::Paper if !competitive => self.delta = self.default,
            Rules::Release if !competitive => {
                if self.last_change.is_none() || self.last_cut + rtt < now {
                    self.delta = self.default;
                    self.last_change = Some(now);
                }
            }
            Rules::Paper if entered || self.last_change.is_none() => self.last_change = Some(now),
            _ if self.modes == Modes::Auto && queue == Queue::Swung => {}
            _ => self.grow(now, rtt),
        }
    }

    /// Packets were lost. In Competitive mode 1/delta halves: additive increase, multiplicative decrease, as Reno.
    pub(super) fn on_loss(&mut self, now: Time, rtt: Nanos) {
        // The release's call leaves its RTT argument at zero: any number of halvings an RTT.
        let spacing = if self.rules == Rules::Paper { rtt } else { Nanos::ZERO };
        self.rests = now;
        if !self.competitive || now <= self.last_cut + spacing {
            return;
        }
        if PROOF * self.delta <= self.default {
            self.proof = Some(now);
        }
        self.delta = (2.0 * self.delta).min(self.default);
        self.last_cut = now;
        if self.rules == Rules::Paper {
            self.last_change = Some(now);
        }
    }

    /// The flow is in Competitive mode, by the mode test, and no loss has shown a competitor for long: it may mistake
    /// like flows for one.
    pub(super) fn doubtful(&self, now: Time) -> bool {
        self.competitive
            && self.modes == Modes::Auto
            && self.rules == Rules::Paper
            && self.proof.is_none_or(|proof| now.since(proof) >= UNDOUBTED)
    }

    /// Returns to Default mode after a drain.
    pub(super) fn relent(&mut self, now: Time) {
        self.competitive = false;
        self.delta = self.default;
        self.rests = now + AFTER_DRAIN;
    }

    /// Ends the wait of a new flow.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        self.settles = Some(Time::ZERO);
    }

    /// Adds 1 to 1/delta each RTT, as Reno adds a packet.
    fn grow(&mut self, now: Time, rtt: Nanos) {
        if self.last_change.is_some_and(|last| now <= last + rtt) {
            return;
        }
        let mut inverse = 1.0 / self.delta;
        if self.rules == Rules::Paper {
            let waited = self.last_change.map_or(rtt, |last| now.since(last));
            let grown = rtt.times_in(waited).clamp(1, MADE_UP) as f64;
            inverse = (inverse + grown).min(MAX_AGGRESSIVENESS.max(1.0 / self.default));
        } else {
            inverse += 1.0;
        }
        self.delta = (1.0 / inverse).min(self.default);
        self.last_change = Some(now);
    }
}
