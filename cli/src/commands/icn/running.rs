//! What `serve` and `route` share: a router runs until it is stopped.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use paceline_cc::{Nanos, Rate};
use paceline_named::router::{Server, ServerConfig};
use serde_json::json;

use crate::commands::ending::Ends;
use crate::complaint;

/// Where routers listen when nothing is said.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4871));

/// How often it is looked whether the router still runs.
const LOOK: Duration = Duration::from_millis(200);

/// How a router listens and answers.
#[derive(clap::Args)]
pub(super) struct Answering {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value_t = ADDRESS)]
    listen: SocketAddr,
    /// Send no faster, such as 500Mbps: a little below what the narrowest link on the way has keeps its queue empty.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Let requests that come one behind the other gather for this long at most; 0us answers each at once, for more processor time.
    #[arg(long, value_name = "TIME", default_value = "500us")]
    gather: Nanos,
    /// Answer Prometheus here, at /metrics.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// One JSON object at the start and one at the end instead of lines for people.
    #[arg(long)]
    pub(super) json: bool,
}

impl Answering {
    /// With what is in this folder.
    pub(super) fn config(&self, store: &Path) -> anyhow::Result<ServerConfig> {
        let Self { listen, rate, gather, metrics, .. } = *self;
        let rate = rate.unwrap_or(Rate::INFINITY);
        // Less than a unit a second is a mistake in the unit.
        if rate.as_bytes_per_sec() < 1500 {
            bail!("--rate {rate}: too little for one unit a second; give a rate such as 500Mbps");
        }
        Ok(ServerConfig { rate, gather, metrics, ..ServerConfig::new(store.to_owned(), listen) })
    }
}

/// Until an interrupt or SIGTERM; then it says what was done.
pub(super) fn run(start: impl FnOnce() -> anyhow::Result<Server>, json: bool) -> anyhow::Result<()> {
    let ends = Ends::begin()?;
    let server = start()?;
    let ending = ends.watched()?;
    let address = server.address();
    let metrics = server.metrics();
    crate::print::out(&if json {
        format!("{}\n", json!({ "listening": address.to_string(), "metrics": metrics.map(|at| at.to_string()) }))
    } else {
        let metrics = metrics.map(|at| format!(", Prometheus at http://{at}/metrics")).unwrap_or_default();
        format!("listening at {address}{metrics}\n")
    })?;
    while !server.has_failed() && !ending.has_come() {
        std::thread::sleep(LOOK);
        if let Some(trouble) = server.trouble() {
            complaint::print(&format!("served, but not kept: {trouble}"));
        }
    }
    let counts = server.stop()?;
    let router = &counts.router;
    crate::print::out(&if json {
        let refused = router.limited + router.overflowed + router.not_found + router.past_end + router.looped;
        let done = json!({
            "requests": router.requests,
            "garbage": router.garbage,
            "tokens": router.granted,
            "without_token": router.no_token,
            "bad_tokens": router.bad_tokens,
            "refused": refused,
            "hits": router.hits,
            "misses": router.misses,
            "sent_units": router.sent_units,
            "sent_bytes": counts.sent_bytes,
            "dropped_messages": counts.refused,
            "longest_wait_ms": router.longest_wait.as_millis_f64(),
        });
        format!("{done}\n")
    } else {
        format!("{} requests, {} units sent ({} bytes)\n", router.requests, router.sent_units, counts.sent_bytes)
    })?;
    Ok(())
}
