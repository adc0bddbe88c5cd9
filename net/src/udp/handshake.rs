//! How a session begins: the client proves its address before the server does or remembers anything for it.
//!
//! Hello, challenge, hello with the cookie of the challenge, welcome. Until the cookie has come back the server keeps no
//! state and answers each packet with fewer bytes than it has; the bound of three times is that of RFC 9000 section 8.1.
//! A cookie is a MAC over address, client's random number and time, as in RFC 6347 section 4.2.1.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use paceline_cc::{Nanos, Time};
use paceline_path::Codepoint;
use ring::rand::{SecureRandom, SystemRandom};
use socket2::{Domain, Socket as Raw, Type};

use super::channel::{Channel, Early};
use super::seal::{self, Key, Random, Session, Side};
use super::socket::{Offload, Socket};
use super::wire::control::{Challenge, Cookie, Hello, Refuse, Welcome, proved};
use super::wire::{Beyond, Header, Kind};
use crate::clock::Clock;

/// How long a cookie holds (our choice: several times the longest round trip).
const COOKIE_LIFE: Nanos = Nanos::from_secs(10);
/// Answers to an address that is not proved, in multiples of what came from it (RFC 9000 section 8.1).
const AMPLIFICATION: usize = 3;
/// First wait for an answer; it doubles each time, as a retransmission time-out does.
const FIRST_WAIT: Nanos = Nanos::from_millis(250);
/// Bytes of a cookie's instant.
const STAMP: usize = 6;
/// Hellos in a row that must be told of another key, lest one was damaged on its way (our choice).
const WRONG: u32 = 3;
/// What signs when there is no key: a checksum.
const NO_KEY: [u8; 32] = [0; 32];

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Anybody could speak.
    #[error(
        "{0} is not loopback: give both ends the same key with --key FILE; make one with `head -c 32 /dev/urandom | od -An \
         -tx1 | tr -d ' \\n' > FILE`"
    )]
    NeedsKey(SocketAddr),
    /// The port is taken.
    #[error("{0} is in use; choose another port, or stop the program that listens there")]
    InUse(SocketAddr),
    /// The port cannot be had.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// Nobody answers.
    #[error("no answer from {peer} in {seconds:.0} s; does `paceline serve` run there, and with the same key?")]
    Silent {
        /// Who was asked.
        peer: SocketAddr,
        /// For so long.
        seconds: f64,
    },
    /// The peer's host said that nobody listens there.
    #[error("nobody listens at {0}; start `paceline serve` there first")]
    Nobody(SocketAddr),
    /// The key is not the server's.
    #[error("{0} has another key; both ends must be given the same one")]
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
fn permit(address: SocketAddr, key: Option<&Key>) -> Result<(), HandshakeError> {
    let loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    };
    if loopback || key.is_some() { Ok(()) } else { Err(HandshakeError::NeedsKey(address)) }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
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
    key: Option<&Key>,
    mut hello: Hello,
    offload: Offload,
    clock: Clock,
    patience: Nanos,
) -> Result<(Channel, Welcome), HandshakeError> {
    permit(peer, key)?;
    let any: IpAddr = if peer.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    let mut socket = Socket::new(socket, offload)?;
    let secret = key.map_or(&NO_KEY, Key::bytes);
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
                        Some(key) => Session::keyed(id, key, &hello.random, &welcome.server, Side::Client),
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
        io::ErrorKind::ConnectionRefused => HandshakeError::Nobody(peer),
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
        let header = Header::read(bytes).ok()?;
        let Some(body) = proved(secret, bytes) else {
            // Anybody could have said it: it ends the attempt, no more.
            let body = proved(&NO_KEY, bytes).filter(|_| header.kind == Kind::Refuse)?;
            return Refuse::read(body).ok().filter(|refuse| refuse.random == *random).map(|_| Self::WrongKey);
        };
        let (answer, echoed) = match header.kind {
            Kind::Challenge => Challenge::read(body).map(|read| (Self::Challenge(read.cookie), read.random)).ok()?,
            Kind::Welcome => Welcome::read(body).map(|read| (Self::Welcome(header.session, read), read.random)).ok()?,
            Kind::Refuse => Refuse::read(body).map(|read| (Self::Refuse(read.why), read.random)).ok()?,
            _ => return None,
        };
        (echoed == *random).then_some(answer)
    }
}

/// A client whose address is proved, and its session.
pub struct Accepted {
    /// What it asked for.
    pub hello: Hello,
    /// The session, over a socket of its own.
    pub channel: Channel,
}

/// Waits for clients.
pub struct Listener {
    socket: Socket,
    address: SocketAddr,
    key: Option<Key>,
    /// What signs cookies: nobody else needs to know it.
    secret: [u8; 32],
    clock: Clock,
    offload: Offload,
    /// Who was welcomed lately, so that a hello counts once.
    welcomed: VecDeque<(Time, Random)>,
}

