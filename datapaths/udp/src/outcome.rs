//! How endpoints end, and what they leave behind.

use std::io;
use std::net::SocketAddr;

use paceline_cc::{Distribution, Nanos, Remembered};
use paceline_transport::SenderStats;

use super::channel::Strays;
use super::wire::Beyond;
use super::wire::control::Close;
use paceline_linux::clock::Lateness;

/// Why an endpoint stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The deadline has come.
    Deadline,
    /// Everything that was written has been delivered.
    Idle,
    /// The peer said that it is over.
    Closed(Close),
}

/// Why an endpoint could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The peer says nothing any more.
    #[error("the peer {peer} has been silent for {seconds:.0} s; it or the path to it is gone")]
    Silent {
        /// Its address.
        peer: SocketAddr,
        /// For this long.
        seconds: f64,
    },
    /// The peer's host said that no program listens there.
    #[error("no program listens at {peer} any more")]
    Refused {
        /// Its address.
        peer: SocketAddr,
    },
    /// The session has lasted too long.
    #[error(transparent)]
    Beyond(#[from] Beyond),
    /// The content cannot be read or written any more.
    #[error("{0}")]
    Content(#[source] io::Error),
    /// The system failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
}

impl Trouble {
    /// What the system said when something was to come from `peer`.
    pub(crate) fn hearing(peer: SocketAddr, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::ConnectionRefused { Self::Refused { peer } } else { Self::Socket(error) }
    }
}

/// What a sender leaves behind.
#[derive(Clone, Debug)]
pub struct SenderOutcome {
    /// Its counters.
    pub stats: SenderStats,
    /// RTT samples.
    pub rtt: Distribution,
    /// How late packets left that were paced by gaps.
    pub late: Lateness,
    /// CPU time of its thread, user and system.
    pub cpu: Nanos,
    /// Packets that were not let in.
    pub strays: Strays,
    /// Packets that its own kernel refused to send.
    pub lost_in_sending: u64,
    /// What later flows to the same place may make use of.
    pub remembered: Option<Remembered>,
}

/// What a receiver leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiverOutcome {
    /// Payload bytes ready for the application.
    pub bytes_ready: u64,
    /// Packets of data that arrived.
    pub packets: u64,
    /// Payload bytes that arrived, those that came twice included.
    pub bytes: u64,
    /// Packets with a CE mark.
    pub ce_packets: u64,
    /// CPU time of its thread, user and system.
    pub cpu: Nanos,
    /// Packets that were not let in.
    pub strays: Strays,
}
