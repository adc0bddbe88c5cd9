//! Interfaces, addresses and routes of the calling thread's network namespace, by rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use futures_util::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags};
use rtnetlink::{Error, Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::namespace::{Namespace, NamespaceError};

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

    /// Sets an interface up.
    pub fn up(&self, name: &str) -> Result<(), NamespaceError> {
        self.run(|| format!("set {name} up"), async {
            let index = self.index(name).await?;
            self.handle.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await
        })
    }

    /// Gives an interface an address; the addresses of its prefix are then behind it.
    pub fn add_address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<(), NamespaceError> {
        self.run(|| format!("give {name} the address {address}"), async {
            let index = self.index(name).await?;
            let mut request = self.handle.address().add(index, address, prefix);
            if address.is_ipv6() {
                // Nobody else is on the link: the address is in use at once.
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

    /// Every address, or those of one interface, with their prefix lengths.
    pub fn addresses(&self, name: Option<&str>) -> Result<Vec<(IpAddr, u8)>, NamespaceError> {
        self.run(
            || "list the addresses".to_owned(),
            async {
                let mut request = self.handle.address().get();
                if let Some(name) = name {
                    request = request.set_link_index_filter(self.index(name).await?);
                }
                let messages: Vec<_> = request.execute().try_collect().await?;
                let address = |attribute: &AddressAttribute| match attribute {
                    AddressAttribute::Address(address) => Some(*address),
                    _ => None,
                };
                let found = messages.iter().filter_map(|message| {
                    Some((message.attributes.iter().find_map(address)?, message.header.prefix_len))
                });
                Ok(found.collect())
            },
        )
    }

    /// The names of all interfaces.
    pub fn names(&self) -> Result<Vec<String>, NamespaceError> {
        use rtnetlink::packet_route::link::LinkAttribute;
        self.run(
            || "list the interfaces".to_owned(),
            async {
                let messages: Vec<_> = self.handle.link().get().execute().try_collect().await?;
                let name = |attribute: &LinkAttribute| match attribute {
                    LinkAttribute::IfName(name) => Some(name.clone()),
                    _ => None,
                };
                Ok(messages.iter().filter_map(|message| message.attributes.iter().find_map(name)).collect())
            },
        )
    }

    /// Makes a veth pair: `name` here, `peer` in another namespace.
    pub fn veth(&self, name: &str, peer: &str, other: &Namespace) -> Result<(), NamespaceError> {
        self.run(|| format!("make the veth pair {name}, {peer}"), async {
            self.handle.link().add(LinkVeth::new(name, peer).build()).execute().await?;
            let index = self.index(peer).await?;
            let there = other.as_fd().as_raw_fd();
            self.handle.link().set(LinkUnspec::new_with_index(index).setns_by_fd(there).build()).execute().await
        })
    }
}
