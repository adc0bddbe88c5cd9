//! What `serve`, `send` and `fetch` share: options, and how a transfer is reported.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, IsTerminal, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use paceline_cc::Nanos;
use paceline_files::{followed, secret};
use paceline_lab::input::{self, Bounds};
use paceline_udp::client::{Order, OrderError};
use paceline_udp::seal::make_key;
use paceline_udp::transfer::{Interval, TransferPlan, Transferred};
use paceline_udp::wire::control::{Hello, SessionJob};
use paceline_udp::{Offload, SessionKey};
use serde_json::{Value, json};

use super::{bytes, count, span};
use crate::complaint;

/// Where `serve` listens and the others ask, when nothing is said.
pub(super) const PORT: u16 = 4870;

/// Options of all three.
#[derive(clap::Args)]
pub(super) struct Common {
    /// The key that both ends share: a file with 64 hexadecimal digits that no other user may read. Only loopback works
    /// without.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Give up when the other end has been silent for this long.
    #[arg(long, value_name = "S", default_value = "10", value_parser = span, allow_negative_numbers = true)]
    timeout: f64,
    /// What happened, as JSON on standard output.
    #[arg(long)]
    pub(super) json: bool,
    /// Each packet is a system call of its own, and none is put together with others on arrival.
    #[arg(long)]
    no_offload: bool,
}

impl Common {
    pub(super) fn key(&self) -> anyhow::Result<Option<SessionKey>> {
        self.key.as_deref().map(key).transpose()
    }

    pub(super) fn patience(&self) -> anyhow::Result<Nanos> {
        seconds("--timeout", self.timeout)
    }

    pub(super) fn offload(&self) -> Offload {
        if self.no_offload { Offload::NONE } else { Offload { send: true, receive: true } }
    }
}

/// Options of the ends that ask.
#[derive(clap::Args)]
pub(super) struct Asking {
    #[command(flatten)]
    pub(super) common: Common,
    /// The sender's controller (paceline controllers), such as copa:delta=0.1.
    #[arg(long, value_name = "CONTROLLER", default_value = "copa")]
    cc: String,
    /// This many filler bytes (zeros) instead of a file.
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    pub(super) bytes: Option<u64>,
    /// Largest packet on the path, IP header included.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = count::<u16>, allow_negative_numbers = true)]
    mtu: u16,
    /// Packets for one acknowledgement.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u8>, allow_negative_numbers = true)]
    ack_every: u8,
    /// A line at this interval in seconds, in a pipe as well; without it one a second on a terminal, and in the JSON.
    #[arg(short, long, value_name = "S", value_parser = span, allow_negative_numbers = true)]
    interval: Option<f64>,
}

impl Asking {
    pub(super) fn every(&self) -> anyhow::Result<Nanos> {
        seconds("--interval", self.interval.unwrap_or(1.0))
    }

    /// How a transfer is reported.
    pub(super) fn report(&self, verb: &'static str, peer: SocketAddr, plan: &TransferPlan) -> Report {
        let report = Report::new(self.common.json, verb, peer, plan);
        Report { lines: !self.common.json && (report.lines || self.interval.is_some()), ..report }
    }

    /// How to ask for `job`, and how both ends then speak.
    pub(super) fn hello(
        &self,
        peer: SocketAddr,
        sealed: bool,
        job: SessionJob,
        bytes: Option<u64>,
        name: &str,
    ) -> anyhow::Result<(Hello, TransferPlan)> {
        let controller = input::controller(&self.cc).map_err(|error| anyhow!("--cc {}: {error}", self.cc))?;
        check_name(name)?;
        let (mtu, ack_every, name) = (self.mtu, self.ack_every, name.to_owned());
        let order = Order { job, controller, mtu, ack_every, bytes, name };
        order.hello(peer, sealed, self.common.patience()?).map_err(|error| match error {
            OrderError::Plan(error) => anyhow!("--mtu {mtu}: {error}"),
            error => anyhow!("--cc {}: {error}", self.cc),
        })
    }
}

/// The key in a file that no other user may read or write, as for ssh.
pub(super) fn key(path: &Path) -> anyhow::Result<SessionKey> {
    let name = path.display();
    let cannot = |error: std::io::Error| anyhow!("--key {name}: cannot be read ({error}); name a file with a key");
    let mut file = input::open(path, Bounds::KEY).map_err(cannot)?;
    secret::check(file.get_ref(), path).map_err(|error| anyhow!("--key {name}: {error}"))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(cannot)?;
    let recipe = || make_key(&name.to_string());
    SessionKey::parse(&text)
        .ok_or_else(|| anyhow!("--key {name}: a key is 64 hexadecimal digits; make one with `{}`", recipe()))
}

