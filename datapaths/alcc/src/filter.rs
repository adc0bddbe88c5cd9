//! Which connections are taken into care, by port and by peer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use paceline_cc::foreign::clipped;

use crate::options::{OptionProblem, OptionsError, Variable};

/// Ports, at either end: `80,443,8000-8999`.
pub const PORTS: &str = "PACELINE_PORTS";
/// Peers: addresses and prefixes, `10.0.0.0/8,2001:db8::/32,192.0.2.1`.
pub const PEERS: &str = "PACELINE_PEERS";

/// What a program gives.
pub const VARIABLES: [Variable; 2] = [
    Variable {
        name: PORTS,
        option: "ports",
        value: "LIST",
        default: "all",
        what: "Connections with these ports at either end, such as `80,443,8000-8999`.",
    },
    Variable {
        name: PEERS,
        option: "peers",
        value: "LIST",
        default: "all",
        what: "Connections with these peers, such as `10.0.0.0/8,2001:db8::/32`.",
    },
];

/// Connections by port and by peer. Nothing given means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Connections with one of these ports at either end; all when empty.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Connections with these peers; all when empty.
    pub peers: Vec<Prefix>,
}

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Filter {
    /// Reads [`PORTS`] and [`PEERS`] of this process.
    ///
    /// # Errors
    /// [`OptionsError`] for the first part of a list that is not what it should be.
    pub fn from_env() -> Result<Self, OptionsError> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// As [`Filter::from_env`], from any source of variables.
    ///
    /// # Errors
    /// [`OptionsError`] for the first part of a list that is not what it should be.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let list = |name| var(name).unwrap_or_default();
        let parts = |text: &str| -> Vec<String> {
            text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
        };
        let port = |part: String| ports(&part).ok_or_else(|| OptionProblem::Port(clipped(&part)).of(PORTS));
        let peer = |part: String| part.parse().map_err(|()| OptionProblem::Peer(clipped(&part)).of(PEERS));
        let ports = parts(&list(PORTS)).into_iter().map(port);
        let peers = parts(&list(PEERS)).into_iter().map(peer);
        Ok(Self { ports: ports.collect::<Result<_, _>>()?, peers: peers.collect::<Result<_, _>>()? })
    }

    /// The variables that make a program's [`Filter::from_env`] answer this filter.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        let range = |ports: &RangeInclusive<u16>| match (ports.start(), ports.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}-{end}"),
        };
        let ports: Vec<String> = self.ports.iter().map(range).collect();
        let peers: Vec<String> = self.peers.iter().map(ToString::to_string).collect();
        let lists = [(PORTS, ports.join(",")), (PEERS, peers.join(","))];
        lists.into_iter().filter(|(_, list)| !list.is_empty()).collect()
    }

    /// Whether a connection between two ends is taken.
    pub fn takes(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let port = |port| self.ports.iter().any(|ports| ports.contains(&port));
        (self.ports.is_empty() || port(local.port()) || port(peer.port()))
            && (self.peers.is_empty() || self.peers.iter().any(|prefix| prefix.contains(peer.ip())))
    }
}

/// `80` or `8000-8999`.
fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let port = |text: &str| text.trim().parse().ok().filter(|port: &u16| *port > 0);
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    let (start, end) = (port(start)?, port(end)?);
    (start <= end).then_some(start..=end)
}

impl Prefix {
    /// Whether an address is one of these. An IPv4 address mapped into IPv6 is taken for what it maps.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (ours.to_bits() ^ theirs.to_bits()).leading_zeros() >= self.length.into()
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                (ours.to_bits() ^ theirs.to_bits()).leading_zeros() >= self.length.into()
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(bits), str::parse).map_err(|_| ())?;
        if length > bits { Err(()) } else { Ok(Self { address, length }) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(ports: &str, peers: &str) -> Result<Filter, OptionsError> {
        Filter::from_vars(|name| Some(if name == PORTS { ports } else { peers }.to_owned()))
    }

    fn takes(filter: &Filter, local: &str, peer: &str) -> bool {
        filter.takes(local.parse().unwrap(), peer.parse().unwrap())
    }

    #[test]
    fn nothing_given_takes_all() {
        assert!(takes(&filter("", "").unwrap(), "10.0.0.1:80", "192.0.2.1:5000"));
    }

    #[test]
    fn ports_are_of_either_end() {
        let filter = filter("80, 8000-8001", "").unwrap();
        assert!(takes(&filter, "10.0.0.1:80", "192.0.2.1:5000"));
        assert!(takes(&filter, "10.0.0.1:5000", "192.0.2.1:8001"));
        assert!(!takes(&filter, "10.0.0.1:81", "192.0.2.1:8002"));
    }

    #[test]
    fn peers_are_addresses_and_prefixes() {
        let filter = filter("", "10.0.0.0/8,2001:db8::/32,192.0.2.1").unwrap();
        assert!(takes(&filter, "10.0.0.1:80", "10.255.0.1:1"));
        assert!(takes(&filter, "[::1]:80", "[2001:db8::1]:1"));
        assert!(takes(&filter, "[::1]:80", "[::ffff:10.1.1.1]:1"));
        assert!(takes(&filter, "10.0.0.1:80", "192.0.2.1:1"));
        assert!(!takes(&filter, "10.0.0.1:80", "192.0.2.2:1"));
        assert!(!takes(&filter, "[::1]:80", "[2001:db9::1]:1"));
    }

    #[test]
    fn what_is_none_is_said() {
        for port in ["http", "0", "65536", "9-8", "80-", "-1"] {
            assert_eq!(filter(port, ""), Err(OptionProblem::Port(port.to_owned()).of(PORTS)));
        }
        for peer in ["host", "10.0.0.0/33", "::/129", "10.0.0.0/x"] {
            assert_eq!(filter("", peer), Err(OptionProblem::Peer(peer.to_owned()).of(PEERS)));
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let one = filter("80,8000-8001", "10.0.0.0/8,::1").unwrap();
        let vars = one.to_env();
        let read = Filter::from_vars(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone()));
        assert_eq!(read, Ok(one));
        assert_eq!(Filter::default().to_env(), []);
    }
}
