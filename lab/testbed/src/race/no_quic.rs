//! Contestants over QUIC in a build without them.

use paceline_experiment::Flow;

use super::{Crew, RaceError, Refused, Work};

/// Refused, with how to build them.
pub(super) fn check(flow: &Flow) -> Result<Vec<String>, Refused> {
    Err(Refused::NoQuic { controller: flow.controller.clone() })
}

/// Refused.
pub(super) fn work(_: &Crew<'_>, _: usize, flow: &Flow) -> Result<Work, RaceError> {
    Err(Refused::NoQuic { controller: flow.controller.clone() }.into())
}
