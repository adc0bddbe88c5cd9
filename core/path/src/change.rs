//! Changes of a path while it runs.

use paceline_cc::{Nanos, Rate};

use crate::loss::LossModel;
use crate::reorder::Reorder;

/// A key of a [`crate::Direction`] with the value that it takes while the path runs ([`crate::Path::change`]). Random elements
/// keep their streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathChange {
    /// The rate of a link that serves at a rate, or at steps that do not start over: a step more, at that moment.
    Rate(Rate),
    /// The same, as a multiple of what is in force.
    RateBy(f64),
    /// The delay of packets that come from then on: a step of the delays' schedule.
    Delay(Nanos),
    /// How packets are lost.
    Loss(LossModel),
    /// Which packets are held back, of those that come from then on.
    Reorder(Reorder),
    /// The rate of the policer.
    PolicerRate(Rate),
    /// A link that serves at a rate stands still from then on for this long.
    Outage(Nanos),
}

/// What of a path will change while it runs, so that it is built with the elements for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changeable {
    /// The delay.
    pub delay: bool,
    /// The loss.
    pub loss: bool,
    /// The reordering.
    pub reorder: bool,
}

impl Changeable {
    /// With what this change needs.
    #[must_use]
    pub fn and(mut self, change: &PathChange) -> Self {
        match change {
            PathChange::Delay(_) => self.delay = true,
            PathChange::Loss(_) => self.loss = true,
            PathChange::Reorder(_) => self.reorder = true,
            PathChange::Rate(_) | PathChange::RateBy(_) | PathChange::PolicerRate(_) | PathChange::Outage(_) => {}
        }
        self
    }
}