/// The bytes of such a key.
pub(super) fn secret(path: &Path) -> anyhow::Result<[u8; 32]> {
    key(path).map(|key| *key.bytes())
}

pub(super) fn seconds(option: &str, value: f64) -> anyhow::Result<Nanos> {
    if !(value > 0.0 && value < 1e9) {
        bail!("{option} {value}: give seconds above 0, such as 10");
    }
    Ok(Nanos::from_secs_f64(value))
}

/// A file to be sent, which a link may lead to.
pub(super) fn file_to_send(file: &Path) -> anyhow::Result<(File, Metadata)> {
    let cannot = |error: std::io::Error| anyhow!("{}: cannot be read ({error})", file.display());
    let opened = followed(file).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => anyhow!("{}: is not a regular file; name one", file.display()),
        _ => cannot(error),
    })?;
    let about = opened.metadata().map_err(cannot)?;
    Ok((opened, about))
}

/// The name that a file has at the other end: the one that was given, or its own.
pub(super) fn name_of(given: Option<&str>, file: &Path) -> anyhow::Result<String> {
    let own = || file.file_name().and_then(|name| name.to_str());
    let name = given.or_else(own);
    Ok(name.ok_or_else(|| anyhow!("{}: the name is not UTF-8; give one by --name", file.display()))?.to_owned())
}

/// Bytes of a file's name at most (`NAME_MAX` of Linux).
const LONGEST: usize = 255;

/// Refuses a name of this end's that no file at the other end can have.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    if name.len() > LONGEST {
        let shown = paceline_cc::foreign::clipped(name);
        bail!("{shown}: this name has {} bytes, and that of a file at most {LONGEST}; give another", name.len());
    }
    if name.chars().any(char::is_control) {
        bail!("{}: this name has control characters; give another", paceline_cc::foreign::clipped(name));
    }
    Ok(())
}

/// What is said where there is one argument alone, and nothing to send.
pub(super) fn nothing_to_send(argument: &OsStr) -> anyhow::Error {
    if Path::new(argument).is_file() {
        return anyhow!("there is no address to send {} to; give FILE ADDR", argument.display());
    }
    anyhow!("nothing to send: give FILE ADDR, --bytes N ADDR or --seconds S ADDR")
}

/// `HOST`, `HOST:PORT` or `[HOST]:PORT`.
pub(super) fn address(text: &str) -> anyhow::Result<SocketAddr> {
    address_at(text, PORT)
}

/// As [`address`], where this is the port when none is given.
pub(super) fn address_at(text: &str, port: u16) -> anyhow::Result<SocketAddr> {
    if let Some((host, given)) = text.rsplit_once(':')
        && (host.ends_with(']') || !host.contains(':'))
        && given.parse::<u64>().is_ok_and(|given| given > u64::from(u16::MAX))
    {
        bail!("'{text}': a port is a number up to 65535");
    }
    let found = text.to_socket_addrs().or_else(|_| (text.trim_matches(['[', ']']), port).to_socket_addrs());
    let found = found.ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| anyhow!("'{text}': no such host; give HOST or HOST:PORT, such as 127.0.0.1:{port}"))
}

/// Reports a transfer while it runs and afterwards: lines for a terminal, one line in a pipe, or JSON.
pub(super) struct Report {
    json: bool,
    lines: bool,
    intervals: Vec<Value>,
    verb: &'static str,
    peer: SocketAddr,
    controller: String,
    mss: u16,
}

impl Report {
    /// `verb` is what happened once it is over: sent, received.
    pub(super) fn new(json: bool, verb: &'static str, peer: SocketAddr, plan: &TransferPlan) -> Self {
        let lines = !json && std::io::stdout().is_terminal();
        let controller = plan.controller.to_string();
        Self { json, lines, intervals: Vec::new(), verb, peer, controller, mss: plan.mss }
    }

