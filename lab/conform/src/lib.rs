//! Whether a controller does what its specification says: rules that judge the trajectory of a flow, wherever it comes from.

pub mod episodes;
pub mod rig;
pub mod rule;
pub mod rules;
pub mod suite;
pub mod trajectory;
pub mod watch;
