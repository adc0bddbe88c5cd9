//! Content routers in virtual time: nodes that run what runs over sockets too, [`paceline_icn::Router`] with [`paceline_icn::Upstream`]. Every
//! message is on the wire as it is. Receivers are [`paceline_experiment::icn::FetchNode`].

mod cache;
mod router;
mod sources;

pub use cache::MemoryCache;
pub use router::{RouterNode, UpstreamOptions};

/// Seconds since 1970 when a world begins (our choice: worlds have no date).
const EPOCH_S: u64 = 1_800_000_000;
