//! `paceline icn gateway`.

use anyhow::Context;
use paceline_named::gateway::{Gateway, GatewayConfig, PORT};
use paceline_named::ndn::Forwarder;

use super::places::{Asking, Places, address};
use crate::commands::listening;

/// Serve named objects over HTTP: for browsers, video players, curl.
///
/// http://ADDR/NAME is an object, http://ADDR/NAME/FILE a file of a published folder. Both are verified before they are sent. Every client that reaches the
/// port may fetch: it listens on this machine alone, unless --listen says otherwise.
#[derive(clap::Args)]
#[command(mut_group("Places", |places| places.required(false)))]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    #[command(flatten)]
    places: Places,
    /// A forwarder of NDN (NFD, NDNd), such as HOST or tcp://HOST:PORT: http://ADDR/ndn/NAME is an object that it brings. What of it was checked
    /// stands in the header Ndn-Signature.
    #[arg(long, value_name = "FORWARDER", required_unless_present = "Places")]
    ndn: Option<Forwarder>,
    #[command(flatten)]
    asking: Asking,
    /// One JSON object at the start instead of a line for people.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let config = GatewayConfig {
        listen: address("--listen", &args.listen, PORT)?,
        whereabouts: args.places.whereabouts()?,
        ndn: args.ndn,
        controller: args.asking.controller()?,
        patience: args.asking.patience()?,
    };
    let gateway = Gateway::bind(&config)?;
    crate::print::out(&listening(format!("http://{}", gateway.local_addr()?), args.json))?;
    let runtime = tokio::runtime::Runtime::new().context("a runtime")?;
    runtime.block_on(gateway.run(std::future::pending()))?;
    Ok(())
}
