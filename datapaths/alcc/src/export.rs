//! What other processes see of the sockets: a Unix socket for `paceline top`, metrics for Prometheus, a qlog.
//!
//! Each process listens at `paceline-UID/PID.sock` below `$XDG_RUNTIME_DIR`, `/tmp` or `/run/user/UID`, the first that it can
//! have; root's at `/run/paceline/PID.sock`. Who connects gets one JSON line about the process ([`Process`]), one a socket
//! ([`Line`]), and the end; nothing is read from the connection. The folder is its user's alone (mode 0700), or it is not
//! used: by the process that listens nor by the one that asks. The one that asks makes sure that a socket, its folder and the process that listens are of
//! one user, waits for no process longer than a second, and removes nothing but what its own processes left behind.
//!
//! One thread serves it all. It sleeps until a client asks, and wakes by itself only while logs are written. System calls
//! go through `rustix`, never through symbols that a preloaded library replaces, except to close.

mod client;
mod metrics;
mod place;
mod qlog;
mod search;
mod server;
mod survey;
mod unserved;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use paceline_cc::foreign::clipped;
use paceline_cc::qlog::{NotAForm, QlogForm};
use serde::{Deserialize, Serialize};

use crate::figures::SocketStats;
use crate::options::Variable;
use crate::rtts::Rtts;
use crate::stats::Totals;

pub use crate::figures::Line;
pub use client::read;
pub use metrics::registry;
pub use server::Export;
pub use survey::{Answers, processes, survey};
pub use unserved::Unserved;

/// The address for Prometheus.
pub const METRICS: &str = "PACELINE_METRICS";
/// The folder for logs in the qlog format.
pub const QLOG: &str = "PACELINE_QLOG";
/// The same, as every program that writes qlogs has it (draft-ietf-quic-qlog-main-schema-14 section 14).
pub const QLOGDIR: &str = "QLOGDIR";
/// Which form of it.
pub const QLOG_FORM: &str = "PACELINE_QLOG_FORM";

/// The variables of these.
pub const VARIABLES: [Variable; 3] = [
    Variable {
        name: QLOG,
        option: "qlog",
        value: "DIR",
        default: "none",
        what: "Write a log of each connection into this folder, in the qlog format.",
    },
    Variable {
        name: QLOG_FORM,
        option: "qlog-form",
        value: "FORM",
        default: "today",
        what: "The form of these logs: `today`, or `0.3` for qvis.",
    },
    Variable {
        name: METRICS,
        option: "metrics",
        value: "ADDRESS",
        default: "none",
        what: "Answer Prometheus here, such as `192.0.2.1:9464`; a port alone, `9464`, is one of the loopback address.",
    },
];

/// What to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Answer Prometheus here.
    pub metrics: Option<SocketAddr>,
    /// Write a log of each socket into this folder.
    pub qlog: Option<PathBuf>,
    /// In this form.
    pub qlog_form: QlogForm,
}

impl Settings {
    /// Reads [`METRICS`], [`QLOG`] and, where that is not given, [`QLOGDIR`], and [`QLOG_FORM`] of this process. An empty value is as if
    /// it were not there.
    ///
    /// # Errors
    /// [`SettingsError`] when [`METRICS`] is not an address, or [`QLOG_FORM`] not a form.
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
            qlog: given(QLOG).or_else(|| given(QLOGDIR)).map(PathBuf::from),
            qlog_form: given(QLOG_FORM).map_or(Ok(QlogForm::default()), |text| form(&text))?,
        })
    }

    /// The variables that make a program's [`Settings::from_env`] answer these settings.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        let metrics = self.metrics.map(|address| (METRICS, address.to_string()));
        let qlog = self.qlog.as_ref().map(|folder| (QLOG, folder.display().to_string()));
        let form = (self.qlog_form != QlogForm::default()).then(|| (QLOG_FORM, self.qlog_form.name().to_owned()));
        metrics.into_iter().chain(qlog).chain(form).collect()
    }
}

/// An address to answer Prometheus at: `127.0.0.1:9464`, `[::1]:9464`, or a port alone, which is of the loopback address.
///
/// # Errors
/// [`SettingsError`] when it is neither.
pub fn address(text: &str) -> Result<SocketAddr, SettingsError> {
    let port = text.trim_start_matches(':').parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = port.or_else(|_| text.parse());
    address.ok().filter(|address| address.port() != 0).ok_or_else(|| SettingsError::Address { text: clipped(text) })
}

fn form(text: &str) -> Result<QlogForm, SettingsError> {
    text.parse().map_err(|problem| SettingsError::QlogForm { text: clipped(text), problem })
}

/// A setting that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// An address for metrics.
    #[error("metrics: '{text}' is not an address; give one such as 127.0.0.1:9464, or a port from 1 to 65535")]
    Address {
        /// As given.
        text: String,
    },
    /// A form of qlogs.
    #[error("qlog-form: '{text}' is {problem}")]
    QlogForm {
        /// As given.
        text: String,
        /// Why not.
        problem: NotAForm,
    },
}

/// What an engine has to say.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// Its sockets.
    pub sockets: Vec<SocketStats>,
    /// What those that are closed have done.
    pub past: Totals,
    /// Round-trip times of all of them.
    pub rtts: Rtts,
}

/// Where the numbers come from: an engine. `None` when it is gone.
pub type Source = Box<dyn Fn() -> Option<News> + Send>;

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
    /// Round-trip times of all its sockets so far.
    #[serde(default)]
    pub rtts: Rtts,
    /// Its sockets.
    #[serde(skip)]
    pub sockets: Vec<Line>,
}
