#![doc = include_str!("../README.md")]

pub mod ability;
pub mod bbr;
pub mod bbr3;
pub mod bic;
pub mod ceiling;
pub mod chirp;
pub mod codepoint;
pub mod controller;
pub mod copa;
pub mod cubic;
pub mod cubic_medium;
pub mod datapath;
pub mod dctcp;
pub mod distribution;
mod doubt;
pub mod entry;
pub mod eq1;
#[cfg(feature = "event-log")]
pub mod event_log;
pub mod filter;
pub mod fixed;
pub mod foreign;
pub mod histogram;
pub mod hops;
pub mod hpcc;
pub mod hystart;
pub mod labels;
pub mod ledbat;
pub mod max_flight;
pub mod mdi;
pub mod names;
pub mod observe;
pub mod path_report;
pub mod path_rtt;
pub mod prague;
pub mod qlog;
pub mod rapid;
pub mod registry;
pub mod reno;
pub mod resume;
pub mod rledbat;
pub mod search;
pub mod sprout;
pub mod start_ups;
pub mod statements;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod units;
pub mod vegas;
pub mod verus;
pub mod window;

pub use ability::Ability;
pub use codepoint::Codepoint;
pub use controller::{
    Ack, Acked, Arrival, BadFeedback, Carrier, Cause, Controller, Ecn, Env, Hop, Loss, Lost, MAX_FEEDBACK, Nature,
    Pacing, Permit, Phase, RateSample, ReceiverHalf, Recovery, Remembered, Restart, Sent, Stamp, Telemetry, Timeout,
};
pub use datapath::{Datapath, Misfit};
pub use distribution::Distribution;
pub use entry::SpecError;
pub use registry::Spec;
pub use units::{Bytes, Nanos, Rate, Time, UnitError};
