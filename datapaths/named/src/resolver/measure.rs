//! Which of several places is nearest: a request for the first unit to each, and how long the answer takes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use paceline_icn::resolve::Found;
use paceline_icn::wire::{MAX_MESSAGE, MissingReason, PADDED, UnitAnswer, UnitRequest};
use paceline_icn::{Name, Ranges};
use paceline_linux::clock::wait;
use rustix::event::{PollFd, PollFlags};

use super::{ResolveError, any_like, random, resolve};
use crate::failed;

/// Requests to a place that answers: the smaller of two times is without what only the first pays, the resolution of the link's
/// address (our choice).
const PROBES: usize = 2;

/// A place that has not answered is asked again after this long (our choice).
const AGAIN: Duration = Duration::from_millis(300);

/// Once one has answered, others have this many times as long, and no less than 50 ms (our choice: a slower one is not what
/// one looks for).
const SLOWER: u32 = 4;
const SLOWER_AT_LEAST: Duration = Duration::from_millis(50);

/// A place, and what its answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The router's address.
    pub address: SocketAddr,
    /// The smallest round-trip time; `None`: no answer came.
    pub rtt: Option<Duration>,
    /// The answer says that the object is not there.
    pub lacks: bool,
}

struct Place {
    measured: Measured,
    /// The nonce of each request to it, and when it left.
    sent: Vec<(u64, Instant)>,
    answers: usize,
    /// When to ask (again).
    due: Instant,
}

/// Measures the round-trip time to each of `places`, by requests for the first unit of `name`. Nearest first, then those that lack
/// the object, then the silent. Blocks for `patience` at most.
///
/// # Errors
/// [`ResolveError::System`]: no socket.
pub fn measure(name: &Name, places: &[SocketAddr], patience: Duration) -> Result<Vec<Measured>, ResolveError> {
    let mut sockets: Vec<(bool, UdpSocket)> = Vec::new();
    let mut all = Vec::new();
    for &address in places {
        if !sockets.iter().any(|(ipv4, _)| *ipv4 == address.is_ipv4()) {
            let socket = UdpSocket::bind(any_like(address)).map_err(failed("a UDP socket"))?;
            socket.set_nonblocking(true).map_err(failed("a UDP socket"))?;
            sockets.push((address.is_ipv4(), socket));
        }
        let measured = Measured { address, rtt: None, lacks: false };
        all.push(Place { measured, sent: Vec::new(), answers: 0, due: Instant::now() });
    }
    let mut end = Instant::now() + patience;
    let mut buffer = [0; MAX_MESSAGE + 1];
    loop {
        let now = Instant::now();
        for place in all.iter_mut().filter(|place| !place.done() && place.due <= now) {
            place.send(name, &sockets, now)?;
        }
        let Some(next) = all.iter().filter(|place| !place.done()).map(|place| place.due).min() else { break };
        if now >= end {
            break;
        }
        let mut fds: Vec<PollFd<'_>> = sockets.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::IN)).collect();
        wait(&mut fds, Some(next.min(end).saturating_duration_since(now))).map_err(failed("waiting for answers"))?;
        let now = Instant::now();
        for (_, socket) in &sockets {
            while let Some(length) = received(socket, &mut buffer) {
                for place in &mut all {
                    place.answered(&buffer[..length], now);
                }
            }
        }
        if let Some(first) = all
            .iter()
            .filter(|place| !place.measured.lacks && place.answers > 0)
            .filter_map(|place| place.measured.rtt)
            .min()
        {
            end = end.min(now + (first * SLOWER).max(SLOWER_AT_LEAST));
        }
    }
    let mut measured: Vec<Measured> = all.iter().map(|place| place.measured).collect();
    measured.sort_by_key(|place| (place.rtt.is_none(), place.lacks, place.rtt));
    Ok(measured)
}

/// Asks `service` where `name` is, and measures which of the places is nearest: those that have it, nearest first. Blocks.
///
/// # Errors
/// Those of [`resolve()`], [`ResolveError::Unknown`] where it was not announced, [`ResolveError::Nowhere`] where none of the places
/// answers.
pub fn nearest(name: &Name, service: SocketAddr, patience: Duration) -> Result<Vec<Measured>, ResolveError> {
    nearest_of(name, &resolve(name, service, patience)?, &service.to_string(), patience)
}

/// Of places that `of` named for `name`, those that have it, nearest first. Blocks.
///
/// # Errors
/// [`ResolveError::Unknown`] where there are no places, [`ResolveError::Nowhere`] where none of them answers.
pub fn nearest_of(name: &Name, found: &[Found], of: &str, patience: Duration) -> Result<Vec<Measured>, ResolveError> {
    if found.is_empty() {
        return Err(ResolveError::Unknown { name: *name, service: of.to_owned() });
    }
    let places: Vec<SocketAddr> = found.iter().map(|place| place.address).collect();
    let mut measured = measure(name, &places, patience)?;
    measured.retain(|place| place.rtt.is_some() && !place.lacks);
    if measured.is_empty() {
        return Err(ResolveError::Nowhere { name: *name, places: places.len() });
    }
    Ok(measured)
}

/// The length of the next datagram; an error that a peer's host reported does not count.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match socket.recv_from(buffer) {
            Ok((length, _)) => return Some(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => {}
        }
    }
}

/// What an answer says of the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    There,
    Lacking,
    Unsaid,
}

impl Place {
    fn send(&mut self, name: &Name, sockets: &[(bool, UdpSocket)], now: Instant) -> Result<(), ResolveError> {
        let nonce = random()?;
        let ranges = Ranges::one(0);
        let request = UnitRequest { nonce, name: *name, ranges, token: None, hops: 0, padded: PADDED };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        if let Some((_, socket)) = sockets.iter().find(|(ipv4, _)| *ipv4 == self.measured.address.is_ipv4()) {
            // One that cannot be sent is one that is not answered.
            let _ = socket.send_to(&bytes, self.measured.address);
        }
        self.sent.push((nonce, now));
        self.due = now + AGAIN;
        Ok(())
    }

    fn answered(&mut self, bytes: &[u8], now: Instant) {
        let Ok(answer) = UnitAnswer::decode(bytes) else { return };
        let (nonce, object) = match answer {
            UnitAnswer::Data(data, _) => (data.nonce, Object::There),
            UnitAnswer::Nack(nack) if matches!(nack.reason, MissingReason::Busy | MissingReason::NoToken) => {
                (nack.nonce, Object::There)
            }
            UnitAnswer::Nack(nack) => (nack.nonce, Object::Lacking),
            // Comes before what says whether the object is there.
            UnitAnswer::Grant(grant) => (grant.nonce, Object::Unsaid),
        };
        let Some(at) = self.sent.iter().position(|(known, _)| *known == nonce) else { return };
        let rtt = now.saturating_duration_since(self.sent[at].1);
        self.measured.rtt = Some(self.measured.rtt.map_or(rtt, |best| best.min(rtt)));
        self.measured.lacks |= object == Object::Lacking;
        if object != Object::Unsaid {
            self.sent.swap_remove(at);
            self.answers += 1;
            self.due = now;
        }
    }

    /// Nothing more is to be learnt from it.
    fn done(&self) -> bool {
        self.measured.lacks || self.answers >= PROBES
    }
}
