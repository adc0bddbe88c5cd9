//! One transfer of plain quinn: its own controller (CUBIC) and its own settings but for the flow windows. `scripts/bench-icn-fetch` compares
//! a fetch of named content with it.
//!
//! `bulk receive ADDR CERTIFICATE` writes its certificate to a file, takes one transfer and prints what it cost; `bulk send ADDR CERTIFICATE
//! MEGABYTES` sends.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use paceline_quic::Identity;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};

/// Bytes on their way at most: more than a path of veth holds, so that quinn's default of 1.25 MB does not limit it.
const WINDOW: u32 = 16 << 20;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, certificate] => runtime.block_on(receive(address, certificate)),
        ["send", address, certificate, megabytes] => runtime.block_on(send(address, certificate, megabytes.parse()?)),
        _ => anyhow::bail!("bulk receive ADDR CERTIFICATE | bulk send ADDR CERTIFICATE MEGABYTES"),
    }
}

fn settings() -> Arc<TransportConfig> {
    let mut settings = TransportConfig::default();
    settings.stream_receive_window(VarInt::from_u32(WINDOW)).receive_window(VarInt::from_u32(WINDOW));
    settings.send_window(u64::from(WINDOW));
    Arc::new(settings)
}

async fn receive(address: &str, certificate: &str) -> anyhow::Result<()> {
    let identity = Identity::generate()?;
    let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
    let chain = vec![CertificateDer::from(identity.certificate().to_vec())];
    let mut config = ServerConfig::with_single_cert(chain, key)?;
    config.transport_config(settings());
    let endpoint = Endpoint::server(config, address.parse()?)?;
    std::fs::write(certificate, identity.certificate()).with_context(|| format!("cannot write {certificate}"))?;
    let connection = endpoint.accept().await.context("no one came")?.await?;
    let mut stream = connection.accept_uni().await?;
    let (begun, mut bytes) = (Instant::now(), 0_u64);
    while let Some(chunk) = stream.read_chunk(1 << 20, true).await? {
        bytes += chunk.bytes.len() as u64;
    }
    let took = begun.elapsed().as_secs_f64();
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    println!("{bytes} bytes, {:.3} Gbit/s", bytes as f64 * 8e-9 / took);
    Ok(())
}

async fn send(address: &str, certificate: &str, megabytes: u64) -> anyhow::Result<()> {
    let mut roots = RootCertStore::empty();
    let read =
        std::fs::read(certificate).with_context(|| format!("cannot read {certificate}; start the receiver first"))?;
    roots.add(CertificateDer::from(read))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(settings());
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect_with(config, address.parse()?, "paceline")?.await?;
    let mut stream = connection.open_uni().await?;
    let chunk = bytes::Bytes::from(vec![7; 1_000_000]);
    for _ in 0..megabytes {
        stream.write_chunk(chunk.clone()).await?;
    }
    stream.finish()?;
    // The receiver closes when it has everything.
    connection.closed().await;
    Ok(())
}
