//! The simulator: experiments in virtual time, deterministic from a seed.
//!
//! A [`Config`] says what happens, [`run`] makes it happen, and leaves a [`paceline_experiment::Outcome`]. Time is integer
//! nanoseconds; events at one instant have a fixed order; everything random has a seed and a stream of its own.

mod body;
mod hops;
mod host;
mod live;
mod nodes;
mod pool;
mod room;
mod telemetry;
mod timers;
mod world;

pub use body::Body;
pub use world::{Config, World, run};
