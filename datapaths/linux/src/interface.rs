//! Interfaces, addresses and routes of the calling thread's network namespace, by rtnetlink(7).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric};
use rtnetlink::{Error, Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::namespace::{Namespace, NamespaceError};

/// How long an interface may take until it carries packets. 20 s: our choice, because 2 s were too few on a machine
/// with several times more to do than processors, and longer waits are reported.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks whether it does: from about what it takes on an idle machine, doubled up to what is not noticed, because
/// each look takes the lock that the kernel needs to get there (our choice).
const PAUSES: Range<Duration> = Duration::from_millis(1)..Duration::from_millis(50);

/// The name of the loopback interface.
pub const LOOPBACK: &str = "lo";

/// The interfaces of the namespace in which it was opened.
pub struct Interfaces {
    runtime: Runtime,
    handle: Handle,
}

impl Interfaces {
    /// Those of the calling thread's namespace.
    pub fn open() -> Result<Self, NamespaceError> {
        let opened = || {
            let runtime = Builder::new_current_thread().enable_io().build()?;
            let guard = runtime.enter();
            let (connection, handle, _) = rtnetlink::new_connection()?;
            drop(guard);
            runtime.spawn(connection);
            Ok(Self { runtime, handle })
        };
        opened().map_err(|error: io::Error| NamespaceError::system("open a netlink socket", error))
    }

    fn run<T>(
        &self,
        step: impl FnOnce() -> String,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, NamespaceError> {
        self.runtime.block_on(work).map_err(|error| {
            let source = match error {
                Error::NetlinkError(message) => message.to_io(),
                other => io::Error::other(other),
            };
            NamespaceError::system(step(), source)
        })
    }

    async fn index(&self, name: &str) -> Result<u32, Error> {
        let link = self.handle.link().get().match_name(name.to_owned()).execute().try_next().await?;
        link.map(|link| link.header.index).ok_or(Error::RequestFailed)
    }

    /// Whether this process may change interfaces here.
    pub fn may_change(&self) -> bool {
        // The kernel asks for the privilege before it looks for the interface, and no interface has this number.
        const NONE: u32 = i32::MAX.cast_unsigned();
        let removed = self.run(String::new, self.handle.link().del(NONE).execute());
        !matches!(removed, Err(NamespaceError::System { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied)
    }

    fn set(
        &self,
        step: impl FnOnce() -> String,
        name: &str,
        how: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<(), NamespaceError> {
        self.run(step, async {
            let link = LinkUnspec::new_with_index(self.index(name).await?);
            self.handle.link().set(how(link).build()).execute().await
        })
    }

    /// Sets an interface up.
    pub fn up(&self, name: &str) -> Result<(), NamespaceError> {
        self.set(|| format!("set {name} up"), name, LinkMessageBuilder::up)
    }

    /// Removes an interface.
    pub fn remove(&self, name: &str) -> Result<(), NamespaceError> {
        self.run(|| format!("remove {name}"), async {
            let index = self.index(name).await?;
            self.handle.link().del(index).execute().await
        })
    }

    /// Keeps the kernel and other programs from talking over an interface of their own accord: no multicast, and no address
    /// but those given to it. Before it is set up.
    pub fn quiet(&self, name: &str) -> Result<(), NamespaceError> {
        // Not there without IPv6, and then not needed.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "1");
        self.set(|| format!("set up {name}"), name, |link| link.multicast(false))
    }

    /// Makes an interface of a veth pair a wire to one host: that is its address on the link, and it does not ask for those of
    /// others. Where both ends of a pair have the same address, each is the other's host.
    pub fn to_one_host(&self, name: &str, host: [u8; 6]) -> Result<(), NamespaceError> {
        self.set(|| format!("join {name} to one host"), name, |link| link.address(host.to_vec()).arp(false))
    }

    /// Lets the kernel keep this many packets that an interface has not taken yet.
    pub fn backlog(&self, name: &str, packets: u32) -> Result<(), NamespaceError> {
        self.set(|| format!("set the backlog of {name}"), name, |link| link.txqueuelen(packets))
    }

    /// TCP hands each packet alone to an interface, and not up to 64 kB at once: for what looks at each packet before it is
    /// sent. Sockets that connect later.
    pub fn one_by_one(&self, name: &str) -> Result<(), NamespaceError> {
        let alone = LinkAttribute::GsoMaxSegs(1);
        self.set(|| format!("let {name} take packets one by one"), name, |link| link.append_extra_attribute(alone))
    }

    /// Waits until an interface that was set up, and what it is joined to, carry packets: the kernel sees to it a moment
    /// later, and on a machine whose processors are all taken some seconds later.
    ///
    /// # Errors
    /// When it does not within 20 s: [`io::ErrorKind::TimedOut`].
    pub fn wait_until_running(name: &str) -> Result<(), NamespaceError> {
        Self::wait_until_running_for(name, PATIENCE)
    }

    fn wait_until_running_for(name: &str, patience: Duration) -> Result<(), NamespaceError> {
        let running = || {
            let running = |found: InterfaceAddress| {
                found.interface_name == name && found.flags.contains(InterfaceFlags::IFF_RUNNING)
            };
            Ok::<_, nix::Error>(getifaddrs()?.any(running))
        };
        let step = || format!("wait for {name}");
        let start = Instant::now();
        let mut pause = PAUSES.start;
        while !running().map_err(|error| NamespaceError::system(step(), error))? {
            if start.elapsed() >= patience {
                let reason = format!("it is set up, but carries no packets after {} s", patience.as_secs_f64());
                return Err(NamespaceError::system(step(), io::Error::new(io::ErrorKind::TimedOut, reason)));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.end);
        }
        Ok(())
    }

    /// Gives an interface an address; the addresses of its prefix are then behind it.
    pub fn add_address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<(), NamespaceError> {
        self.run(|| format!("give {name} the address {address}"), async {
            let index = self.index(name).await?;
            let mut request = self.handle.address().add(index, address, prefix);
            if address.is_ipv6() {
                // No other host is on the link: the address is in use at once.
                request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
            }
            request.execute().await
        })
    }

    /// Sends everything that is not elsewhere through an interface, in both families that it has addresses of.
    pub fn default_route(&self, name: &str, ipv6: bool) -> Result<(), NamespaceError> {
        self.run(|| format!("route through {name}"), async {
            let index = self.index(name).await?;
            let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index).build();
            self.handle.route().add(route).execute().await?;
            if ipv6 {
                let route = RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index).build();
                self.handle.route().add(route).execute().await?;
            }
            Ok(())
        })
    }

    /// Sends what is for this host through an interface. TCP connections to it have this congestion control, whatever the kernel's
    /// default is (`ip route ... congctl NAME`).
    pub fn host_route(&self, name: &str, host: IpAddr, congestion: Option<&str>) -> Result<(), NamespaceError> {
        let step = || match congestion {
            Some(congestion) => format!("route to {host} through {name} with the congestion control {congestion}"),
            None => format!("route to {host} through {name}"),
        };
        self.run(step, async {
            let index = self.index(name).await?;
            let mut route = match host {
                IpAddr::V4(host) => {
                    RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(host, 32).output_interface(index).build()
                }
                IpAddr::V6(host) => {
                    RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(host, 128).output_interface(index).build()
                }
            };
            if let Some(congestion) = congestion {
                let metric = RouteMetric::CcAlgo(congestion.to_owned());
                route.attributes.push(RouteAttribute::Metrics(vec![metric]));
            }
            self.handle.route().add(route).execute().await
        })
    }

    /// Every address of this host, or those of one interface, with their prefix lengths.
    pub fn addresses(&self, name: Option<&str>) -> Result<Vec<(IpAddr, u8)>, NamespaceError> {
        self.run(|| "list the addresses".to_owned(), async {
            let mut request = self.handle.address().get();
            if let Some(name) = name {
                request = request.set_link_index_filter(self.index(name).await?);
            }
            let messages: Vec<_> = request.execute().try_collect().await?;
            let own = |message: &AddressMessage| {
                // With a peer, `Address` is the peer's.
                let (mut local, mut only) = (None, None);
                for attribute in &message.attributes {
                    match attribute {
                        AddressAttribute::Local(address) => local = Some(*address),
                        AddressAttribute::Address(address) => only = Some(*address),
                        _ => {}
                    }
                }
                Some((local.or(only)?, message.header.prefix_len))
            };
            let found = messages.iter().filter_map(own);
            Ok(found.collect())
        })
    }

    /// The largest packet that an interface takes, in bytes from its IP header on.
    pub fn mtu(&self, name: &str) -> Result<u32, NamespaceError> {
        self.run(|| format!("look at {name}"), async {
            let link = self.handle.link().get().match_name(name.to_owned()).execute().try_next().await?;
            let mtu = |attribute: &LinkAttribute| match attribute {
                LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            };
            link.and_then(|link| link.attributes.iter().find_map(mtu)).ok_or(Error::RequestFailed)
        })
    }

    /// The names of all interfaces.
    pub fn names(&self) -> Result<Vec<String>, NamespaceError> {
        self.run(|| "list the interfaces".to_owned(), async {
            let messages: Vec<_> = self.handle.link().get().execute().try_collect().await?;
            let name = |attribute: &LinkAttribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            };
            Ok(messages.iter().filter_map(|message| message.attributes.iter().find_map(name)).collect())
        })
    }

    /// Makes a veth pair: `name` here, `peer` in another namespace. With a `host`, `name` is a wire to one host: that is its
    /// address on the link, and it does not ask for those of others.
    pub fn veth(&self, name: &str, host: Option<[u8; 6]>, peer: &str, other: &Namespace) -> Result<(), NamespaceError> {
        self.run(|| format!("make the veth pair {name}, {peer}"), async {
            // The other half never shows up here.
            let there = LinkUnspec::new_with_name(peer).setns_by_fd(other.as_fd().as_raw_fd()).build();
            let mut pair = LinkVeth::new(name, peer).set_info_data(InfoData::Veth(InfoVeth::Peer(there)));
            if let Some(host) = host {
                pair = pair.address(host.to_vec()).arp(false);
            }
            self.handle.link().add(pair.build()).execute().await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::namespace::needs_root;

    #[test]
    fn an_interface_whose_other_half_is_down_is_waited_for_and_then_named() {
        if needs_root("an_interface_whose_other_half_is_down_is_waited_for_and_then_named") {
            return;
        }
        let (here, there) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let waited = here.enter(|| {
            let interfaces = Interfaces::open()?;
            interfaces.veth("here", None, "there", &there)?;
            interfaces.up("here")?;
            Interfaces::wait_until_running_for("here", Duration::from_millis(100))
        });
        let error = waited.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "cannot wait for here: it is set up, but carries no packets after 0.1 s");
        there.enter(|| Interfaces::open()?.up("there")).unwrap().unwrap();
        here.enter(|| Interfaces::wait_until_running("here")).unwrap().unwrap();
    }

    #[test]
    fn addresses_are_those_of_this_host_and_not_of_its_peers() {
        if needs_root("addresses_are_those_of_this_host_and_not_of_its_peers") {
            return;
        }
        let host = Namespace::create().unwrap();
        let found = host.enter(|| {
            for words in ["10.9.0.1 peer 10.9.0.2 dev lo", "fd09::1 peer fd09::2 dev lo"] {
                let ip = Command::new("ip").args(["address", "add"]).args(words.split(' ')).status();
                assert!(ip.expect("iproute2").success(), "{words}");
            }
            Interfaces::open()?.addresses(Some(LOOPBACK))
        });
        let found = found.unwrap().unwrap();
        for (own, peer) in [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")] {
            let has = |address: &str| found.iter().any(|(found, _)| *found == address.parse::<IpAddr>().unwrap());
            assert!(has(own) && !has(peer), "{found:?}");
        }
    }
}
