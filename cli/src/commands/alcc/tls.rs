//! TLS below the frames, by rustls.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use paceline_alcc::Layer;
use paceline_files::secret;
use paceline_lab::input::{self, Bounds};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

/// A private key is some kilobytes (our choice).
const PEM: Bounds = Bounds { file: 1 << 20, line: 1 << 20 };

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A server's TLS with this certificate (and those that certify it) and key.
pub(super) fn server(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = certificates("--tls-cert", certificate)?;
    let name = key.display();
    let bytes = read_secret(key).map_err(|error| anyhow!("--tls-key {name}: cannot be used ({error})"))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|error| anyhow!("--tls-key {name}: {error}; name a PEM file with a private key"))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key);
    Ok(Arc::new(config.with_context(|| format!("--tls-key {name}: does not go with the certificate"))?))
}

/// A file that is for its owner alone.
fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (input::open(path, PEM)?, Vec::new());
    secret::check(file.get_ref(), path)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A client's TLS, which trusts who these certificates certify.
pub(super) fn client(roots: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates("--tls-ca", roots)?);
    if added == 0 {
        anyhow::bail!("--tls-ca {}: no certificate that can be used; name a PEM file with one", roots.display());
    }
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(store).with_no_client_auth()))
}

fn certificates(option: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let name = path.display();
    let wrong = |why: &dyn std::fmt::Display| anyhow!("{option} {name}: {why}; name a PEM file with certificates");
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?.collect();
    let found = found.map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&"holds no certificate")) } else { Ok(found) }
}

/// Shakes hands as a server, in `limit` at most.
pub(super) fn accept(config: Arc<ServerConfig>, stream: &TcpStream, limit: Duration) -> io::Result<Box<dyn Layer>> {
    shake(ServerConnection::new(config).map_err(io::Error::other)?.into(), stream, limit)
}

/// Shakes hands as a client of this host.
pub(super) fn connect(
    config: Arc<ClientConfig>,
    host: &str,
    stream: &TcpStream,
    limit: Duration,
) -> io::Result<Box<dyn Layer>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    shake(ClientConnection::new(config, name).map_err(io::Error::other)?.into(), stream, limit)
}

fn shake(mut connection: Connection, mut stream: &TcpStream, limit: Duration) -> io::Result<Box<dyn Layer>> {
    let until = Instant::now() + limit;
    loop {
        while connection.wants_write() {
            connection.write_tls(&mut stream)?;
        }
        if !connection.is_handshaking() {
            break;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match connection.read_tls(&mut stream) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
        if let Err(error) = connection.process_new_packets() {
            // The other end hears why.
            while connection.wants_write() && connection.write_tls(&mut stream).is_ok() {}
            return Err(io::Error::other(error));
        }
    }
    stream.set_read_timeout(None)?;
    Ok(Box::new(Tls(connection)))
}

/// TLS whose handshake is done.
struct Tls(Connection);

impl Tls {
    fn out(&mut self, out: &mut VecDeque<u8>) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(out)?;
        }
        Ok(())
    }
}

impl Layer for Tls {
    fn seal(&mut self, mut plain: &[u8], out: &mut VecDeque<u8>) -> io::Result<()> {
        while !plain.is_empty() {
            // It takes as much as its buffer holds.
            let taken = self.0.writer().write(plain)?;
            plain = &plain[taken..];
            self.out(out)?;
        }
        self.out(out)
    }

    fn open(&mut self, mut sealed: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            if !sealed.is_empty() {
                self.0.read_tls(&mut sealed)?;
            }
            let state = self.0.process_new_packets().map_err(io::Error::other)?;
            let at = out.len();
            out.resize(at + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut out[at..])?;
            if sealed.is_empty() || state.peer_has_closed() {
                return Ok(state.peer_has_closed());
            }
        }
    }

    fn end(&mut self, out: &mut VecDeque<u8>) {
        self.0.send_close_notify();
        // Into memory.
        let _ = self.out(out);
    }
}
