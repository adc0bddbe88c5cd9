//! What `send` and `fetch` share: options, and how a transfer is reported.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use indicatif::ProgressBar;
use paceline_alcc::transfer::token::Token;
use paceline_alcc::transfer::{PORT, Status};
use paceline_cc::{Distribution, Nanos, Spec};
use paceline_transfer::{Exchanged, Remote, TransferObserver, tls};
use serde_json::json;

use crate::commands::udp::{self, megabytes};
use crate::progress::{BYTES, drawn};

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
    /// The server, and how it is asked.
    pub(super) fn remote(&self, to: &str) -> anyhow::Result<Remote> {
        let patience = Duration::from_nanos(udp::seconds("--timeout", self.timeout)?.as_nanos());
        let token = self.token()?;
        let tls = self.tls_ca.as_deref().map(tls::client).transpose().map_err(|error| anyhow!("--tls-ca {error}"))?;
        Ok(Remote { host: to.to_owned(), address: udp::address_at(to, PORT)?, token, tls, patience })
    }

    fn token(&self) -> anyhow::Result<Option<Token>> {
        let given = self.token.clone().map(|text| ("--token", text));
        let given = given.or_else(|| std::env::var(TOKEN).ok().map(|text| (TOKEN, text)));
        given.map(|(whence, text)| text.trim().parse().map_err(|error| anyhow!("{whence}: {error}"))).transpose()
    }
}

/// Shows and reports a transfer: what was done (sent, received), with whom, under which name.
pub(super) struct Report<'a> {
    json: bool,
    verb: &'static str,
    host: &'a str,
    name: &'a str,
    /// The sender's, where it is known.
    controller: Option<&'a Spec>,
    bar: Option<ProgressBar>,
    rtt: Distribution,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        json: bool,
        verb: &'static str,
        host: &'a str,
        name: &'a str,
        controller: Option<&'a Spec>,
    ) -> Self {
        Self { json, verb, host, name, controller, bar: None, rtt: Distribution::new(DIGITS) }
    }

    /// Takes the bar away.
    pub(super) fn clear(&mut self) {
        self.bar.take().into_iter().for_each(|bar| bar.finish_and_clear());
    }

    /// Reports, and says whether it went well.
    pub(super) fn end(mut self, done: &Exchanged) -> anyhow::Result<()> {
        self.clear();
        let Self { json, verb, host, name, controller, rtt, .. } = self;
        let controller = controller.map(ToString::to_string);
        let seconds = done.took.as_secs_f64().max(1e-9);
        let mbps = done.bytes as f64 * 8e-6 / seconds;
        let quantile = |q| rtt.quantile_ms(q);
        if json {
            let value = json!({
                "host": host, "name": name, "bytes": done.bytes, "resumed_from": done.resumed,
                "seconds": seconds, "mbps": mbps, "controller": controller,
                "rtt_ms": { "min": rtt.min_ms(), "p50": quantile(0.5), "p95": quantile(0.95), "max": rtt.max_ms() },
                "losses": done.losses, "timeouts": done.timeouts, "status": done.answer.status.word(),
                "message": done.answer.message,
            });
            crate::print::out(&format!("{value}\n"))?;
        }
        match (&done.answer.status, done.answer.message.as_str()) {
            (Status::Go, _) => {}
            (status, "") => bail!("{host} says: {}", status.word()),
            (_, message) => bail!("{host} says: {message}"),
        }
        if json {
            return Ok(());
        }
        let way = if verb == "sent" { "to" } else { "from" };
        let mut line = format!("{verb} {}", megabytes(done.bytes));
        let _ = write!(line, " {way} {host} in {seconds:.2} s: {mbps:.3} Mbit/s");
        if let Some(controller) = &controller {
            let _ = write!(line, ", {controller}");
        }
        if rtt.count() > 0 && verb == "sent" {
            let rtt = |q| quantile(q).unwrap_or(0.0);
            let _ = write!(line, ", rtt p50 {:.2} p95 {:.2} ms", rtt(0.5), rtt(0.95));
        }
        if done.resumed > 0 {
            let _ = write!(line, ", from byte {} on", done.resumed);
        }
        if done.verified {
            line.push_str(", SHA-256 checked");
        }
        Ok(crate::print::out(&(line + "\n"))?)
    }
}

impl TransferObserver for Report<'_> {
    fn moved(&mut self, bytes: u64, of: Option<u64>) {
        let form = if of.is_some() { BYTES } else { "{spinner} {bytes} {binary_bytes_per_sec}" };
        let bar = self.bar.get_or_insert_with(|| drawn(form));
        of.iter().for_each(|of| bar.set_length(*of));
        bar.set_position(bytes);
    }

    fn rtt(&mut self, sample: Nanos) {
        self.rtt.record(sample);
    }
}
