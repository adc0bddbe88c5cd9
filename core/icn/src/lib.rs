//! Named content: the receiver asks for units of an object and runs the congestion controller; the router answers and forgets.
//!
//! Sans-IO. Source: Liu, Zeng, Han and Sun, "Toward ICN receiver-driven transmission mechanism over WLAN" (2021).

pub mod build;
pub mod cache;
pub mod fetch;
pub mod flow;
pub mod hash;
pub mod layout;
pub mod manifest;
pub mod name;
pub mod ranges;
pub mod signed;
pub mod tree;
pub mod wire;

pub use build::{BadSource, Builder};
pub use fetch::{Dropped, Failed, Fetch, FetchConfig, FetchStats, Output, SourceId, SourceStats};
pub use flow::{Aggregation, Arrived, Ceiling, Flow, FlowConfig, Supply};
pub mod cache;
pub mod limiter;
pub mod router;
pub mod scheduler;
pub mod token;
mod waiting;
pub use cache::Admission;
pub use fetch::{Dropped, Failed, Fetch, FetchConfig, FetchStats, Output, SourceId, SourceStats};
pub use flow::{Aggregation, Arrived, Ceiling, Flow, FlowConfig, Supply};
pub use layout::{Layout, Place};
pub use manifest::{BadManifest, Manifest};
pub use name::Name;
pub use ranges::{Ranges, Units};
pub use signed::{BadRecord, Record};
pub use tree::{Verdict, Verifier};
pub use router::{Burst, Found, Missing, Router, RouterConfig, RouterStats, Shelf};
pub use token::Secrets;

/// Payload bytes of a unit, what one data packet carries (the paper's `UNIT_MSS`).
pub const UNIT: usize = 1400;
