//! What `send` and `fetch` share: options, the connection, and how a transfer is reported.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use paceline_alcc::transfer::token::Token;
use paceline_alcc::transfer::{Answer, Client, HASH, News, PORT, Request, Status};
use paceline_alcc::{Engine, Framing, Mode, Options};
use paceline_cc::{Distribution, Nanos, Spec};
use serde_json::json;

use super::channel::{Channel, Patience};
use super::tls;
use crate::commands::udp::{self, megabytes};

/// Bytes that wait for the controller at most (our choice: what leaves in 20 ms at 100 Mbit/s, so that progress is what has left).
const QUEUE: usize = 256 * 1024;
/// The variable that holds a token.
const TOKEN: &str = "PACELINE_TOKEN";
/// Digits of the quantiles (our choice: 1 %).
const DIGITS: u8 = 2;

/// Options of both.
#[derive(clap::Args)]
pub(super) struct Asking {
    /// What the server lets in: the text that paceline alcc token printed. Without it the variable `PACELINE_TOKEN` is read, which other
    /// users do not see.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Speak TLS with a server that one of these certificates certifies: a PEM file.
    #[arg(long, value_name = "PEM")]
    tls_ca: Option<PathBuf>,
    /// Give up when less than 1 KiB has moved in so long.
    #[arg(long, value_name = "S", default_value = "30", value_parser = super::super::span, allow_negative_numbers = true)]
    timeout: f64,
    /// What happened, as a JSON object on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

impl Asking {
    pub(super) fn patience(&self) -> anyhow::Result<Duration> {
        Ok(Duration::from_nanos(udp::seconds("--timeout", self.timeout)?.as_nanos()))
    }

    fn token(&self) -> anyhow::Result<Option<Token>> {
        let given = self.token.clone().map(|text| ("--token", text));
        let given = given.or_else(|| std::env::var(TOKEN).ok().map(|text| (TOKEN, text)));
        given.map(|(whence, text)| text.trim().parse().map_err(|error| anyhow!("{whence}: {error}"))).transpose()
    }

    /// Connects, asks, and hears the answer.
    pub(super) fn ask(&self, to: &str, request: Request, spec: &Spec) -> anyhow::Result<(Session, Answer)> {
        udp::check_name(&request.name)?;
        let (patience, token) = (self.patience()?, self.token()?);
        let tls = self.tls_ca.as_deref().map(tls::client).transpose()?;
        let address = udp::address_at(to, PORT)?;
        let stream = TcpStream::connect_timeout(&address, patience)
            .with_context(|| format!("{address}: no connection; is a paceline alcc serve there?"))?;
        let host = host_of(to);
        let layer = match tls {
            Some(config) => {
                let layer = tls::connect(config, host, &stream, patience);
                Some(layer.with_context(|| format!("{address}: no TLS with a server that is certified as {host}"))?)
            }
            None => None,
        };
        let options = Options { controller: spec.clone(), mode: Mode::Framed, queue: QUEUE, ..Options::default() };
        let engine = Engine::start(options).context("the engine above TCP cannot start")?;
        let (sender, rtts) = channel();
        let socket = engine.adopt_framed(stream.into(), Framing { layer, rtts: Some(sender) })?;
        let name = request.name.clone();
        let mut session = Session {
            host: to.to_owned(),
            name,
            channel: Channel::new(socket),
            protocol: Client::new(request, token),
            patience,
            begun: Instant::now(),
            rtts,
            rtt: Distribution::new(DIGITS),
        };
        let asked = Instant::now();
        loop {
            match session.hear(Duration::from_millis(200), &mut |_| Ok(()))? {
                Some(Told::Answer(answer)) => {
                    session.begun = Instant::now();
                    return Ok((session, answer));
                }
                _ if asked.elapsed() > patience => {
                    bail!("{to}: no answer within {:.0} s; if it speaks TLS, give --tls-ca", patience.as_secs_f64())
                }
                _ => {}
            }
        }
    }
}

/// Without the port.
fn host_of(text: &str) -> &str {
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => text,
    };
    host.trim_matches(['[', ']'])
}

/// What the server said, beside bytes.
pub(super) enum Told {
    Answer(Answer),
    Whole(Option<[u8; HASH]>),
    End(Answer),
}

/// A connection to a server.
pub(super) struct Session {
    host: String,
    name: String,
    pub(super) channel: Channel,
    protocol: Client,
    pub(super) patience: Duration,
    /// When the server's answer came.
    pub(super) begun: Instant,
    rtts: Receiver<Nanos>,
    rtt: Distribution,
}

