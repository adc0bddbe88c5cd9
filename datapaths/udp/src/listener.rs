//! The server's half of the handshake: the client proves its address before the server does or remembers anything for it.
//!
//! A cookie is a MAC over address, client's random number and time, as in RFC 6347 section 4.2.1. Until it has come back the
//! server keeps no state and never answers with more bytes than came (our choice; RFC 9000 section 8.1 allows three times
//! as many).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use paceline_cc::{Codepoint, Nanos, Time};
use socket2::{Domain, SockRef, Socket as Raw, Type};

use super::channel::Channel;
use super::handshake::{HandshakeError, NO_KEY, permit, random};
use super::seal::{self, Random, Session, SessionKey, SessionSide};
use super::socket::{Offload, SessionSocket};
use super::wire::control::{Challenge, Cookie, Hello, Refuse, Welcome, proved};
use super::wire::{HEADER, PacketHeader, PacketKind};
use paceline_linux::clock::Clock;

/// How long a cookie holds (our choice: several times the longest round trip).
const COOKIE_LIFE: Nanos = Nanos::from_secs(10);
/// Bytes of a cookie's instant.
const STAMP: usize = 6;
/// The answer to a client that has another key or none: in a packet of 90 bytes, where the shortest hello has 110.
const OTHER_KEY: &str = "it has a key; give --key FILE";

/// What a server agrees to.
#[derive(Debug)]
pub struct Agreed<T> {
    /// How many bytes will come, where the server sends and knows.
    pub bytes: Option<u64>,
    /// What it has made ready for the session; dropped when there is none after all.
    pub ready: T,
}

/// A client whose address is proved, and its session.
pub struct Accepted<T> {
    /// What it asked for.
    pub hello: Hello,
    /// The session, over a socket of its own.
    pub channel: Channel,
    /// What was made ready for it.
    pub ready: T,
}

/// This host could not answer a peer; others are not concerned.
#[derive(Debug, thiserror::Error)]
#[error("{peer}: no session: {error}")]
pub struct Unanswered {
    /// Who asked.
    pub peer: SocketAddr,
    /// What the system said.
    pub error: io::Error,
}

/// Waits for clients.
pub struct Listener {
    socket: SessionSocket,
    address: SocketAddr,
    key: Option<SessionKey>,
    /// What signs cookies: no other process needs to know it.
    secret: [u8; 32],
    clock: Clock,
    offload: Offload,
    /// Who was welcomed lately, so that a hello counts once.
    welcomed: VecDeque<(Time, Random)>,
}

enum Reply<T> {
    Nothing,
    Packet(Vec<u8>),
    Session(Hello, Agreed<T>),
}

