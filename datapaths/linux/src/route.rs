//! Where packets to an address leave, and how long they may be: what the kernel would do, without a packet.
//!
//! Source: rtnetlink(7); Linux `include/uapi/linux/{rtnetlink,if_link}.h`, `net/ipv6/route.c` (inet6_rtm_getroute).

use std::io;
use std::net::Ipv6Addr;

use nix::sys::socket::AddressFamily;

use crate::layout::u32_at;
use crate::netlink::{Netlink, Protocol, attribute, text, to_attribute};

/// `RTM_GETLINK`, `RTM_GETROUTE`.
const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
/// Bytes of `struct rtmsg` and of `struct ifinfomsg`.
const ROUTE: usize = 12;
const LINK: usize = 16;
/// `RTA_DST`, `RTA_OIF`, `RTA_METRICS`, and `RTAX_MTU` in that.
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
const METRICS: u16 = 8;
const MTU: u16 = 2;
/// `IFLA_IFNAME`, `IFLA_MTU`.
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;

/// The way of packets out of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingRoute {
    /// The interface.
    pub interface: String,
    /// Its MTU.
    pub link_mtu: u32,
    /// The smaller one of the route, which an administrator or a router's "packet too big" has set; `None`: the interface's.
    pub route_mtu: Option<u32>,
}

impl LeavingRoute {
    /// Longest packet.
    pub fn mtu(&self) -> u32 {
        self.route_mtu.unwrap_or(self.link_mtu)
    }

    /// Of the calling thread's network namespace, to this address.
    ///
    /// # Errors
    /// What the kernel says, such as [`io::ErrorKind::NetworkUnreachable`].
    pub fn to(address: Ipv6Addr) -> io::Result<Self> {
        let mut netlink = Netlink::open(Protocol::NetlinkRoute)?;
        let mut request = vec![0; ROUTE];
        (request[0], request[1]) = (AddressFamily::Inet6 as u8, 128);
        request.extend(to_attribute(DESTINATION, &address.octets()));
        let mut found = None;
        netlink.request(GET_ROUTE, &request, |message| {
            let attributes = message.get(ROUTE..).unwrap_or_default();
            let metrics = attribute(attributes, METRICS).unwrap_or_default();
            let mtu = attribute(metrics, MTU).and_then(|value| u32_at(value, 0));
            found = attribute(attributes, INTERFACE).and_then(|value| u32_at(value, 0)).map(|index| (index, mtu));
        })?;
        let (index, route_mtu) = found.ok_or(io::ErrorKind::NetworkUnreachable)?;
        let mut request = vec![0; LINK];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut link = None;
        netlink.request(GET_LINK, &request, |message| {
            let attributes = message.get(LINK..).unwrap_or_default();
            let mtu = attribute(attributes, LINK_MTU).and_then(|value| u32_at(value, 0));
            link = attribute(attributes, LINK_NAME).map(text).zip(mtu);
        })?;
        let (interface, link_mtu) = link.ok_or(io::ErrorKind::NetworkUnreachable)?;
        Ok(Self { interface, link_mtu, route_mtu: route_mtu.filter(|mtu| (1..link_mtu).contains(mtu)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_reached_through_its_loopback_interface() {
        match LeavingRoute::to(Ipv6Addr::LOCALHOST) {
            Ok(route) => assert!(route.interface == "lo" && route.mtu() >= 1280, "{route:?}"),
            Err(error) => {
                eprintln!("skipped: this_host_is_reached_through_its_loopback_interface: no IPv6: {error}");
            }
        }
    }
}
