//! Answers Prometheus: a request gets the numbers of the moment.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Instant;

use anyhow::Context;
use paceline_int::bus::Board;
use paceline_int::bus::board::encode;
use paceline_scrape::serve;

pub(super) struct Metrics(TcpListener);

impl Metrics {
    pub(super) fn listen(address: SocketAddr) -> anyhow::Result<Self> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>(listener)
        };
        Ok(Self(listen().with_context(|| format!("--metrics {address}"))?))
    }

    /// Answers those who wait.
    pub(super) fn answer(&self, board: &mut Board) {
        while let Ok((stream, _)) = self.0.accept() {
            board.forget(Instant::now());
            // A client that went away is no trouble of ours.
            let _ = serve(stream, |format| encode(board, Instant::now(), format));
        }
    }
}
