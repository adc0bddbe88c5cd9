//! Whether a controller does what its specification says: rules that judge the trajectory of a flow, wherever it comes from. And what
//! it does to others: RFC 9743's questions. And how each behaves on six standard paths.

pub mod capture;
pub mod cases;
pub mod episodes;
pub mod evaluate;
pub mod pace;
pub mod page;
pub mod profile;
mod program;
pub mod qlog;
pub mod read;
pub mod ride;
pub mod rig;
pub mod rule;
pub mod rules;
pub mod said;
pub mod script;
pub mod suite;
pub mod trajectory;
pub mod variables;
pub mod watch;