    pub(super) fn interval(&mut self, interval: &Interval) {
        let span = (interval.to - interval.from).as_secs_f64();
        // What is left over after the last whole one says nothing.
        if span < 1e-3 {
            return;
        }
        let mbps = interval.bytes as f64 * 8e-6 / span;
        let (from, to) = (interval.from.as_secs_f64(), interval.to.as_secs_f64());
        if self.json {
            let mut value = json!({ "from_s": from, "to_s": to, "bytes": interval.bytes, "mbps": mbps });
            if let Some(view) = &interval.sender {
                value["srtt_ms"] = json!(view.srtt.map(Nanos::as_millis_f64));
                value["window_bytes"] = json!(view.window);
                value["in_flight_bytes"] = json!(view.in_flight);
                value["retransmits"] = json!(view.retransmits);
            }
            self.intervals.push(value);
        }
        if self.lines {
            let size = megabytes(interval.bytes);
            let mut line = format!("{from:7.2} - {to:7.2} s  {size:>10}  {mbps:9.3} Mbit/s");
            if let Some(view) = &interval.sender {
                let rtt = view.srtt.map_or(0.0, Nanos::as_millis_f64);
                let window = view.window / u64::from(self.mss).max(1);
                let _ = write!(line, "  rtt {rtt:8.2} ms  window {window:6}  again {}", view.retransmits);
            }
            line.push('\n');
            // When standard output is closed there is nowhere to report to.
            let _ = crate::print::out(&line);
        }
    }

    pub(super) fn end(&self, done: &Transferred) -> std::io::Result<()> {
        if let Some(error) = &done.forgot {
            complaint::print(&format!("--remembered {error}"));
        }
        let took = done.took.as_secs_f64().max(1e-9);
        let mbps = done.bytes as f64 * 8e-6 / took;
        let cpu = done.cpu.as_secs_f64();
        let per_cpu = done.bytes as f64 * 1e-6 / cpu.max(1e-9);
        if self.json {
            let mut value = json!({
                "verb": self.verb, "peer": self.peer.to_string(), "controller": self.controller, "mss": self.mss,
                "bytes": done.bytes, "seconds": took, "mbps": mbps, "verified": done.verified,
                "cpu_s": cpu, "mb_per_cpu_s": per_cpu, "intervals": self.intervals,
            });
            if let Some(sender) = &done.sender {
                value["packets_sent"] = json!(sender.stats.packets_sent);
                value["retransmits"] = json!(sender.stats.retransmits);
                value["packets_lost"] = json!(sender.stats.packets_lost);
                value["timeouts"] = json!(sender.stats.timeouts);
                value["ce_packets"] = json!(sender.stats.ce_packets);
                let rtt = |q| sender.rtt.quantile_ms(q);
                value["rtt_ms"] =
                    json!({ "min": sender.rtt.min_ms(), "p50": rtt(0.5), "p95": rtt(0.95), "p99": rtt(0.99) });
                if sender.late.count() > 0 {
                    let late = |q| sender.late.quantile(q).as_nanos() as f64 / 1e3;
                    value["gap_error_us"] = json!({ "p50": late(0.5), "p99": late(0.99), "max": late(1.0) });
                }
                value["strays"] = strays(&sender.strays);
            }
            if let Some(receiver) = &done.receiver {
                value["packets_received"] = json!(receiver.packets);
                value["ce_packets"] = json!(receiver.ce_packets);
                value["strays"] = strays(&receiver.strays);
            }
            return crate::print::out(&format!("{value}\n"));
        }
        let (verb, size, peer) = (self.verb, megabytes(done.bytes), self.peer);
        let way = if verb == "sent" { "to" } else { "from" };
        let mut line = format!("{verb} {size} {way} {peer} in {took:.2} s: {mbps:.3} Mbit/s, {}", self.controller);
        if let Some(sender) = &done.sender {
            let rtt = |q| sender.rtt.quantile_ms(q).unwrap_or(0.0);
            let again = sender.stats.retransmits;
            let _ = write!(line, ", rtt p50 {:.2} p95 {:.2} ms, {again} packets again", rtt(0.5), rtt(0.95));
        }
        let _ = write!(line, ", CPU {cpu:.2} s ({per_cpu:.0} MB per CPU second)");
        line.push_str(if done.verified { ", SHA-256 checked\n" } else { "\n" });
        crate::print::out(&line)
    }
}

fn strays(strays: &paceline_udp::Strays) -> Value {
    json!({
        "foreign": strays.foreign, "forged": strays.forged, "replayed": strays.replayed, "malformed": strays.malformed,
    })
}

pub(super) fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.2} MB", bytes as f64 / 1e6),
    }
}
