//! Waits for a `client`, throws away what it sends and prints the throughput.
//!
//! `cargo run --release -p paceline-quic --example server -- --certificate /tmp/quic.der`

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use paceline_quic::{Identity, QUINN};

/// Receives one transfer over QUIC.
#[derive(Parser)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// File to write the certificate to; the client needs it.
    #[arg(long)]
    certificate: PathBuf,
    /// Seconds until it ends, whether a client came or not.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let identity = Identity::generate()?;
    let socket = UdpSocket::bind(options.listen).with_context(|| format!("cannot listen on {}", options.listen))?;
    std::fs::write(&options.certificate, identity.certificate())
        .with_context(|| format!("cannot write {}", options.certificate.display()))?;
    let received = QUINN.serve(socket, &identity, &mut std::io::sink(), Duration::from_secs(options.seconds))?;
    let seconds = received.elapsed.as_secs_f64();
    println!(
        "{:.1} MB in {seconds:.3} s, {:.2} Mbit/s, {}",
        received.bytes as f64 / 1e6,
        received.bytes as f64 * 8e-6 / seconds.max(1e-9),
        if received.complete { "complete" } else { "cut short" },
    );
    Ok(())
}
