//! `paceline icn route`: a content router that fetches what it does not have.

use std::net::SocketAddr;
use std::path::PathBuf;

use paceline_cc::units::Bytes;
use paceline_cc::{Rate, Spec};
use paceline_named::router::{Server, ServerConfig, UpstreamConfig};

use super::running;

/// Serve objects to those that ask for them, and fetch what is not here from other routers.
///
/// Every unit is verified before it is kept or passed on. An object is kept when a second receiver asks for it; what was not used for
/// longest makes room. Whatever is in the folder as a store is served too.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder for what is kept, which is made where there is none.
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// What it may have, such as 10GB.
    #[arg(long, value_name = "BYTES")]
    size: Bytes,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value_t = running::ADDRESS)]
    listen: SocketAddr,
    /// A router to ask, as ADDRESS:PORT; several times for several, which are asked at once.
    #[arg(long, value_name = "ADDRESS")]
    upstream: Vec<SocketAddr>,
    /// The controller of what is fetched (paceline controllers).
    #[arg(long, value_name = "CONTROLLER", default_value = "bbr")]
    cc: Spec,
    /// Send no faster, such as 500Mbps.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Answer Prometheus here, at /metrics.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// One JSON object at the start and one at the end instead of lines for people.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = ServerConfig {
        store: args.cache.clone(),
        listen: args.listen,
        rate: running::rate(args.rate)?,
        threads: 1,
        metrics: args.metrics,
        upstream: Some(UpstreamConfig {
            addresses: args.upstream.clone(),
            controller: args.cc.clone(),
            cache_bytes: args.size.0,
        }),
    };
    running::run(|| Ok(Server::start(&config)?), args.json)
}
