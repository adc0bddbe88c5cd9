//! What other processes see of the sockets: a Unix socket for `paceline top`, metrics for Prometheus, a log for qvis.
//!
//! Each process listens at `paceline-UID/PID.sock` below `$XDG_RUNTIME_DIR`, `/tmp` or `/run/user/UID`, the first that it can
//! have; root's at `/run/paceline/PID.sock`. Who connects gets one JSON line about the process ([`Process`]), one a socket
//! ([`Line`]), and the end; nothing is read from the connection. The folder is its user's alone (mode 0700), or it is not
//! used: by who listens nor by who asks. Who asks makes sure that a socket, its folder and the process that listens are of
//! one user, waits for no process longer than a second, and removes nothing but what its own processes left behind.
//!
//! One thread serves it all. It sleeps until somebody asks, and wakes by itself only while logs are written. System calls
//! go through `rustix`, never through symbols that a preloaded library replaces, except to close.

mod client;
mod http;
mod metrics;
mod place;
mod qlog;
mod search;
mod server;
mod survey;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use paceline_cc::Nanos;
use paceline_cc::units::clipped;
use serde::{Deserialize, Serialize};

use crate::stats::{SocketStats, Totals};

pub use client::read;
pub use metrics::encode;
pub use server::Export;
pub use survey::{Answers, processes, survey};

/// The address for Prometheus.
pub const METRICS: &str = "PACELINE_METRICS";
/// The folder for logs in the qlog format.
pub const QLOG: &str = "PACELINE_QLOG";

/// What to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Answer Prometheus here.
    pub metrics: Option<SocketAddr>,
    /// Write a log of each socket into this folder.
    pub qlog: Option<PathBuf>,
}

impl Settings {
    /// Reads [`METRICS`] and [`QLOG`] of this process.
    ///
    /// # Errors
    /// [`SettingsError`] when [`METRICS`] is not an address.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// As [`Settings::from_env`], from any source of variables.
    ///
    /// # Errors
    /// [`SettingsError`] when [`METRICS`] is not an address.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let given = |name| var(name).filter(|text| !text.is_empty());
        Ok(Self {
            metrics: given(METRICS).map(|text| address(&text)).transpose()?,
            qlog: given(QLOG).map(PathBuf::from),
        })
    }

    /// The variables that make a program's [`Settings::from_env`] answer these settings.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        let metrics = self.metrics.map(|address| (METRICS, address.to_string()));
        let qlog = self.qlog.as_ref().map(|folder| (QLOG, folder.display().to_string()));
        metrics.into_iter().chain(qlog).collect()
    }
}

/// An address to answer Prometheus at: `127.0.0.1:9464`, `[::1]:9464`, or a port alone, which is of the loopback address.
///
/// # Errors
/// [`SettingsError`] when it is neither.
pub fn address(text: &str) -> Result<SocketAddr, SettingsError> {
    let port = text.trim_start_matches(':').parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = port.or_else(|_| text.parse());
    address.ok().filter(|address| address.port() != 0).ok_or_else(|| SettingsError { text: clipped(text) })
}

/// An address for metrics that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metrics: '{text}' is not an address; give one such as 127.0.0.1:9464, or a port from 1 to 65535")]
pub struct SettingsError {
    /// As given.
    pub text: String,
}

/// Where the numbers come from: an engine, its sockets and what those that are closed have done. `None` when it is gone.
pub type Source = Box<dyn Fn() -> Option<(Vec<SocketStats>, Totals)> + Send>;

/// One process and its sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its number; for a process in another namespace, the one that this process knows it by.
    pub pid: u32,
    /// Its name (the first 15 bytes, as the kernel keeps it).
    pub program: String,
    /// The version of paceline in it.
    pub version: String,
    /// Sockets that are closed.
    #[serde(default)]
    pub closed: u64,
    /// Bytes that these delivered.
    #[serde(default)]
    pub closed_delivered_bytes: u64,
    /// Segments that TCP sent again on these.
    #[serde(default)]
    pub closed_retransmits: u64,
    /// Its sockets.
    #[serde(skip)]
    pub sockets: Vec<Line>,
}

/// One socket, in the units that people read: [`SocketStats`] as JSON has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Number of the socket, unique in its process.
    pub id: u64,
    /// This end.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub peer: Option<SocketAddr>,
    /// The controller above TCP, as `copa:delta=0.1`.
    pub controller: String,
    /// `queue`, `inline` or `framed`.
    pub mode: String,
    /// Where acknowledgements are read: `stamps` or `info`.
    pub acks: String,
    /// Since it is in our care, in seconds.
    pub age_s: f64,
    /// What holds the flow back: `nothing`, `application`, `window`, `pacing` or `layer below`.
    pub limited_by: String,
    /// Rate of delivery, in Mbit/s.
    pub rate_mbps: f64,
    /// The newest round-trip time of the network, in ms.
    pub rtt_ms: Option<f64>,
    /// Smoothed, in ms.
    pub srtt_ms: Option<f64>,
    /// The smallest, in ms.
    pub min_rtt_ms: Option<f64>,
    /// What the newest chunk waited in TCP's own buffer, in ms.
    pub below_ms: f64,
    /// The controller's window.
    pub window_bytes: u64,
    /// TCP's own window.
    pub lower_window_bytes: u64,
    /// Handed to TCP and not yet acknowledged.
    pub in_flight_bytes: u64,
    /// Taken from the application and not yet handed to TCP.
    pub queue_bytes: u64,
    /// Written by the application.
    pub written_bytes: u64,
    /// Acknowledged by the other end.
    pub delivered_bytes: u64,
    /// Segments that TCP sent again.
    pub retransmits: u32,
    /// Timeouts of TCP.
    pub timeouts: u32,
    /// Chunks handed to TCP.
    pub chunks: u64,
    /// Of these, with TCP as the limit.
    pub chunks_limited_below: u64,
    /// Time stamps that the kernel dropped, repaired from `TCP_INFO`.
    pub stamps_lost: u64,
    /// Samples of the round-trip time that cover a retransmission and were not used.
    pub marked_samples: u64,
}

impl From<&SocketStats> for Line {
    fn from(stats: &SocketStats) -> Self {
        let millis = |span: Option<Nanos>| span.map(Nanos::as_millis_f64);
        Self {
            id: stats.id,
            local: stats.local,
            peer: stats.peer,
            controller: stats.controller.clone(),
            mode: stats.mode.to_string(),
            acks: stats.acks.to_string(),
            age_s: stats.age.as_millis_f64() / 1e3,
            limited_by: stats.limited_by.to_string(),
            rate_mbps: stats.rate.as_mbps(),
            rtt_ms: millis(stats.rtt),
            srtt_ms: millis(stats.srtt),
            min_rtt_ms: millis(stats.min_rtt),
            below_ms: stats.below.as_millis_f64(),
            window_bytes: stats.window,
            lower_window_bytes: stats.lower_window,
            in_flight_bytes: stats.in_flight,
            queue_bytes: stats.queued,
            written_bytes: stats.written,
            delivered_bytes: stats.delivered,
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
            chunks: stats.chunks,
            chunks_limited_below: stats.limited_below,
            stamps_lost: stats.stamps_lost,
            marked_samples: stats.marked,
        }
    }
}