impl Listener {
    /// Listens at `address`; `offload` is that of the sessions.
    ///
    /// # Errors
    /// [`HandshakeError`] when there is no key though others than this machine could speak, or the port cannot be had.
    pub fn bind(address: SocketAddr, key: Option<Key>, offload: Offload, clock: Clock) -> Result<Self, HandshakeError> {
        permit(address, key.as_ref())?;
        let socket = UdpSocket::bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => HandshakeError::InUse(address),
            _ => HandshakeError::Bind(address, error),
        })?;
        // Only from now on: before, it would hide another program on this port.
        socket2::SockRef::from(&socket).set_reuse_address(true)?;
        let address = socket.local_addr()?;
        let socket = Socket::new(socket, Offload::NONE)?;
        Ok(Self { socket, address, key, secret: random()?, clock, offload, welcomed: VecDeque::new() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers whoever asks, until `until`; sessions that `decide` agrees to are the answer. It says how many bytes will
    /// come, where the server sends and knows, or why not.
    ///
    /// # Errors
    /// [`HandshakeError::Socket`] when the socket fails.
    pub fn accept(
        &mut self,
        until: Time,
        mut decide: impl FnMut(SocketAddr, &Hello) -> Result<Option<u64>, String>,
    ) -> Result<Vec<Accepted>, HandshakeError> {
        if !self.socket.wait(self.clock, until)? {
            return Ok(Vec::new());
        }
        let mut packets = Vec::new();
        let received = self.socket.receive(self.clock, |datagram| {
            packets.push((datagram.from, datagram.to, datagram.bytes.to_vec()));
        });
        match received {
            // Of an answer to somebody who has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            result => {
                result?;
            }
        }
        let mut accepted = Vec::new();
        for (from, to, packet) in packets {
            match self.answer(from, to, &packet, &mut decide)? {
                Reply::Nothing => {}
                // A lost answer is asked for again.
                Reply::Packet(reply) => drop(self.socket.send(from, Codepoint::NotEct, &reply, reply.len())),
                Reply::Session(session) => accepted.push(*session),
            }
        }
        Ok(accepted)
    }

    fn answer(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        packet: &[u8],
        decide: &mut impl FnMut(SocketAddr, &Hello) -> Result<Option<u64>, String>,
    ) -> Result<Reply, HandshakeError> {
        let secret = self.key.as_ref().map_or(NO_KEY, |key| *key.bytes());
        let Ok(header) = Header::read(packet) else { return Ok(Reply::Nothing) };
        if header.kind != Kind::Hello {
            return Ok(Reply::Nothing);
        }
        let within = |reply: Vec<u8>| {
            if reply.len() <= AMPLIFICATION * packet.len() { Reply::Packet(reply) } else { Reply::Nothing }
        };
        let Some(body) = proved(&secret, packet) else {
            let stranger = packet.get(super::wire::HEADER..).and_then(|body| body.first_chunk());
            let Some(random) = stranger.copied() else { return Ok(Reply::Nothing) };
            return Ok(within(
                Refuse { random, why: "it has a key; give both ends the same one with --key FILE".to_owned() }
                    .packet(&NO_KEY),
            ));
        };
        let Ok(hello) = Hello::read(header.flags, body) else { return Ok(Reply::Nothing) };
        let now = self.clock.now();
        if !hello.cookie.is_some_and(|cookie| self.holds(now, from, &hello.random, &cookie)) {
            let cookie = self.cookie(now, from, &hello.random);
            return Ok(within(Challenge { random: hello.random, cookie }.packet(&secret)));
        }
        while self.welcomed.front().is_some_and(|(at, _)| *at + COOKIE_LIFE < now) {
            self.welcomed.pop_front();
        }
        if self.welcomed.iter().any(|(_, random)| *random == hello.random) {
            // Its session answers, or is over.
            return Ok(Reply::Nothing);
        }
        let bytes = match decide(from, &hello) {
            Ok(bytes) => bytes,
            Err(why) => return Ok(Reply::Packet(Refuse { random: hello.random, why }.packet(&secret))),
        };
        let server: Random = random()?;
        let id = u32::from_be_bytes(random()?);
        let session = match &self.key {
            None => Session::plain(id),
            Some(key) => Session::keyed(id, key, &hello.random, &server, Side::Server),
        };
        let welcome = Welcome { random: hello.random, server, bytes }.packet(&secret, id)?;
        let socket = Socket::new(self.branch(from, to)?, self.offload)?;
        socket.send(from, Codepoint::NotEct, &welcome, welcome.len())?;
        self.welcomed.push_back((now, hello.random));
        let channel = Channel::over(socket, from, session).welcomes_with(welcome);
        Ok(Reply::Session(Box::new(Accepted { hello, channel })))
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
        socket.set_reuse_address(true)?;
        socket.bind(&local.into())?;
        socket.connect(&peer.into())?;
        Ok(socket.into())
    }

    fn cookie(&self, now: Time, from: SocketAddr, random: &Random) -> Cookie {
        let mut cookie = [0; size_of::<Cookie>()];
        let (time, mac) = cookie.split_at_mut(STAMP);
        time.copy_from_slice(&now.as_nanos().to_be_bytes()[8 - STAMP..]);
        mac.copy_from_slice(&seal::mac(&self.secret, &[&vouched(time, from, random)]));
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

enum Reply {
    Nothing,
    Packet(Vec<u8>),
    Session(Box<Accepted>),
}
