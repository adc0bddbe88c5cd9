//! How a session begins: hello, challenge, hello with the cookie of the challenge, welcome. Here is the client's half, and
//! what both share; the server's is [`super::listener`].

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use paceline_cc::{Codepoint, Nanos};
use ring::rand::{SecureRandom, SystemRandom};

use super::channel::{Channel, Early};
use super::seal::{Random, Session, SessionKey, SessionSide, make_key};
use super::socket::{Offload, SessionSocket};
use super::wire::control::{Challenge, Cookie, Hello, Refuse, Welcome, proved};
use super::wire::{Beyond, PacketHeader, PacketKind};
use paceline_linux::clock::Clock;

/// First wait for an answer; it doubles each time, as a retransmission timeout does.
const FIRST_WAIT: Nanos = Nanos::from_millis(250);
/// Hellos in a row that must be answered with another key, lest one was damaged on its way (our choice).
const WRONG: u32 = 3;
/// What signs when there is no key: a checksum.
pub(super) const NO_KEY: [u8; 32] = [0; 32];

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Any host could speak.
    #[error(
        "{0} is not loopback: give both ends the same key with --key FILE; make one with `{recipe}`",
        recipe = make_key("FILE")
    )]
    NeedsKey(SocketAddr),
    /// The port is taken.
    #[error("{0} is in use; choose another port, or stop the program that listens there")]
    InUse(SocketAddr),
    /// The port cannot be had.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// There is no answer.
    #[error("no answer from {peer} in {seconds:.0} s; does `paceline serve` run there, and with the same key?")]
    Silent {
        /// Who was asked.
        peer: SocketAddr,
        /// For this long.
        seconds: f64,
    },
    /// The peer's host said that no program listens there.
    #[error("no program listens at {0}; start `paceline serve` there first")]
    NotListening(SocketAddr),
    /// The key is not the server's.
    #[error("{0} has another key or none; both ends must be given the same one")]
    WrongKey(SocketAddr),
    /// The server said no.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// Who.
        peer: SocketAddr,
        /// In its words.
        why: String,
    },
    /// Too much to send.
    #[error(transparent)]
    Beyond(#[from] Beyond),
    /// The system failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
}

/// # Errors
/// [`HandshakeError::NeedsKey`] when there is no key and others than this machine could speak.
pub(super) fn permit(address: SocketAddr, key: Option<&SessionKey>) -> Result<(), HandshakeError> {
    let loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    };
    if loopback || key.is_some() { Ok(()) } else { Err(HandshakeError::NeedsKey(address)) }
}

/// Bytes that cannot be guessed.
///
/// # Errors
/// When the system has none to give.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}

/// Asks `peer` for the session that `hello` describes (its random number and cookie are filled in here).
///
/// # Errors
/// [`HandshakeError`] when there is none within `patience`.
pub fn connect(
    peer: SocketAddr,
    key: Option<&SessionKey>,
    mut hello: Hello,
    offload: Offload,
    clock: Clock,
    patience: Nanos,
) -> Result<(Channel, Welcome), HandshakeError> {
    permit(peer, key)?;
    let any: IpAddr = if peer.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    let mut socket = SessionSocket::new(socket, offload)?;
    let secret = key.map_or(&NO_KEY, SessionKey::bytes);
    hello.random = random()?;
    hello.cookie = None;
    let start = clock.now();
    let (mut wait, mut strangers) = (FIRST_WAIT, 0);
    let mut packet = hello.packet(secret)?;
    while clock.now() < start + patience {
        socket.send(peer, Codepoint::NotEct, &packet, packet.len()).or_else(|error| refused(error, peer))?;
        let until = (clock.now() + wait).min(start + patience);
        wait = wait.mul_div(2, 1);
        while clock.now() < until {
            if !socket.wait(clock, until)? {
                continue;
            }
            let mut answer = None;
            let mut early = Vec::new();
            let received = socket.receive(clock, |datagram| {
                if datagram.from != peer {
                    return;
                }
                if answer.is_none() {
                    answer = Answer::read(datagram.bytes, secret, &hello.random);
                } else {
                    // The session's first packets came right behind its welcome.
                    early.push(Early { at: datagram.at, ce: datagram.ce, bytes: datagram.bytes.to_vec() });
                }
            });
            if let Err(error) = received {
                refused(error, peer)?;
            }
            match answer {
                None => {}
                Some(Answer::WrongKey) => {
                    strangers += 1;
                    if strangers >= WRONG {
                        return Err(HandshakeError::WrongKey(peer));
                    }
                    break;
                }
                Some(Answer::Challenge(cookie)) if hello.cookie.is_none() => {
                    hello.cookie = Some(cookie);
                    packet = hello.packet(secret)?;
                    wait = FIRST_WAIT;
                    break;
                }
                // It was asked for twice.
                Some(Answer::Challenge(_)) => {}
                Some(Answer::Refuse(why)) => return Err(HandshakeError::Refused { peer, why }),
                Some(Answer::Welcome(id, welcome)) => {
                    let session = match key {
                        None => Session::plain(id),
                        Some(key) => Session::keyed(id, key, &hello.random, &welcome.server, SessionSide::Client),
                    };
                    return Ok((Channel::over(socket, peer, session).begins_with(early), welcome));
                }
            }
        }
    }
    Err(HandshakeError::Silent { peer, seconds: patience.as_secs_f64() })
}

fn refused(error: io::Error, peer: SocketAddr) -> Result<(), HandshakeError> {
    Err(match error.kind() {
        io::ErrorKind::ConnectionRefused => HandshakeError::NotListening(peer),
        _ => error.into(),
    })
}

enum Answer {
    Challenge(Cookie),
    Welcome(u32, Welcome),
    Refuse(String),
    WrongKey,
}

impl Answer {
    fn read(bytes: &[u8], secret: &[u8; 32], random: &Random) -> Option<Self> {
        let header = PacketHeader::read(bytes).ok()?;
        let Some(body) = proved(secret, bytes) else {
            // Any host could have said it: it ends the attempt, no more.
            let body = proved(&NO_KEY, bytes).filter(|_| header.kind == PacketKind::Refuse)?;
            return Refuse::read(body).ok().filter(|refuse| refuse.random == *random).map(|_| Self::WrongKey);
        };
        let (answer, echoed) = match header.kind {
            PacketKind::Challenge => {
                Challenge::read(body).map(|read| (Self::Challenge(read.cookie), read.random)).ok()?
            }
            PacketKind::Welcome => {
                Welcome::read(body).map(|read| (Self::Welcome(header.session, read), read.random)).ok()?
            }
            PacketKind::Refuse => Refuse::read(body).map(|read| (Self::Refuse(read.why), read.random)).ok()?,
            _ => return None,
        };
        (echoed == *random).then_some(answer)
    }
}
