//! What the flows of a family learn of the place that they go to, and lend to the next.

use paceline_cc::{Remembered, Time};

use crate::Flow;

/// What is known of a flow's place, and since when.
#[derive(Clone, Debug)]
pub struct PathMemory {
    known: Option<(Remembered, Time)>,
    /// What one flow learns is lent to the next, to one at a time.
    learns: bool,
}

impl PathMemory {
    /// Before the flow, or the first of the family, begins.
    pub fn of(flow: &Flow) -> Self {
        Self { known: flow.remembered.map(|remembered| (remembered, Time::ZERO)), learns: flow.remember }
    }

    /// What a flow that begins now may make use of ([`paceline_cc::Env::remembered`]).
    pub fn lend(&mut self, now: Time) -> Option<Remembered> {
        let known = if self.learns { self.known.take() } else { self.known };
        known.map(|(mut remembered, at)| {
            remembered.age += now - at;
            remembered
        })
    }

    /// Takes in what a flow that ends now has learnt ([`paceline_cc::Controller::remember`]).
    pub fn learn(&mut self, now: Time, learnt: Option<Remembered>) {
        if self.learns && learnt.is_some() {
            self.known = learnt.map(|learnt| (learnt, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_cc::{Nanos, Spec};

    use super::*;
    use crate::Via;

    fn memory(remembered: Option<Remembered>, remember: bool) -> PathMemory {
        let spec: Spec = "cubic:start=resume".parse().unwrap();
        PathMemory::of(&Flow { remembered, remember, ..Flow::bulk(spec, Via::udp()) })
    }

    const KNOWN: Remembered = Remembered::new(100_000, Nanos::from_millis(20), Nanos::from_millis(5));

    #[test]
    fn what_a_scenario_says_is_lent_to_each_flow_and_ages() {
        let mut memory = memory(Some(KNOWN), false);
        assert_eq!(memory.lend(Time::ZERO), Some(KNOWN));
        let later = Some(Remembered::new(100_000, Nanos::from_millis(20), Nanos::from_millis(1005)));
        assert_eq!(memory.lend(Time::from_millis(1000)), later);
        assert_eq!(memory.lend(Time::from_millis(1000)), later);
    }

    #[test]
    fn a_family_lends_what_it_knows_to_one_flow_at_a_time() {
        let mut memory = memory(Some(KNOWN), true);
        assert_eq!(memory.lend(Time::ZERO), Some(KNOWN));
        assert_eq!(memory.lend(Time::ZERO), None);
    }
}
