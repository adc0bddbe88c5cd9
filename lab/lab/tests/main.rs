//! Scenario files, records, logs, and what the documentation says of them.

mod digests;
mod links;
mod mdi;
mod qlog;
mod readme;
mod scenarios;
mod settings;
mod sweep;
mod variation;
mod vectors;
