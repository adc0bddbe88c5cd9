//! What a router announces to a resolver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use paceline_icn::resolve::ResolveKey;
use paceline_named::resolver::{Announcer, Announcing, PORT, local_address_towards};

use super::super::udp;
use super::places::{ROUTER_PORT, address};
use crate::complaint;

/// Options of the routers.
#[derive(clap::Args)]
pub(super) struct Announce {
    /// Announce what the store has to this resolver, as HOST or HOST:PORT.
    #[arg(long, value_name = "ADDR", requires = "announce_key")]
    announce: Option<String>,
    /// The key that the resolver and its routers share: a file with 64 hexadecimal digits that no other user may read.
    #[arg(long, value_name = "FILE", requires = "announce")]
    announce_key: Option<PathBuf>,
    /// Announce this address, as HOST or HOST:PORT; without it the one that --listen says, or from which the resolver is reached.
    #[arg(long, value_name = "ADDR", requires = "announce")]
    announce_address: Option<String>,
}

impl Announce {
    /// Begins to announce a router that listens at `listens`, if that is wanted.
    pub(super) fn start(&self, store: &Path, listens: SocketAddr) -> anyhow::Result<Option<Announcer>> {
        let (Some(service), Some(key)) = (&self.announce, &self.announce_key) else { return Ok(None) };
        let service = address("--announce", service, PORT)?;
        let address = match &self.announce_address {
            Some(text) => address("--announce-address", text, ROUTER_PORT)?,
            None if listens.ip().is_unspecified() => {
                let ip = local_address_towards(service).with_context(|| format!("--announce {service}"))?;
                SocketAddr::new(ip, listens.port())
            }
            None => listens,
        };
        let key = ResolveKey::new(&udp::secret(key)?);
        let what = Announcing { store: store.to_owned(), address, service, key };
        let announcer = Announcer::start(what, |error| complaint::print(&error.to_string())).context("--announce")?;
        Ok(Some(announcer))
    }
}
