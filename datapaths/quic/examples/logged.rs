//! A transfer by plain quinn with a controller of its own, which writes quinn's qlog: a foreign log for `paceline conform --qlog`.
//!
//! `logged receive ADDR CERTIFICATE SECONDS` writes its certificate to a file and takes what comes; `logged send ADDR CERTIFICATE SECONDS
//! cubic|reno|bbr FILE` sends for this long and writes the qlog.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use paceline_quic::Identity;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{ClientConfig, Endpoint, QlogConfig, ServerConfig, TransportConfig, VarInt};
use tokio::time::timeout;

/// Bytes on their way at most: more than the windows that the rules judge, so that flow control does not limit them.
const WINDOW: u32 = 16 << 20;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, certificate, seconds] => runtime.block_on(receive(address, certificate, seconds.parse()?)),
        ["send", address, certificate, seconds, controller, file] => {
            runtime.block_on(send(address, certificate, seconds.parse()?, controller, file))
        }
        _ => anyhow::bail!(
            "logged receive ADDR CERTIFICATE SECONDS | logged send ADDR CERTIFICATE SECONDS cubic|reno|bbr FILE"
        ),
    }
}

fn settings() -> TransportConfig {
    let mut settings = TransportConfig::default();
    settings.stream_receive_window(VarInt::from_u32(WINDOW)).receive_window(VarInt::from_u32(WINDOW));
    settings.send_window(u64::from(WINDOW));
    settings
}

async fn receive(address: &str, certificate: &str, seconds: u64) -> anyhow::Result<()> {
    let identity = Identity::generate()?;
    let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
    let chain = vec![CertificateDer::from(identity.certificate().to_vec())];
    let mut config = ServerConfig::with_single_cert(chain, key)?;
    config.transport_config(Arc::new(settings()));
    let endpoint = Endpoint::server(config, address.parse()?)?;
    std::fs::write(certificate, identity.certificate()).with_context(|| format!("cannot write {certificate}"))?;
    let taken = async {
        let connection = endpoint.accept().await.context("no one came")?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut bytes = 0_u64;
        while let Ok(Some(chunk)) = stream.read_chunk(1 << 20, true).await {
            bytes += chunk.bytes.len() as u64;
        }
        println!("{bytes} bytes");
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(seconds), taken).await.context("the sender did not end in time")?
}

async fn send(address: &str, certificate: &str, seconds: u64, controller: &str, file: &str) -> anyhow::Result<()> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
        "cubic" => Arc::new(CubicConfig::default()),
        "reno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => anyhow::bail!("quinn has no controller '{other}'; it has cubic, reno and bbr"),
    };
    let mut log = QlogConfig::default();
    let writer = BufWriter::new(File::create(file).with_context(|| format!("cannot write {file}"))?);
    log.writer(Box::new(writer)).title(Some(format!("quinn, {controller}")));
    let mut roots = RootCertStore::empty();
    let read =
        std::fs::read(certificate).with_context(|| format!("cannot read {certificate}; start the receiver first"))?;
    roots.add(CertificateDer::from(read))?;
    let mut settings = settings();
    settings.congestion_controller_factory(factory).qlog_stream(log.into_stream());
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(settings));
    let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address.parse()?, "paceline")?.await?;
    let mut stream = connection.open_uni().await?;
    let chunk = bytes::Bytes::from(vec![7; 100_000]);
    let endless = async {
        loop {
            stream.write_chunk(chunk.clone()).await?;
        }
    };
    // It ends when its time is over: the log is of a flow that always has something to send.
    if let Ok(ended) = timeout(Duration::from_secs(seconds), endless).await {
        let ended: Result<(), quinn::WriteError> = ended;
        ended.context("the transfer ended early")?;
    }
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(())
}
