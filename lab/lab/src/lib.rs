//! The laboratory: a scenario file, its contestants, the one runner, the race and its records.

pub mod contestant;
pub mod events;
pub mod flow_logs;
pub mod guest;
pub mod input;
pub mod journal;
pub mod listing;
pub mod mdi;
pub mod measure;
mod named;
pub mod numbers;
pub mod programs;
pub mod qlog;
pub mod race;
pub mod real;
pub mod record;
#[cfg(target_os = "linux")]
pub mod remote;
pub mod run;
pub mod run_logs;
pub mod runner;
pub mod scenario;
pub mod series;
pub mod shell;
pub mod stats;
#[cfg(feature = "parquet")]
pub mod sweep;
pub mod table;
pub mod variation;
pub mod version;
