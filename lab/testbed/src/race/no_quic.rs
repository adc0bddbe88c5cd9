//! Contestants over QUIC in a build without them.

use paceline_experiment::Flow;

use super::{Crew, RaceError, Work};

/// Refused, with how to build them.
pub(super) fn check(flow: &Flow) -> Result<Vec<String>, String> {
    let spec = &flow.controller;
    Err(format!(
        "{spec}@quic: this paceline was built without QUIC; build it with 'cargo build --release -p paceline-cli \
         --features quic', or write {spec}@udp"
    ))
}

/// Refused.
pub(super) fn work(_: &Crew<'_>, _: usize, flow: &Flow) -> Result<Work, RaceError> {
    check(flow).and(Err(String::new())).map_err(RaceError::Flow)
}
