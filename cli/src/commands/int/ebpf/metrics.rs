//! Answers Prometheus, and sends to OpenTelemetry: the numbers of the moment.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use paceline_int::bus::Board;
use paceline_int::bus::board::numbers;
use paceline_scrape::{Collector, CollectorFeed, ScrapeServer};

/// Answers at `address` with what the board shows, until it is dropped.
pub(super) fn answer(address: SocketAddr, board: &Arc<Mutex<Board>>) -> anyhow::Result<ScrapeServer> {
    let server = ScrapeServer::bind(address).and_then(|bound| bound.answer(numbers(board)));
    server.with_context(|| format!("--metrics {address}"))
}

/// Sends it to a collector, until it is dropped.
pub(super) fn send(url: &str, board: &Arc<Mutex<Board>>) -> anyhow::Result<CollectorFeed> {
    let collector: Collector = url.parse().context("--otlp")?;
    CollectorFeed::begin(collector, numbers(board), crate::complaint::print).context("--otlp")
}
