//! `paceline icn serve`: a content router with all it serves in its own store.

use std::net::SocketAddr;
use std::path::PathBuf;

use paceline_cc::Rate;
use paceline_named::router::{Server, ServerConfig};

use super::announce::Announce;
use super::running;

/// Serve the objects of a store by name.
///
/// Nothing is remembered of receivers. Addresses have to prove that they are not false before they get more than three times what they
/// sent.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store: a folder into which `paceline icn publish` put something.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value_t = running::ADDRESS)]
    listen: SocketAddr,
    /// Send no faster, such as 500Mbps: a little below what the narrowest link on the way has keeps its queue empty.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Answer Prometheus here, at /metrics.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Threads that share the address.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    #[command(flatten)]
    announcing: Announce,
    /// One JSON object at the start and one at the end instead of lines for people.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = ServerConfig {
        store: args.store.clone(),
        listen: args.listen,
        rate: running::rate(args.rate)?,
        threads: args.threads.into(),
        metrics: args.metrics,
        upstream: None,
    };
    let mut announcer = None;
    let start = || {
        let server = Server::start(&config)?;
        announcer = args.announcing.start(&config.store, server.address())?;
        Ok(server)
    };
    running::run(start, args.json)
}
