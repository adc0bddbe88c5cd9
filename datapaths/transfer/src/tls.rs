//! TLS below the frames, by rustls.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_alcc::Layer;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
pub use rustls::{ClientConfig, ServerConfig};
use rustls::{ClientConnection, Connection, RootCertStore, ServerConnection};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates cannot be used.
    #[error("{}: {why}; name a PEM file with certificates", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No certificate of a file can be trusted.
    #[error("{}: no certificate that can be used; name a PEM file with one", .0.display())]
    Untrusted(PathBuf),
    /// A text is not a private key.
    #[error("{0}; name a PEM file with a private key")]
    Key(#[source] pem::Error),
    /// A key belongs to another certificate.
    #[error("does not go with the certificate")]
    Mismatch(#[source] rustls::Error),
    /// The versions of TLS cannot be had.
    #[error(transparent)]
    Versions(rustls::Error),
}

/// A server's TLS with this certificate (and those that certify it) in a PEM file, and its private key in PEM.
///
/// # Errors
/// [`TlsError`] for what is not a certificate or its key.
pub fn server(certificate: &Path, key: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key);
    config.map(Arc::new).map_err(TlsError::Mismatch)
}

/// A client's TLS, which trusts whom the certificates in a PEM file certify.
///
/// # Errors
/// [`TlsError`] for what is not a certificate.
pub fn client(roots: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates(roots)?);
    if added == 0 {
        return Err(TlsError::Untrusted(roots.to_owned()));
    }
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    Ok(Arc::new(config.map_err(TlsError::Versions)?.with_root_certificates(store).with_no_client_auth()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::Certificates { path: path.to_owned(), why };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?.collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() { Err(wrong("holds no certificate".to_owned())) } else { Ok(found) }
}

/// Shakes hands as a server, in `limit` at most.
pub(crate) fn accept(config: Arc<ServerConfig>, stream: &TcpStream, limit: Duration) -> io::Result<Box<dyn Layer>> {
    shake(ServerConnection::new(config).map_err(io::Error::other)?.into(), stream, limit)
}

/// Shakes hands as a client of this host.
pub(crate) fn connect(
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
