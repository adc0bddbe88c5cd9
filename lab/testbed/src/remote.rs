//! Races between two hosts over the network that lies between them: a [`RaceServer`] at one, a [`RaceClient`] at the other.
//!
//! A control connection over TCP opens a race and carries what both ends say ([`wire`]); each run has one flow, over UDP, over the kernel's TCP,
//! or above one. The client opens all of them, in either direction of data, so that it may stand behind a translator of addresses. The
//! server sends to no other address than that of the control connection, no longer and no more than it permits, for one race at a time.
//!
//! The two hosts have no clock in common. What is measured needs none: what arrived, what the sender counted, and round trips.

mod client;
mod flow;
mod line;
mod server;
pub mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};

use paceline_udp::seal::TAG;
use paceline_udp::{HandshakeError, SessionKey};

pub use client::{RaceClient, RemoteRun};
pub use flow::RemoteFlowError;
pub use line::LineError;
pub use server::{RaceAccount, RaceOffer, RaceServer};

/// Without a key this signs: a checksum.
const NO_KEY: [u8; 32] = [0; 32];

/// Why there is no race between two hosts, or no run of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// There is no key, or no session for datagrams.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server cannot listen.
    #[error("cannot listen at {address}: {source}; choose another address or port")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// There is no connection.
    #[error(
        "no connection to {peer} ({source}); does `paceline serve --race` run there, and do firewalls let its port through?"
    )]
    Unreachable {
        /// The server.
        peer: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The other end says nothing, or nothing that makes sense.
    #[error("{peer}: {line}")]
    Line {
        /// The other end.
        peer: SocketAddr,
        /// What came instead.
        line: LineError,
    },
    /// The server's key is another one.
    #[error("{0} has another key or none; both ends must be given the same one with --key FILE")]
    OtherKey(SocketAddr),
    /// The server does not take the race on.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// The server.
        peer: SocketAddr,
        /// In its words.
        why: String,
    },
    /// The run is longer than the server permits.
    #[error("{peer} permits runs of {most} s at most; give --seconds {most}, or start it with --most-seconds")]
    TooLong {
        /// The server.
        peer: SocketAddr,
        /// Longest run, in seconds.
        most: f64,
    },
    /// Datagrams do not get through.
    #[error("{0} answers over TCP and not over UDP; let its UDP port through firewalls")]
    NoDatagrams(SocketAddr),
    /// The run failed at the other end.
    #[error("at {peer}: {why}")]
    There {
        /// The other end.
        peer: SocketAddr,
        /// In its words.
        why: String,
    },
    /// The run failed at this end.
    #[error(transparent)]
    Here(#[from] RemoteFlowError),
}

/// What signs with this key.
fn secret(key: Option<&SessionKey>) -> &[u8; 32] {
    key.map_or(&NO_KEY, SessionKey::bytes)
}

/// What sealing adds to a datagram.
fn overhead(key: Option<&SessionKey>) -> usize {
    if key.is_some() { TAG } else { 0 }
}

/// # Errors
/// [`HandshakeError::NeedsKey`] when there is no key and others than this machine could speak.
fn permit(address: SocketAddr, key: Option<&SessionKey>) -> Result<(), RemoteError> {
    let loopback = host(address).is_loopback();
    if loopback || key.is_some() { Ok(()) } else { Err(HandshakeError::NeedsKey(address).into()) }
}

/// The host, an IPv4 one that speaks to a socket for both families as such.
fn host(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

/// A run's number as the name of its datagrams.
fn name_of(race: &wire::RaceNumber) -> String {
    race.iter().map(|byte| format!("{byte:02x}")).collect()
}