impl Listener {
    /// Listens at `address`; `offload` is that of the sessions.
    ///
    /// # Errors
    /// [`HandshakeError`] when there is no key though others than this machine could speak, or the port cannot be had.
    pub fn bind(
        address: SocketAddr,
        key: Option<SessionKey>,
        offload: Offload,
        clock: Clock,
    ) -> Result<Self, HandshakeError> {
        permit(address, key.as_ref())?;
        let socket = UdpSocket::bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => HandshakeError::InUse(address),
            _ => HandshakeError::Bind(address, error),
        })?;
        // Only from now on: before, it would share the port with another program of this user. SO_REUSEADDR would let
        // every user bind it, and the newest socket gets the datagrams; this one lets the same user alone (socket(7)).
        SockRef::from(&socket).set_reuse_port(true)?;
        let address = socket.local_addr()?;
        let socket = SessionSocket::new(socket, Offload::NONE)?;
        Ok(Self { socket, address, key, secret: random()?, clock, offload, welcomed: VecDeque::new() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers every client, until `until` or until one has asked; sessions that `decide` agrees to are the answer, or
    /// why this host could not give one. `decide` says why not, in words for the client.
    ///
    /// # Errors
    /// [`HandshakeError::Socket`] when the socket fails that all ask. It may do better the next time.
    pub fn accept<T>(
        &mut self,
        until: Time,
        mut decide: impl FnMut(SocketAddr, &Hello) -> Result<Agreed<T>, String>,
    ) -> Result<Vec<Result<Accepted<T>, Unanswered>>, HandshakeError> {
        if !self.socket.wait(self.clock, until)? {
            return Ok(Vec::new());
        }
        let mut packets = Vec::new();
        let received = self.socket.receive(self.clock, |datagram| {
            packets.push((datagram.from, datagram.to, datagram.bytes.to_vec()));
        });
        match received {
            // Of an answer to a peer that has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            result => {
                result?;
            }
        }
        let mut accepted = Vec::new();
        for (peer, to, packet) in packets {
            let session = self.answer(peer, to, &packet, &mut decide);
            accepted.extend(session.map_err(|error| Unanswered { peer, error }).transpose());
        }
        Ok(accepted)
    }

    fn answer<T>(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        packet: &[u8],
        decide: &mut impl FnMut(SocketAddr, &Hello) -> Result<Agreed<T>, String>,
    ) -> io::Result<Option<Accepted<T>>> {
        match self.reply(from, packet, decide) {
            Reply::Nothing => Ok(None),
            Reply::Packet(reply) => self.send(from, &reply).map(|()| None),
            Reply::Session(hello, agreed) => {
                let client = hello.random;
                self.begin(from, to, hello, agreed).map(Some).inspect_err(|_| {
                    let why = "it has no room for another session now; try again later".to_owned();
                    let _ = self.send(from, &Refuse { random: client, why }.packet(&self.signs()));
                })
            }
        }
    }

    /// What an unconnected socket says to a peer. When it is lost, it is asked for again.
    fn send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        match self.socket.send(to, Codepoint::NotEct, packet, packet.len()) {
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    /// What signs the handshake.
    fn signs(&self) -> [u8; 32] {
        self.key.as_ref().map_or(NO_KEY, |key| *key.bytes())
    }

    fn reply<T>(
        &mut self,
        from: SocketAddr,
        packet: &[u8],
        decide: &mut impl FnMut(SocketAddr, &Hello) -> Result<Agreed<T>, String>,
    ) -> Reply<T> {
        let secret = self.signs();
        let Ok(header) = PacketHeader::read(packet) else { return Reply::Nothing };
        if header.kind != PacketKind::Hello {
            return Reply::Nothing;
        }
        let to_stranger =
            |reply: Vec<u8>| if reply.len() <= packet.len() { Reply::Packet(reply) } else { Reply::Nothing };
        let Some(body) = proved(&secret, packet) else {
            let random = packet.get(HEADER..).and_then(|body| body.first_chunk());
            let Some(random) = random.copied() else { return Reply::Nothing };
            return to_stranger(Refuse { random, why: OTHER_KEY.to_owned() }.packet(&NO_KEY));
        };
        let Ok(hello) = Hello::read(header.flags, body) else { return Reply::Nothing };
        let now = self.clock.now();
        if !hello.cookie.is_some_and(|cookie| self.holds(now, from, &hello.random, &cookie)) {
            let cookie = self.cookie(now, from, &hello.random);
            return to_stranger(Challenge { random: hello.random, cookie }.packet(&secret));
        }
        while self.welcomed.front().is_some_and(|(at, _)| *at + COOKIE_LIFE < now) {
            self.welcomed.pop_front();
        }
        if self.welcomed.iter().any(|(_, random)| *random == hello.random) {
            // Its session answers, or is over.
            return Reply::Nothing;
        }
        match decide(from, &hello) {
            Ok(agreed) => Reply::Session(hello, agreed),
            Err(why) => Reply::Packet(Refuse { random: hello.random, why }.packet(&secret)),
        }
    }

    /// The session that was agreed to.
    fn begin<T>(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        hello: Hello,
        agreed: Agreed<T>,
    ) -> io::Result<Accepted<T>> {
        let server: Random = random()?;
        let id = u32::from_be_bytes(random()?);
        let session = match &self.key {
            None => Session::plain(id),
            Some(key) => Session::keyed(id, key, &hello.random, &server, SessionSide::Server),
        };
        let Agreed { bytes, ready } = agreed;
        let welcome = Welcome { random: hello.random, server, bytes }.packet(&self.signs(), id);
        let welcome = welcome.map_err(io::Error::other)?;
        let socket = SessionSocket::new(self.branch(from, to)?, self.offload)?;
        socket.send(from, Codepoint::NotEct, &welcome, welcome.len())?;
        self.welcomed.push_back((self.clock.now(), hello.random));
        let channel = Channel::over(socket, from, session).welcomes_with(welcome);
        Ok(Accepted { hello, channel, ready })
    }

    /// A socket on the same port that takes what comes from `peer` alone.
    fn branch(&self, peer: SocketAddr, to: Option<IpAddr>) -> io::Result<UdpSocket> {
        let local = SocketAddr::new(to.unwrap_or(self.address.ip()), self.address.port());
        let domain = if self.address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let local = match (local, self.address) {
            // A socket for both families speaks of IPv4 addresses so.
            (SocketAddr::V4(v4), SocketAddr::V6(_)) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            _ => local,
        };
        let socket = Raw::new(domain, Type::DGRAM, None)?;
        socket.set_reuse_port(true)?;
        socket.bind(&local.into())?;
        socket.connect(&peer.into())?;
        Ok(socket.into())
    }

    fn cookie(&self, now: Time, from: SocketAddr, random: &Random) -> Cookie {
        let mut cookie = [0; size_of::<Cookie>()];
        let (time, mac) = cookie.split_at_mut(STAMP);
        time.copy_from_slice(&now.as_nanos().to_be_bytes()[8 - STAMP..]);
        mac.copy_from_slice(seal::mac(&self.secret, &vouched(time, from, random)).as_ref());
        cookie
    }

    fn holds(&self, now: Time, from: SocketAddr, random: &Random, cookie: &Cookie) -> bool {
        let (time, mac) = cookie.split_at(STAMP);
        let mut stamp = [0; 8];
        stamp[8 - STAMP..].copy_from_slice(time);
        let made = Time::from_nanos(u64::from_be_bytes(stamp));
        seal::mac_holds(&self.secret, &vouched(time, from, random), mac) && made <= now && now < made + COOKIE_LIFE
    }
}

/// What a cookie vouches for.
fn vouched(time: &[u8], from: SocketAddr, random: &Random) -> Vec<u8> {
    [time, random, from.to_string().as_bytes()].concat()
}

#[cfg(test)]
mod tests;
