//! The simulator: worlds in virtual time, deterministic from a seed.
//!
//! A [`Config`] says what happens, [`run`] makes it happen, an [`Outcome`] is what is left. Time is integer
//! nanoseconds; events at one instant have a fixed order; everything random has a [`Seed`] and a stream of its own.

mod body;
pub mod config;
mod draw;
pub mod endpoints;
mod histogram;
mod host;
mod live;
pub mod outcome;
mod pool;
pub mod record;
pub mod seed;
pub mod tap;
mod timers;
pub mod topology;
pub mod workload;
pub mod world;

pub use body::Body;
pub use config::{Config, Cross, Cut, Direction, Flow, Handover, Pareto, Timing, Via, Way, Workload};
pub use outcome::{Distribution, FlowOutcome, FlowSeries, HopOutcome, MAX_COMPLETIONS, Outcome, Series, SplitSum};
pub use paceline_transport::{Acks, Mode};
pub use record::{Recorder, Sample};
pub use seed::Seed;
pub use tap::{Fate, Layer, Tap};
pub use topology::{Graph, GraphError, Hop, Topology};
pub use workload::{Application, Arrivals, Gaps, NewFlow, Turn};
pub use world::run;
