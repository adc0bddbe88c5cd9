//! Sends bytes to a `server` under any controller that quinn can express and prints throughput and RTT.
//!
//! `cargo run --release -p paceline-quic --example client -- --certificate /tmp/quic.der --cc copa --megabytes 100`

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use paceline_cc::Spec;
use paceline_quic::{Factory, MTU, QUINN, Sending, Sent};

/// Sends one transfer over QUIC.
#[derive(Parser)]
struct Options {
    /// The server.
    #[arg(long, default_value = "127.0.0.1:4433")]
    to: SocketAddr,
    /// The server's certificate, as it wrote it.
    #[arg(long)]
    certificate: PathBuf,
    /// The congestion controller: copa, cubic, bbr:cwnd_gain=2, ...
    #[arg(long, default_value = "copa")]
    cc: Spec,
    /// Megabytes to send.
    #[arg(long, default_value_t = 10)]
    megabytes: u64,
    /// Seconds after which it stops, complete or not.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let controller = Factory::new(options.cc, 1)?;
    let certificate = std::fs::read(&options.certificate)
        .with_context(|| format!("cannot read {}; start the server first", options.certificate.display()))?;
    let any: SocketAddr = if options.to.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
    let socket = UdpSocket::bind(any).context("cannot open a UDP socket")?;
    let sending = Sending {
        to: options.to,
        certificate: &certificate,
        controller: &controller,
        mtu: MTU,
        one_by_one: false,
        lasting: Duration::from_secs(options.seconds),
    };
    let sent = QUINN.send(socket, &sending, &mut std::io::repeat(0).take(options.megabytes * 1_000_000))?;
    print(&controller, &sent);
    Ok(())
}

fn print(controller: &Factory, sent: &Sent) {
    let seconds = sent.elapsed.as_secs_f64();
    println!(
        "{}@quic: {:.1} MB in {seconds:.3} s, {:.2} Mbit/s, {}",
        controller.spec(),
        sent.bytes as f64 / 1e6,
        sent.bytes as f64 * 8e-6 / seconds.max(1e-9),
        if sent.complete { "complete" } else { "cut short" },
    );
    let mut rtt: Vec<f64> = sent.rtt.iter().map(|sample| sample.rtt.as_secs_f64() * 1e3).collect();
    rtt.sort_by(f64::total_cmp);
    if let (Some(least), Some(most)) = (rtt.first(), rtt.last()) {
        let at = |share: f64| rtt[((rtt.len() - 1) as f64 * share) as usize];
        println!("RTT in ms: min {least:.2}, p50 {:.2}, p95 {:.2}, max {most:.2}", at(0.5), at(0.95));
    }
    println!("{} packets sent, {} lost", sent.packets_sent, sent.packets_lost);
    if let Some(cpu) = sent.cpu {
        println!("CPU {:.3} s", cpu.as_secs_f64());
    }
}
