//! Worlds that are run step by step, with a controller whose window is set from outside: what a Gymnasium environment needs.

mod agent;
mod batch;
mod monitor;

pub(crate) use agent::register_policy;
pub(crate) use batch::Batch;
pub(crate) use monitor::{FIGURES, OBSERVATION};