impl Session {
    /// Waits for a word of the server's, at most for `limit` without any bytes; `take` gets those of the object.
    pub(super) fn hear(
        &mut self,
        limit: Duration,
        take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Told>> {
        self.rtts.try_iter().for_each(|rtt| self.rtt.record(rtt));
        loop {
            let (mut input, mut out) = (self.channel.input(), Vec::new());
            let news = self.protocol.read(&mut input, &mut out)?;
            let left = input.len();
            let (told, some) = match news {
                Some(News::Answer(answer)) => (Some(Told::Answer(answer)), true),
                Some(News::Whole(hash)) => (Some(Told::Whole(hash)), true),
                Some(News::End(answer)) => (Some(Told::End(answer)), true),
                Some(News::Bytes(bytes)) => {
                    take(bytes)?;
                    (None, true)
                }
                None => (None, false),
            };
            self.channel.taken(left);
            if !out.is_empty() {
                self.channel.say(&out)?;
            }
            if told.is_some() {
                return Ok(told);
            }
            if some || left > 0 {
                continue;
            }
            match self.channel.wait(limit)? {
                Some(0) => {
                    bail!("{}: the connection ended too early; the same command goes on where it stands", self.host)
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Hears nothing but the last word; the server may need time for `bytes` on its disk.
    pub(super) fn last_word(&mut self, bytes: u64) -> anyhow::Result<Answer> {
        // Our choice: a disk takes 20 MB/s.
        let limit = self.patience + Duration::from_secs(bytes / 20_000_000);
        let mut patience = Patience::new(limit);
        loop {
            if let Some(Told::End(answer)) = self.hear(Duration::from_millis(200), &mut |_| Ok(()))? {
                return Ok(answer);
            }
            patience.moved(self.channel.socket.stats().delivered)?;
        }
    }

    /// Reports, and says whether it went well.
    pub(super) fn report(&mut self, json: bool, verb: &str, done: &Done) -> anyhow::Result<()> {
        self.rtts.try_iter().for_each(|rtt| self.rtt.record(rtt));
        let stats = self.channel.socket.stats();
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-9);
        let mbps = done.bytes as f64 * 8e-6 / seconds;
        let quantile = |q| self.rtt.quantile_ms(q);
        if json {
            let value = json!({
                "host": self.host, "name": self.name, "bytes": done.bytes, "resumed_from": done.resumed,
                "seconds": seconds, "mbps": mbps, "controller": done.controller,
                "rtt_ms": {
                    "min": self.rtt.min_ms(), "p50": quantile(0.5), "p95": quantile(0.95), "max": self.rtt.max_ms(),
                },
                "losses": stats.retransmits, "timeouts": stats.timeouts, "status": done.answer.status.word(),
                "message": done.answer.message,
            });
            crate::print::out(&format!("{value}\n"))?;
        }
        let host = &self.host;
        match (&done.answer.status, done.answer.message.as_str()) {
            (Status::Go, _) => {}
            (status, "") => bail!("{host} says: {}", status.word()),
            (_, message) => bail!("{host} says: {message}"),
        }
        if !json {
            let way = if verb == "sent" { "to" } else { "from" };
            let mut line = format!("{verb} {}", megabytes(done.bytes));
            let _ = write!(line, " {way} {host} in {seconds:.2} s: {mbps:.3} Mbit/s");
            if let Some(controller) = &done.controller {
                let _ = write!(line, ", {controller}");
            }
            if self.rtt.count() > 0 && verb == "sent" {
                let rtt = |q| quantile(q).unwrap_or(0.0);
                let _ = write!(line, ", rtt p50 {:.2} p95 {:.2} ms", rtt(0.5), rtt(0.95));
            }
            if done.resumed > 0 {
                let _ = write!(line, ", from byte {} on", done.resumed);
            }
            if done.verified {
                line.push_str(", SHA-256 checked");
            }
            crate::print::out(&(line + "\n"))?;
        }
        Ok(())
    }
}

/// How a transfer ended.
pub(super) struct Done {
    /// Bytes of the object that moved.
    pub(super) bytes: u64,
    /// From which on.
    pub(super) resumed: u64,
    /// The sender's controller, where it is known.
    pub(super) controller: Option<String>,
    pub(super) answer: Answer,
    pub(super) verified: bool,
}

/// A bar on standard error, where that is a terminal.
pub(super) fn bar(bytes: Option<u64>) -> ProgressBar {
    if !crate::terminal::draws() {
        return ProgressBar::hidden();
    }
    let template = match bytes {
        Some(_) => "{bytes} of {total_bytes} [{wide_bar}] {binary_bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes} {binary_bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_a_certificate_names() {
        let hosts = ["example.org", "example.org:4436", "10.0.0.1:1", "[::1]:4436", "::1", "[::1]"].map(host_of);
        assert_eq!(hosts, ["example.org", "example.org", "10.0.0.1", "::1", "::1", "::1"]);
    }
}
