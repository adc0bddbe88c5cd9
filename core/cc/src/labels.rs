//! Names of the values of described variables that say in which state a controller is.

/// The states of `bbr` ([`crate::bbr`]) as its variable `mode` has them.
pub const MODES: &[&str] = &["Startup", "Drain", "ProbeBW", "ProbeRTT"];
/// The states of `bbr3` ([`crate::bbr3`]) as its variable `state` has them.
pub const STATES: &[&str] = &["Startup", "Drain", "DOWN", "CRUISE", "REFILL", "UP", "ProbeRTT"];
/// What `bbr3` takes the acknowledgements that come for, its variable `ack_phase`.
pub const ACK_PHASES: &[&str] = &["Init", "Refilling", "Starting", "Feedback", "Stopping"];

/// The names of a variable's values, by value; `None` of a variable that is a number.
pub fn of(variable: &str) -> Option<&'static [&'static str]> {
    match variable {
        "mode" => Some(MODES),
        "state" => Some(STATES),
        "ack_phase" => Some(ACK_PHASES),
        _ => None,
    }
}
