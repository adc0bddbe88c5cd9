//! The simulator: experiments in virtual time, deterministic from a seed.
//!
//! A [`Config`] says what happens, [`run`] makes it happen, and leaves a [`paceline_experiment::Outcome`]. A [`World`] has nodes
//! beside its flows, which send bytes to each other. Time is integer nanoseconds; events at one instant have a fixed order; everything random has a seed and a stream of its own.

mod body;
mod ends;
mod families;
mod hops;
mod host;
pub mod icn;
mod live;
mod meters;
mod node;
mod pool;
mod room;
mod telemetry;
mod timers;
mod world;

pub use body::Body;
pub use node::{NodeId, address};
pub use world::{Config, World, run};
