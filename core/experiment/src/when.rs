//! Changes of a world that a controller's variables trigger.

use paceline_cc::{Controller, Nanos, Time};
use paceline_path::PathChange;

use crate::config::Workload;

mod agenda;

pub use agenda::{Agenda, Changer};

/// What changes when a flow's controller comes into a state; [`crate::Flow::when`] has those that watch its flow.
#[derive(Clone, Debug, PartialEq)]
pub struct When {
    /// Its place among all of the world: of two that act at one time the first goes first.
    pub number: u32,
    /// Described variables and what is asked of each; all of them must be met.
    pub is: Vec<(String, Condition)>,
    /// Until then the condition counts as not met.
    pub after: Time,
    /// So many crossings pass.
    pub skip: u32,
    /// So many act then; 0 is all.
    pub times: u32,
    /// From a crossing to the change.
    pub delay: Nanos,
    /// Then the values from before the change return; `None`: it is for good.
    pub lasts: Option<Nanos>,
    /// What changes.
    pub set: Vec<Change>,
}

/// What is asked of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// It has this value.
    Is(f64),
    /// It is larger.
    Above(f64),
    /// It is smaller.
    Below(f64),
}

impl Condition {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::Is(wanted) => value == wanted,
            Self::Above(bound) => value > bound,
            Self::Below(bound) => value < bound,
        }
    }
}

/// A change of a world.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Of a hop, by its number in the [`crate::Graph`].
    Path {
        /// The hop.
        hop: u32,
        /// What changes.
        change: PathChange,
    },
    /// Of what the application of a flow does, by the flow's index among the configured ones. A flow that is not running is not
    /// changed.
    Application {
        /// The flow.
        flow: u32,
        /// What it does from then on.
        does: Does,
    },
}

/// What an application does from a change on.
#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    /// It hands nothing over; what has not been sent waits.
    Pause,
    /// It goes on with what it did before the pause.
    Resume,
    /// It has this workload, behind what has not been sent of the one before; of one without end nothing stays.
    Write(Workload),
}

/// A [`When`] that acted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fired {
    /// Its number.
    pub when: u32,
    /// When the condition was met.
    pub at: Time,
    /// The value of its first variable then.
    pub value: f64,
}

/// A [`When`] with what it has seen.
#[derive(Clone, Debug)]
pub struct Trigger {
    when: When,
    met: bool,
    crossings: u64,
}

impl Trigger {
    /// One that has seen nothing.
    pub fn new(when: When) -> Self {
        Self { when, met: false, crossings: 0 }
    }

    /// What it is about.
    pub fn when(&self) -> &When {
        &self.when
    }

    /// Nothing that comes makes it act.
    pub fn is_spent(&self) -> bool {
        let When { skip, times, .. } = self.when;
        times > 0 && self.crossings >= u64::from(skip) + u64::from(times)
    }

    /// The controller has had events at `now`. Answers with what happened if the condition is met that was not before, and it is the
    /// turn of this crossing to act.
    pub fn see(&mut self, now: Time, controller: &dyn Controller) -> Option<Fired> {
        let When { number, is, after, skip, .. } = &self.when;
        let mut found = vec![None; is.len()];
        controller.describe(&mut |name, value| {
            for ((wanted, _), found) in is.iter().zip(&mut found) {
                if wanted == name {
                    *found = Some(value);
                }
            }
        });
        let holds = |((_, condition), value): (&(String, Condition), &Option<f64>)| {
            value.is_some_and(|value| condition.is_met(value))
        };
        let met = now >= *after && is.iter().zip(&found).all(holds);
        let before = std::mem::replace(&mut self.met, met);
        if before || !met || self.is_spent() {
            return None;
        }
        self.crossings += 1;
        let value = found.first().copied().flatten().unwrap_or_default();
        (self.crossings > u64::from(*skip)).then_some(Fired { when: *number, at: now, value })
    }
}

#[cfg(test)]
mod tests {
    use paceline_cc::{Ack, Loss, Nature, Permit, Sent, Stamp, Timeout};

    use super::*;

    /// A controller of which two variables are known.
    struct Known(f64, f64);

    impl Controller for Known {
        fn on_sent(&mut self, _sent: &Sent) -> Stamp {
            Stamp::default()
        }
        fn on_ack(&mut self, _ack: &Ack<'_>) {}
        fn on_loss(&mut self, _loss: &Loss<'_>) {}
        fn on_timeout(&mut self, _timeout: &Timeout<'_>) {}
        fn nature(&self) -> Nature {
            Nature::PLAIN
        }
        fn permit(&self) -> Permit {
            Permit::up_to(1)
        }
        fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
            report("state", self.0);
            report("level", self.1);
        }
    }

    fn when(is: &[(&str, Condition)]) -> When {
        let is = is.iter().map(|(name, condition)| ((*name).to_owned(), *condition)).collect();
        let (after, delay) = (Time::ZERO, Nanos::ZERO);
        When { number: 3, is, after, skip: 0, times: 1, delay, lasts: None, set: Vec::new() }
    }

    /// In which of these milliseconds it acts, of states one a millisecond.
    fn acts(when: When, states: &[f64]) -> Vec<u64> {
        let mut trigger = Trigger::new(when);
        let at = |ms: u64| Time::from_millis(ms);
        let fired = (0..).zip(states).filter_map(|(ms, state)| trigger.see(at(ms), &Known(*state, 2.0 * state)));
        fired.map(|fired| fired.at.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn a_crossing_is_from_not_met_to_met_and_skip_times_and_after_choose() {
        let states = [5.0, 5.0, 1.0, 5.0, 1.0, 1.0, 5.0, 5.0, 5.0];
        let up = when(&[("state", Condition::Is(5.0))]);
        assert_eq!(acts(up.clone(), &states), [0]);
        assert_eq!(acts(When { times: 0, ..up.clone() }, &states), [0, 3, 6]);
        assert_eq!(acts(When { skip: 1, times: 0, ..up.clone() }, &states), [3, 6]);
        assert_eq!(acts(When { skip: 1, ..up.clone() }, &states), [3]);
        // It holds at that time: the first event from then on is a crossing.
        assert_eq!(acts(When { after: Time::from_millis(7), ..up.clone() }, &states), [7]);
        assert_eq!(acts(When { after: Time::from_millis(4), ..up }, &states), [6]);
    }

    #[test]
    fn all_conditions_must_be_met_and_the_first_value_is_told() {
        let both = when(&[("state", Condition::Above(1.0)), ("level", Condition::Below(9.0))]);
        assert_eq!(acts(When { times: 0, ..both.clone() }, &[1.0, 5.0, 4.0, 5.0, 2.0]), [2, 4]);
        let fired = Trigger::new(both).see(Time::from_millis(1), &Known(4.0, 8.0)).unwrap();
        assert_eq!((fired.when, fired.value), (3, 4.0));
        assert!(Trigger::new(when(&[("other", Condition::Below(9.0))])).see(Time::ZERO, &Known(0.0, 0.0)).is_none());
    }
}
