//! A program that uses s2n-quic and takes a controller of paceline, in a loop whose packets leave when they are due. Here both ends are in it,
//! over loopback.
//!
//! `cargo run -p paceline-quic --features s2n --example s2n -- copa 10` moves 10 MB.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use paceline_quic::s2n::{Io, Watch};
use paceline_quic::{Factory, Identity};
use s2n_quic::client::Connect;
use s2n_quic::provider::{io, tls::rustls as tls};
use s2n_quic::{Client, Server};

#[cfg_attr(test, expect(dead_code, reason = "a test calls the transfer"))]
fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [controller, megabytes] = &words[..] else { bail!("s2n CONTROLLER MEGABYTES") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bytes = megabytes.parse::<usize>().context("MEGABYTES")? * 1_000_000;
    let io = Io::new(UdpSocket::bind("127.0.0.1:0")?);
    let (factory, watch) = (io.factory(controller.parse()?, 1)?, io.watch());
    let took = runtime.block_on(transfer(factory, io, &watch, bytes))?;
    println!("{controller}@quic/s2n: {megabytes} MB in {took:.3?}");
    Ok(())
}

/// Moves so many bytes from a client with this loop, whose controller is watched; answers how long that took.
pub(crate) async fn transfer(
    factory: Factory,
    io: impl io::Provider,
    watch: &Watch,
    bytes: usize,
) -> anyhow::Result<Duration> {
    let identity = Identity::generate()?;
    let tls = tls::Server::builder().with_certificate(identity.certificate(), identity.key()).map_err(other)?;
    let builder = Server::builder().with_tls(tls.build().map_err(other)?)?;
    let mut server = builder.with_io("127.0.0.1:0")?.start()?;
    let to = server.local_addr()?;
    let receiver = tokio::spawn(async move {
        let mut connection = server.accept().await.context("the server ended")?;
        let mut stream = connection.accept_receive_stream().await?.context("no stream")?;
        let mut received = 0;
        while let Some(chunk) = stream.receive().await? {
            received += chunk.len();
        }
        // What is dropped is closed: the sender says when it is over.
        while let Ok(Some(_)) = connection.accept().await {}
        anyhow::Ok(received)
    });

    let tls = tls::Client::builder().with_certificate(identity.certificate()).map_err(other)?;
    let builder = Client::builder().with_tls(tls.build().map_err(other)?)?.with_io(io)?;
    let client = builder.with_congestion_controller(factory)?.start()?;
    let start = Instant::now();
    let mut connection = client.connect(Connect::new(to).with_server_name("paceline")).await?;
    watch.connected(connection.handle());
    let mut stream = connection.open_send_stream().await?;
    stream.send(Bytes::from(vec![7; bytes])).await?;
    stream.close().await?;
    let took = start.elapsed();
    watch.release();
    connection.close(0_u32.into());
    let received = receiver.await??;
    if received != bytes {
        bail!("{received} of {bytes} bytes arrived");
    }
    Ok(took)
}

fn other(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    anyhow::anyhow!(error)
}
