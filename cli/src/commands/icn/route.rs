//! `paceline icn route`: a content router that fetches what it does not have.

use std::net::SocketAddr;
use std::path::PathBuf;

use paceline_cc::Spec;
use paceline_cc::units::Bytes;
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
    /// A router to ask, as ADDRESS:PORT; several times for several, which are asked at once.
    #[arg(long, value_name = "ADDRESS")]
    upstream: Vec<SocketAddr>,
    /// The controller of what is fetched (paceline controllers).
    #[arg(long, value_name = "CONTROLLER", default_value = "bbr")]
    cc: Spec,
    #[command(flatten)]
    answering: running::Answering,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let upstream = Some(UpstreamConfig {
        addresses: args.upstream.clone(),
        controller: args.cc.clone(),
        cache_bytes: args.size.0,
    });
    let config = ServerConfig { upstream, ..args.answering.config(&args.cache)? };
    running::run(|| Ok(Server::start(&config)?), args.answering.json)
}
