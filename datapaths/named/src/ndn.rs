//! Objects of Named Data Networking, by a forwarder of it (NFD, NDNd) that is reached over UDP or TCP.
//!
//! A fetch is a thread of its own that drives [`paceline_icn::ndn::Consumer`], as [`crate::client`] does with objects of ours. What comes
//! is as true as its signature, and only a digest is checked: it says that a packet is whole, not who made it.

use std::collections::VecDeque;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_executor::block_on;
use paceline_icn::ndn::{ConsumeFailed, ConsumerStats, NdnName, Signature};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::CallFailed;
use crate::client::Options;
use crate::client::reader::Fetching;

mod face;
mod requester;

/// Where forwarders listen, over UDP and TCP.
const PORT: u16 = 6363;

/// How a forwarder is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Udp,
    Tcp,
}

/// A forwarder. From text: `[udp://|tcp://]HOST[:PORT]`, UDP and port 6363 where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarder {
    over: Over,
    address: SocketAddr,
}

/// Why a text is not a forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadForwarder {
    /// Another way than the two.
    #[error("a forwarder is reached over udp:// or tcp://")]
    Way,
    /// It does not resolve.
    #[error("no such host; give [udp://|tcp://]HOST[:PORT], such as udp://127.0.0.1:6363")]
    Host,
}

impl FromStr for Forwarder {
    type Err = BadForwarder;

    fn from_str(text: &str) -> Result<Self, BadForwarder> {
        let (over, host) = match text.split_once("://") {
            None => (Over::Udp, text),
            Some(("udp" | "udp4" | "udp6", host)) => (Over::Udp, host),
            Some(("tcp" | "tcp4" | "tcp6", host)) => (Over::Tcp, host),
            Some(_) => return Err(BadForwarder::Way),
        };
        let found = host.to_socket_addrs().or_else(|_| (host.trim_matches(['[', ']']), PORT).to_socket_addrs());
        let address = found.ok().and_then(|mut addresses| addresses.next());
        Ok(Self { over, address: address.ok_or(BadForwarder::Host)? })
    }
}

impl fmt::Display for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.over == Over::Udp { "udp" } else { "tcp" }, self.address)
    }
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum NdnError {
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] CallFailed),
    /// The forwarder is not there, or has gone.
    #[error("{0}: no forwarder answers there; is NFD or NDNd running?")]
    Refused(Forwarder),
    /// The object does not come.
    #[error("{name}: {why}")]
    Failed {
        /// The object.
        name: NdnName,
        /// What the consumer says.
        why: ConsumeFailed,
    },
    /// Nothing came.
    #[error("{name}: nothing came for {} s, {bytes} bytes had", waited.as_secs())]
    Silent {
        /// The object.
        name: NdnName,
        /// For how long.
        waited: Duration,
        /// Bytes that came before.
        bytes: u64,
    },
    /// The thread of the fetch is gone.
    #[error("{0}: the fetch ended without a result; please report it")]
    Gone(NdnName),
}

impl NdnError {
    /// Whether the object is not there, as far as the forwarder knows.
    pub fn is_not_found(&self) -> bool {
        let Self::Failed { why, .. } = self else { return false };
        matches!(why, ConsumeFailed::NoRoute | ConsumeFailed::NotThere | ConsumeFailed::Below(_))
    }

    /// Whether the forwarder or the producer does not answer.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Silent { .. } | Self::Failed { why: ConsumeFailed::Silent, .. })
    }
}

/// What the requester says to the reader.
#[derive(Debug)]
enum Said {
    Opened(Box<Opened>),
    Bytes(Vec<Bytes>),
    End(Box<ConsumerStats>, Result<(), NdnError>),
}

/// What is known of an object when its first bytes are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name with its version.
    pub name: NdnName,
    /// What its packets are signed with.
    pub signature: Signature,
    /// Its bytes, where one packet is all of it.
    pub length: Option<u64>,
}

