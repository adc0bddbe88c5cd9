//! Named content: the receiver asks for units of an object and runs the congestion controller; the router answers and forgets.
//!
//! Sans-IO. Source: Liu, Zeng, Han and Sun, "Toward ICN receiver-driven transmission mechanism over WLAN" (2021).

pub mod build;
pub mod cache;
pub mod fetch;
pub mod flow;
pub mod hash;
pub mod layout;
pub mod limiter;
pub mod manifest;
pub mod name;
pub mod ndn;
pub mod pace;
pub mod ranges;
pub mod resolve;
pub mod router;
pub mod scheduler;
pub mod shares;
pub mod signed;
pub mod token;
pub mod tree;
pub mod upstream;
mod waiting;
pub mod wire;

pub use build::{BadSource, Builder};
pub use cache::Admission;
pub use fetch::{Dropped, Fetch, FetchConfig, FetchFailed, FetchStats, Output, Saved, SourceId, SourceStats};
pub use flow::{Aggregation, Arrived, FlowConfig, PacedCeiling, RequestFlow, Supply};
pub use layout::{Layout, UnitPlace};
pub use limiter::{BucketMemory, CountedAddress};
pub use manifest::{BadManifest, Manifest};
pub use name::Name;
pub use pace::{Limits, LinkPace, UnitCharges};
pub use ranges::{Ranges, Units};
pub use router::{Burst, Found, Missing, Router, RouterConfig, RouterStats, Shelf};
pub use shares::{HeldPlace, Shares, Sharing, Standing, makes_room};
pub use signed::{BadRecord, SignedRecord};
pub use token::Secrets;
pub use tree::{UnitVerdict, Verifier};
pub use upstream::{Beginning, JobId, Uplink, Upstream};

/// Payload bytes of a unit, what one data packet carries (the paper's `UNIT_MSS`).
pub const UNIT: usize = 1400;
