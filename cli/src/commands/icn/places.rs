//! Where objects are: the options of the commands that ask for them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::anyhow;
#[cfg(not(feature = "dns"))]
use anyhow::bail;
use paceline_cc::Spec;
use paceline_cc::datapath::ICN;
use paceline_lab::input;
use paceline_named::resolver::{self, Whereabouts};

use super::super::span;

/// Where a router listens when nothing is said (our choice: behind `paceline serve`, 4870).
pub(crate) const ROUTER_PORT: u16 = 4871;

/// Whom to ask.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Places {
    /// Routers that may have it, as HOST or HOST:PORT, with commas between; all of them at once.
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',')]
    from: Vec<String>,
    /// The resolver that knows where it is, as HOST or HOST:PORT.
    #[arg(long, value_name = "ADDR")]
    resolver: Option<String>,
    /// The zone of DNS whose TXT records say where it is, and, behind an @, the server to ask instead of the system's.
    #[arg(long, value_name = "ZONE[@ADDR]")]
    dns: Option<String>,
}

impl Places {
    pub(crate) fn whereabouts(&self) -> anyhow::Result<Whereabouts> {
        #[cfg(not(feature = "dns"))]
        if let Some(dns) = &self.dns {
            bail!("--dns {dns}: this paceline was built without DNS; build it with --features dns");
        }
        #[cfg(feature = "dns")]
        if let Some(dns) = &self.dns {
            let (zone, server) = dns.split_once('@').map_or((dns.as_str(), None), |(zone, at)| (zone, Some(at)));
            let server = server.map(|server| address("--dns", server, 53)).transpose()?;
            return Ok(Whereabouts::Zone(resolver::Zone { zone: zone.to_owned(), server }));
        }
        match &self.resolver {
            Some(service) => Ok(Whereabouts::Service(address("--resolver", service, resolver::PORT)?)),
            None => {
                let places = self.from.iter().map(|place| address("--from", place, ROUTER_PORT));
                Ok(Whereabouts::Known(places.collect::<anyhow::Result<_>>()?))
            }
        }
    }
}

/// How to ask.
#[derive(clap::Args)]
pub(crate) struct Asking {
    /// The controller of each source (paceline controllers), such as copa:delta=0.1.
    #[arg(long, value_name = "CONTROLLER", default_value = "bbr")]
    cc: String,
    /// Give up when nothing has come for this long, or for twice as long once something has.
    #[arg(long, value_name = "S", default_value = "30", value_parser = span, allow_negative_numbers = true)]
    timeout: f64,
}

impl Asking {
    pub(crate) fn controller(&self) -> anyhow::Result<Spec> {
        let spec = input::controller(&self.cc).map_err(|error| anyhow!("--cc {}: {error}", self.cc))?;
        ICN.carries(&spec).map_err(|misfit| anyhow!("--cc {}: {misfit}", self.cc))?;
        Ok(spec)
    }

    pub(crate) fn patience(&self) -> anyhow::Result<Duration> {
        patience("--timeout", self.timeout)
    }
}

/// A time to wait.
pub(crate) fn patience(option: &str, seconds: f64) -> anyhow::Result<Duration> {
    super::super::udp::seconds(option, seconds).map(|nanos| Duration::from_nanos(nanos.as_nanos()))
}

/// `HOST`, `HOST:PORT` or `[HOST]:PORT`.
pub(crate) fn address(option: &str, text: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let found = text.to_socket_addrs().or_else(|_| (text.trim_matches(['[', ']']), port).to_socket_addrs());
    let found = found.ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| anyhow!("{option} {text}: no such host; give HOST or HOST:PORT, such as 127.0.0.1:{port}"))
}
