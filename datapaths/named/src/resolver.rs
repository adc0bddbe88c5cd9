//! Name resolution over UDP: the service, its client, announcing, and which of the places found is nearest.
//!
//! The messages and the table are [`paceline_icn::resolve`]'s.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use paceline_icn::Name;
use paceline_icn::resolve::{Announce, AnnouncementStatus, Found, MOST_ANNOUNCED, ResolveKey, ResolverMessage};

use crate::{CallFailed, failed};

mod announcer;
#[cfg(feature = "dns")]
mod dns;
mod measure;
mod service;

pub use announcer::{AnnounceError, Announcer, Announcing};
#[cfg(feature = "dns")]
pub use dns::Zone;
pub use measure::{Measured, measure, nearest, nearest_of};
pub use service::{Service, ServiceConfig, ServiceStats};

/// Where a service listens when nothing is said (our choice: beside `paceline serve`, 4870).
pub const PORT: u16 = 4872;

/// Waits for an answer this long, then asks again, and doubles it (our choice: RFC 1123 section 6.1.3.3 has 5 s for name servers far
/// away; ours are near).
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Why a name was not resolved, or an announcement does not count.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] CallFailed),
    /// No answer came.
    #[error("{service}: no answer within {} s; does a `paceline icn resolver` listen there?", waited.as_secs_f64())]
    Silent {
        /// Who was asked.
        service: SocketAddr,
        /// How long it had.
        waited: Duration,
    },
    /// No router announced the name.
    #[error("{name}: {service} knows no place that has it; announce it there with `paceline icn serve --announce`")]
    Unknown {
        /// The name.
        name: Name,
        /// Who was asked.
        service: String,
    },
    /// Places are known, and none of them has it now.
    #[error("{name}: none of the {places} places that were found answers and has it; is a router down?")]
    Nowhere {
        /// The name.
        name: Name,
        /// How many were asked.
        places: usize,
    },
    /// An announcement was refused.
    #[error("{service}: refuses the announcement: {why}")]
    Refused {
        /// Who was asked.
        service: SocketAddr,
        /// Why, and what to do.
        why: &'static str,
    },
    /// The state of a service cannot be read.
    #[error("{file}: is not the state of a resolver ({why}); remove it to start with nothing")]
    State {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// DNS failed.
    #[error("{name} in {zone}: {why}")]
    Dns {
        /// The name.
        name: Name,
        /// The zone.
        zone: String,
        /// What the resolver said.
        why: String,
    },
}

/// Where to look for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// At these places, whatever it is.
    Known(Vec<SocketAddr>),
    /// Where this service says.
    Service(SocketAddr),
    /// Where the records of this zone say.
    #[cfg(feature = "dns")]
    Zone(Zone),
}

impl Whereabouts {
    /// The places that have `name`, nearest first; those that are known, as given. Blocks.
    ///
    /// # Errors
    /// [`ResolveError`]; [`ResolveError::Unknown`] and [`ResolveError::Nowhere`] where there are none.
    pub fn places(&self, name: &Name, patience: Duration) -> Result<Vec<SocketAddr>, ResolveError> {
        let addresses = |measured: Vec<Measured>| measured.into_iter().map(|place| place.address).collect();
        match self {
            Self::Known(places) => Ok(places.clone()),
            Self::Service(service) => nearest(name, *service, patience).map(addresses),
            #[cfg(feature = "dns")]
            Self::Zone(zone) => {
                let found = zone.resolve(name, patience)?;
                nearest_of(name, &found, &zone.zone, patience).map(addresses)
            }
        }
    }
}

/// Asks `service` where `name` is, within `patience`; empty: no router announced it. Blocks.
///
/// # Errors
/// [`ResolveError::Silent`], [`ResolveError::System`].
pub fn resolve(name: &Name, service: SocketAddr, patience: Duration) -> Result<Vec<Found>, ResolveError> {
    let nonce = random()?;
    let answer =
        ask(service, patience, &ResolverMessage::Resolve { nonce, name: *name }, None, |message| match message {
            ResolverMessage::Found { nonce: echoed, places } if echoed == nonce => Some(places),
            _ => None,
        })?;
    Ok(answer)
}