/// The bytes of an object in order. Dropping it ends the fetch.
#[derive(Debug)]
pub struct NdnReader {
    asked: NdnName,
    opened: Opened,
    queue: UnboundedReceiver<Said>,
    fetching: Fetching,
    batch: VecDeque<Bytes>,
    /// Read and not yet reported.
    unreported: u64,
    /// Report after this many.
    report_every: u64,
    end: Option<Box<ConsumerStats>>,
}

impl NdnReader {
    /// What the object is.
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What the fetch did; `None` before its end.
    pub fn stats(&self) -> Option<&ConsumerStats> {
        self.end.as_deref()
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`NdnError`], once; afterwards the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NdnError> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// As [`NdnReader::chunk`], for a task.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, NdnError>> {
        while self.batch.is_empty() && self.end.is_none() {
            let Poll::Ready(said) = self.queue.poll_recv(cx) else {
                // A caller that reads all there is wants more.
                self.report();
                return Poll::Pending;
            };
            match said {
                // Comes once, before there is a reader.
                Some(Said::Opened(_)) => {}
                Some(Said::Bytes(batch)) => self.batch = batch.into(),
                Some(Said::End(stats, result)) => {
                    self.end = Some(stats);
                    result?;
                }
                None => {
                    self.end = Some(Box::default());
                    return Poll::Ready(Err(NdnError::Gone(self.asked.clone())));
                }
            }
        }
        let bytes = self.batch.pop_front();
        self.unreported += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if self.unreported >= self.report_every {
            self.report();
        }
        Poll::Ready(Ok(bytes))
    }

    fn report(&mut self) {
        if self.unreported > 0 {
            self.fetching.0.took(std::mem::take(&mut self.unreported));
        }
    }

    /// As [`NdnReader::chunk`], for threads that are not of a runtime.
    ///
    /// # Errors
    /// [`NdnError`].
    pub fn chunk_blocking(&mut self) -> Result<Option<Bytes>, NdnError> {
        block_on(self.chunk())
    }
}

/// Fetches an object; its newest version where `name` has none. Returns when its first bytes are there. Of `options` the callback for
/// progress is not called.
///
/// # Errors
/// [`NdnError`].
pub async fn fetch(forwarder: Forwarder, name: &NdnName, options: Options) -> Result<NdnReader, NdnError> {
    let report_every = options.receive_buffer / 16;
    let (mut queue, fetching) = requester::start(forwarder, name.clone(), options)?;
    match queue.recv().await {
        Some(Said::Opened(opened)) => {
            let (asked, batch) = (name.clone(), VecDeque::new());
            let opened = *opened;
            Ok(NdnReader { asked, opened, queue, fetching, batch, unreported: 0, report_every, end: None })
        }
        Some(Said::End(_, Err(error))) => Err(error),
        _ => Err(NdnError::Gone(name.clone())),
    }
}

/// As [`fetch`], for threads that are not of a runtime.
///
/// # Errors
/// [`NdnError`].
pub fn fetch_blocking(forwarder: Forwarder, name: &NdnName, options: Options) -> Result<NdnReader, NdnError> {
    block_on(fetch(forwarder, name, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarder_is_written_as_forwarders_write_faces() {
        for (text, expected) in [
            ("127.0.0.1", "udp://127.0.0.1:6363"),
            ("tcp://127.0.0.1:7000", "tcp://127.0.0.1:7000"),
            ("udp4://127.0.0.1:6363", "udp://127.0.0.1:6363"),
            ("tcp6://[::1]", "tcp://[::1]:6363"),
        ] {
            assert_eq!(text.parse::<Forwarder>().unwrap().to_string(), expected);
        }
        assert_eq!("unix:///run/nfd.sock".parse::<Forwarder>(), Err(BadForwarder::Way));
        assert_eq!("udp://".parse::<Forwarder>(), Err(BadForwarder::Host));
    }
}
