//! A path that changes while it runs.

use paceline_cc::Time;

use super::{Path, Stage};
use crate::change::PathChange;
use crate::packet::Element;

impl<P: Clone + Send> Path<P> {
    /// Something changes at `now`, after what was due by then: the first stage that it is about takes it. Answers what was in force;
    /// `None` where no stage has that.
    pub fn change(&mut self, now: Time, change: PathChange) -> Option<PathChange> {
        self.advance(now);
        let before = self.places.iter_mut().find_map(|place| {
            let (before, due) = match &mut place.stage {
                Stage::Link(link) => (link.change(now, change)?, link.next()),
                Stage::Other(element) => (element.change(now, change)?, element.next()),
                Stage::Filter(filter) => return filter.change(now, change),
                Stage::Policer(policing) => {
                    let PathChange::PolicerRate(rate) = change else { return None };
                    let before = policing.policer().rate;
                    policing.set_rate(now, rate);
                    return Some(PathChange::PolicerRate(before));
                }
                Stage::Radio(_) | Stage::Delay(_) | Stage::Tunnel(_) => return None,
            };
            place.due = due;
            Some(before)
        });
        self.measure_again();
        self.plan();
        before
    }
}
