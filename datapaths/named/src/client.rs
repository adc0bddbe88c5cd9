//! A requester over sockets: asks routers for an object, and gives its bytes in order, verified.
//!
//! A fetch is a thread of its own that drives [`paceline_icn::Fetch`] over one UDP socket for each source. Bytes leave it in batches,
//! through a queue; what stands there unread is not asked for again, so that a reader who stops reading stops the routers.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use futures_executor::block_on;
use paceline_cc::datapath::ICN;
use paceline_cc::{Controller, Env, Spec};
use paceline_icn::{Name, UNIT};
use paceline_udp::Offload;

use crate::CallFailed;
use crate::resolver::draw;
use crate::store::StoreError;
use reader::Said;

mod file;
pub(crate) mod link;
pub(crate) mod reader;
mod record;
mod requester;
mod seen;

pub use file::{Fetched, fetch_in_order, fetch_to_file};
pub use paceline_icn::fetch::{FetchFailed, FetchStats};
pub use reader::Reader;
pub use record::{record, record_blocking, target, target_blocking};
pub use seen::target_beside;

/// Makes the controller of a source.
pub type MakeController = Box<dyn FnMut(SocketAddr) -> Box<dyn Controller> + Send>;

/// Is informed how far a fetch is.
pub type OnProgress = Box<dyn FnMut(&Progress) + Send>;

/// How a fetch goes about it.
pub struct Options {
    /// The controller of each source.
    pub controller: MakeController,
    /// Bytes that may wait for the reader, or for units before them. 48 MB: the authors' code.
    pub receive_buffer: u64,
    /// The fetch fails when no byte came for this long from its start on, or for twice as long later, so that it outlives an outage. 30 s: as
    /// its flows.
    pub patience: Duration,
    /// What the kernel puts together and takes apart.
    pub offload: Offload,
    /// Is called ten times a second while bytes come.
    pub progress: Option<OnProgress>,
}

impl Options {
    /// Under this controller (`"bbr".parse()`: the paper's), the rest as said at each.
    pub fn new(spec: Spec) -> Self {
        Self {
            controller: Box::new(move |_| spec.clone().over(&ICN).build(&env())),
            receive_buffer: 48_000_000,
            patience: Duration::from_secs(30),
            offload: Offload { send: false, receive: true },
            progress: None,
        }
    }
}

/// What a controller is made for: units, and a seed that differs between fetches.
pub fn env() -> Env {
    Env::new(UNIT as u32).with_seed(draw().unwrap_or(1))
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes given to the reader's queue.
    pub bytes: u64,
    /// Bytes that are wanted.
    pub of: u64,
    /// Since the first request.
    pub elapsed: Duration,
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No source to ask.
    #[error("{0}: no source is given; name one with --from, or a resolver")]
    NoSource(Name),
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] CallFailed),
    /// No program listens there.
    #[error("{0}: no program listens there; is `paceline icn serve` running?")]
    Refused(SocketAddr),
    /// No source has it.
    #[error("{name}: {why}")]
    Failed {
        /// The object.
        name: Name,
        /// What the requester says.
        why: FetchFailed,
    },
    /// The sources have an older record of a signed name than was fetched before.
    #[error(
        "{name}: the sources have version {version} of it, and version {known} came before; wait until one has that, or remove {path} to go back"
    )]
    WentBack {
        /// The signed name.
        name: Name,
        /// What the sources have.
        version: u64,
        /// What was seen.
        known: u64,
        /// The file that remembers it.
        path: String,
    },
    /// Nothing came.
    #[error("{name}: nothing came for {} s, {bytes} bytes had; try again, it goes on from there", waited.as_secs())]
    Silent {
        /// The object.
        name: Name,
        /// For how long.
        waited: Duration,
        /// Bytes that came before.
        bytes: u64,
    },
    /// A file cannot be had or written.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The file in the making cannot be used.
    #[error(transparent)]
    Part(#[from] StoreError),
    /// The thread of the fetch is gone.
    #[error("{0}: the fetch ended without a result; please report it")]
    Gone(Name),
}

impl FetchError {
    /// Whether no source has the object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Failed { why: FetchFailed::NotFound, .. })
    }

    /// Whether no source answers.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Failed { why: FetchFailed::Silent, .. } | Self::Silent { .. } | Self::Refused(_))
    }
}

/// Fetches bytes `range` of an object (`0..u64::MAX`: all) from `sources`, nearest first. Returns when the manifest is there; a range
/// that ends behind the object's end, ends there. `name` is an object's; for a signed one ask [`target`] before.
///
/// # Errors
/// [`FetchError`].
pub async fn fetch(
    name: &Name,
    sources: &[SocketAddr],
    range: Range<u64>,
    options: Options,
) -> Result<Reader, FetchError> {
    let receive_buffer = options.receive_buffer;
    let (mut queue, fetching) = requester::start(*name, sources, range, options, requester::Taker::Reader)?;
    match queue.recv().await {
        Some(Said::Manifest(manifest)) => Ok(Reader::new(*name, *manifest, queue, fetching, receive_buffer)),
        Some(Said::End(_, Err(error))) => Err(error),
        _ => Err(FetchError::Gone(*name)),
    }
}

/// As [`fetch`], for threads that are not of a runtime.
///
/// # Errors
/// [`FetchError`].
pub fn fetch_blocking(
    name: &Name,
    sources: &[SocketAddr],
    range: Range<u64>,
    options: Options,
) -> Result<Reader, FetchError> {
    block_on(fetch(name, sources, range, options))
}
