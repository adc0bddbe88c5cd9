//! Experiments: a scenario file, its contestants, the race, its records, the report.

pub mod claim;
pub mod contestant;
pub mod events;
pub mod flow_logs;
pub mod input;
pub mod journal;
pub mod measure;
pub mod output;
pub mod qlog;
pub mod race;
pub mod real;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod runner;
pub mod scenario;
pub mod stats;
pub mod table;
pub mod validate;
pub mod variation;
