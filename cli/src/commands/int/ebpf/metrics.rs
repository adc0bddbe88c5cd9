//! Answers Prometheus: a request gets the numbers of the moment.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;
use paceline_int::bus::Board;
use paceline_int::bus::board::encode;
use paceline_scrape::ScrapeServer;

/// Answers at `address` with what the board shows, until it is dropped; the board is held while numbers are made of it, and for no client.
pub(super) fn answer(address: SocketAddr, board: &Arc<Mutex<Board>>) -> anyhow::Result<ScrapeServer> {
    let board = board.clone();
    let numbers = Box::new(move |format| {
        let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
        board.forget(Instant::now());
        encode(&board, Instant::now(), format)
    });
    let server = ScrapeServer::bind(address).and_then(|bound| bound.answer(numbers));
    server.with_context(|| format!("--metrics {address}"))
}
