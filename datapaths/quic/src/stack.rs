//! A stack that speaks QUIC, and what all have in common: one transfer, of bytes from a reader at one end to a writer at the other, within
//! a deadline.
//!
//! Everything runs on the calling thread, so that a socket made inside a network namespace stays there and the thread's
//! CPU time is the transfer's.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use paceline_cc::datapath::Datapath;
use paceline_cc::{Misfit, Spec};

use quinn::rustls::pki_types::CertificateDer;

use crate::factory::{Factory, Recording, RttSample};

/// UDP payload of a full packet: 1500 bytes less IPv6 and UDP headers. Where the path carries less, quinn falls back to
/// 1200.
pub const MTU: u16 = 1452;
/// Most bytes on the way and not yet read, and most that wait to be sent (our choice: 100 Mbit/s and 1.3 s, so that the
/// controller, not quinn's default of 1.25 MB, limits a flow).
pub(crate) const FLOW_WINDOW: u32 = 16 << 20;
/// Longest time for which the receiver may keep an acknowledgement back (our choice: quinn's least. Its default of 25 ms is
/// a queue to a controller that goes by delay, and one with a single packet in flight never sees the path without it).
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(1);
/// What stacks with [`ACK_DELAY`] do.
pub(crate) const EVERY_OTHER: &str = "every other packet, or after 1 ms";
/// Most bytes read from the source at once.
pub(crate) const CHUNK: usize = 64 << 10;
/// How long an end waits for the other one to learn that it has closed.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);
/// The name in the certificate: which host it is says the address.
pub(crate) const NAME: &str = "paceline";

/// What a stack says.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no connection, or no answer, before the deadline.
    #[error("no QUIC {peer} within {after:?}; check its address and that UDP passes")]
    NoPeer {
        /// Who was expected.
        peer: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The certificate or key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// The peer's address cannot be connected to.
    #[error("cannot connect: {0}")]
    Connect(#[source] Cause),
    /// The connection failed.
    #[error("the QUIC connection failed: {0}")]
    Connection(#[source] Cause),
    /// The peer refused the stream.
    #[error("the QUIC stream failed: {0}")]
    Stream(String),
    /// A socket, the source or the sink failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A self-signed certificate and its key. Only a sender that was given this very certificate trusts it.
#[derive(Debug)]
pub struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: Vec<u8>,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Certificate`] when no key can be made.
    pub fn generate() -> Result<Self, Error> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(certificate)?;
        Ok(Self { certificate: made.cert.der().clone(), key: made.signing_key.serialize_der() })
    }

    /// The certificate in DER, for the sender.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The private key in PKCS #8.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// What a sender needs.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// The receiver.
    pub to: SocketAddr,
    /// Its certificate in DER.
    pub certificate: &'a [u8],
    /// The congestion controller.
    pub controller: &'a Factory,
    /// UDP payload of the largest packet, 1200 to [`MTU`] bytes: less than that where a node makes packets longer, such as a source of
    /// telemetry.
    pub mtu: u16,
    /// Each datagram is handed over by itself, where the stack would hand over several together: for a node that writes something else on
    /// each.
    pub one_by_one: bool,
    /// The transfer ends then, complete or not.
    pub lasting: Duration,
}

/// A transfer as its sender saw it.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Bytes taken from the source; where `complete`, all of them were acknowledged.
    pub bytes: u64,
    /// The source ended and the receiver has everything.
    pub complete: bool,
    /// From the start of the handshake to the end of the transfer.
    pub elapsed: Duration,
    /// The controller's RTT samples.
    pub rtt: Vec<RttSample>,
    /// UDP packets sent.
    pub packets_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
    /// Losses and marks reported to the controller, one round of detection at a time.
    pub congestion_events: u64,
    /// CPU time of the calling thread; `None` where the system does not report it.
    pub cpu: Option<Duration>,
}

/// A transfer as its receiver saw it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Bytes written to the sink.
    pub bytes: u64,
    /// The sender said that this was all.
    pub complete: bool,
    /// From the first byte to the last.
    pub elapsed: Duration,
    /// CPU time of the calling thread; `None` where the system does not report it.
    pub cpu: Option<Duration>,
}

/// An implementation of QUIC with controllers of ours inside.
#[derive(Debug)]
pub struct Stack {
    /// Its name.
    pub name: &'static str,
    /// What it is to a controller.
    pub datapath: &'static Datapath,
    /// It spreads packets by itself where a controller sets no pace.
    pub paces: bool,
    /// Which packets its receiver acknowledges, and when.
    pub acknowledges: &'static str,
    pub(crate) serve: fn(UdpSocket, &Identity, &mut dyn Write, Duration) -> Result<Received, Error>,
    pub(crate) send: fn(UdpSocket, &Sending<'_>, &mut dyn Read) -> Result<Sent, Error>,
}

impl Stack {
    /// Controllers made from `spec` for it, with `seed` for those that draw.
    ///
    /// # Errors
    /// A [`Misfit`] for what it cannot express.
    pub fn factory(&self, spec: Spec, seed: u64) -> Result<Factory, Misfit> {
        Factory::over(self.datapath, spec, seed)
    }

    /// Waits for one sender on `socket` and writes what it sends to `sink`, which must not block for long. Returns when the
    /// transfer is over, the sender has gone, or `lasting` has passed; strangers whose handshake fails are passed over.
    ///
    /// # Errors
    /// [`Error::NoPeer`] when no sender came; otherwise what failed.
    pub fn serve(
        &self,
        socket: UdpSocket,
        identity: &Identity,
        sink: &mut dyn Write,
        lasting: Duration,
    ) -> Result<Received, Error> {
        let cpu = cpu_time();
        let received = (self.serve)(socket, identity, sink, lasting)?;
        Ok(Received { cpu: since(cpu), ..received })
    }

    /// Sends what `source` gives to a [`Stack::serve`] from `socket`; `source` must not block for long. Returns when everything has
    /// been acknowledged or the time is up.
    ///
    /// # Errors
    /// [`Error::NoPeer`] when no receiver answered; otherwise what failed.
    pub fn send(&self, socket: UdpSocket, sending: &Sending<'_>, source: &mut dyn Read) -> Result<Sent, Error> {
        let (cpu, recording) = (cpu_time(), Recording::default());
        let controller = &sending.controller.clone().recorded(&recording);
        let sent = (self.send)(socket, &Sending { controller, ..*sending }, source)?;
        Ok(Sent { rtt: recording.take(), cpu: since(cpu), ..sent })
    }
}

pub(crate) fn certificate(error: impl std::fmt::Display) -> Error {
    Error::Certificate(error.to_string())
}

/// The next bytes of what is sent, as many as there are at once; none at its end.
pub(crate) fn next_chunk(source: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            read => return read,
        }
    }
}

pub(crate) fn stream_error(error: impl std::fmt::Display) -> Error {
    Error::Stream(error.to_string())
}

/// CPU time of this thread.
#[cfg(target_os = "linux")]
fn cpu_time() -> Option<Duration> {
    Some(Duration::from_nanos(paceline_linux::thread::cpu_time().as_nanos()))
}

#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Option<Duration> {
    None
}

fn since(start: Option<Duration>) -> Option<Duration> {
    Some(cpu_time()?.saturating_sub(start?))
}
