//! Scenario files, records, logs, and what the documentation says of them.

mod contributing;
mod digests;
mod elements;
mod excess;
mod links;
#[cfg(feature = "parquet")]
mod load;
mod mdi;
mod media;
mod qlog;
mod readme;
mod scenarios;
mod settings;
#[cfg(feature = "parquet")]
mod sweep;
mod variation;
mod vectors;
mod when;