/// Announces at `service` that `names` are to be had at `address` for `ttl`; zero: no longer. Blocks, `patience` at most for each
/// 40 names.
///
/// # Errors
/// [`ResolveError::Refused`], [`ResolveError::Silent`], [`ResolveError::System`].
pub fn announce(
    names: &[Name],
    address: SocketAddr,
    ttl: Duration,
    key: &ResolveKey,
    service: SocketAddr,
    patience: Duration,
) -> Result<(), ResolveError> {
    let ttl_s = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    for names in names.chunks(MOST_ANNOUNCED) {
        let mut number = unix_us();
        // A service that saw a clock ahead of ours says which number to exceed.
        for last in [false, true] {
            let nonce = random()?;
            let message = ResolverMessage::Announce(Announce { nonce, number, ttl_s, address, names: names.to_vec() });
            let (status, seen) = ask(service, patience, &message, Some(key), |message| match message {
                ResolverMessage::Announced { nonce: echoed, status, number } if echoed == nonce => {
                    Some((status, number))
                }
                _ => None,
            })?;
            let why = match status {
                AnnouncementStatus::Accepted => break,
                AnnouncementStatus::Stale if !last => {
                    number = seen.saturating_add(1);
                    continue;
                }
                AnnouncementStatus::Stale => "another router announces from the same address; give each its own",
                AnnouncementStatus::Full => "its table is full; let it hold more with --entries",
                AnnouncementStatus::WrongKey => "its key is another; give both the same key file",
            };
            return Err(ResolveError::Refused { service, why });
        }
    }
    Ok(())
}

/// The local address from which `peer` is reached, which is where it reaches this host, unless an address is translated between.
///
/// # Errors
/// What the system says; there is no route, say.
pub fn local_address_towards(peer: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(any_like(peer))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

/// Any address of the family of `peer`, any port.
pub(crate) fn any_like(peer: SocketAddr) -> SocketAddr {
    let any = if peer.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    SocketAddr::new(any, 0)
}

/// Sends `question` until `take` takes an answer.
fn ask<T>(
    service: SocketAddr,
    patience: Duration,
    question: &ResolverMessage,
    key: Option<&ResolveKey>,
    take: impl Fn(ResolverMessage) -> Option<T>,
) -> Result<T, ResolveError> {
    let silent = || ResolveError::Silent { service, waited: patience };
    let begun = Instant::now();
    let socket = UdpSocket::bind(any_like(service)).map_err(failed("a UDP socket"))?;
    socket.connect(service).map_err(failed(service.to_string()))?;
    let mut bytes = Vec::new();
    question.encode(key, &mut bytes);
    let mut wait = FIRST_WAIT;
    let mut answer = [0; paceline_icn::wire::MAX_MESSAGE];
    while begun.elapsed() < patience {
        match socket.send(&bytes) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            result => drop(result.map_err(failed(service.to_string()))?),
        }
        let until = Instant::now() + wait.min(patience.saturating_sub(begun.elapsed()));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left)).map_err(failed("a UDP socket"))?;
            match socket.recv(&mut answer) {
                Ok(length) => {
                    // What is not an answer of ours came from another host.
                    if let Some(taken) = ResolverMessage::decode(&answer[..length], None).ok().and_then(&take) {
                        return Ok(taken);
                    }
                }
                // No program listens there yet: ask again later, not at once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::thread::sleep(left);
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(service.to_string())(source).into()),
            }
        }
        wait *= 2;
    }
    Err(silent())
}

/// Microseconds since 1970.
fn unix_us() -> u64 {
    since_1970().as_micros().try_into().unwrap_or(u64::MAX)
}

/// The time by the wall's clock; 1970 where it stands before that.
pub(crate) fn since_1970() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// A number that no one can guess.
pub(crate) fn draw() -> io::Result<u64> {
    paceline_udp::random().map(u64::from_be_bytes)
}

fn random() -> Result<u64, ResolveError> {
    Ok(draw().map_err(failed("random bytes"))?)
}
