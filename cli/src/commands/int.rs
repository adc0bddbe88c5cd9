//! `paceline int`: in-band telemetry.

#[cfg(feature = "ebpf")]
mod ebpf;
mod nodes;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::Subcommand;

use super::live;

/// In-band telemetry: hops write what they see into packets of TCP over IPv6, the receiving host reports it, the sending host's TCP acts on it.
///
/// Reports travel over a bus: of this machine, which needs nothing, or a NATS server, which needs keys. Takes root, Linux 6.2 or newer,
/// and a paceline built with the feature ebpf. Everything ends with the command that began it.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The sending host: put a header into the packets of chosen flows, with room for the hops.
    Source(nodes::SourceArgs),
    /// A hop: write what an interface's queue looks like into headers that leave through it.
    Transit(nodes::TransitArgs),
    /// The receiving host: take headers out of what arrives, and report what they say.
    Sink(nodes::SinkArgs),
    /// Serve the flows that this machine sends: reports of their sinks become records that controllers in the kernel read.
    Agent(AgentArgs),
    /// Watch flows, hops and the ends of the bus.
    Watch(WatchArgs),
    /// Say of a path which hops report, which are silent, which clocks differ, and what would change if telemetry were on.
    Path(PathArgs),
    /// Make a publisher's key. Copy it to where its messages are read.
    Key(KeyArgs),
}

/// Which bus, and who this end is.
#[derive(clap::Args)]
pub(crate) struct BusArgs {
    /// local, local:/FOLDER, or nats://HOST:PORT (tls:// with a certificate). Without it the variable `PACELINE_BUS` is read, which other
    /// users cannot see: nats://USER:PASSWORD@HOST:PORT. local where neither is given.
    #[arg(long, value_name = "ADDRESS")]
    bus: Option<String>,
    /// The folder of keys, one NAME.key for each publisher; a NATS server needs it. Without it the local bus believes every process
    /// of this user and of root.
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// This end's name among publishers; this machine's by default.
    #[arg(long = "as", value_name = "NAME")]
    publisher: Option<String>,
    /// Deployments that share a server have domains of their own.
    #[arg(long, default_value = "default", value_name = "NAME")]
    domain: String,
    /// How old a message may be, by the clocks of both ends, such as 500ms.
    #[arg(long, default_value = "1s", value_name = "TIME")]
    max_age: paceline_cc::Nanos,
}

#[derive(clap::Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    bus: BusArgs,
    /// Numbers for Prometheus at this address, such as 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Counters as a JSON object, each second and at the end.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    live: live::Live,
    #[command(flatten)]
    bus: BusArgs,
    /// Hops instead of flows.
    #[arg(long, conflicts_with = "ends")]
    hops: bool,
    /// The ends of the bus instead of flows.
    #[arg(long)]
    ends: bool,
    /// Numbers for Prometheus at this address, such as 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// The same numbers to an OpenTelemetry collector each ten seconds, such as <http://127.0.0.1:4318>.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct PathArgs {
    /// The receiving host, such as `2001:db8::2`; without it all paths of which reports come, and nothing of a source.
    #[arg(value_name = "ADDRESS")]
    to: Option<Ipv6Addr>,
    #[command(flatten)]
    bus: BusArgs,
    #[command(flatten)]
    rules: nodes::RuleArgs,
    /// Octets of packets of which the header's share is said.
    #[arg(long, value_name = "OCTETS", value_delimiter = ',', default_value = "1500,1280,576")]
    packets: Vec<u32>,
    /// How long reports are listened to; how clocks drift is known after 20 s.
    #[arg(long, default_value = "1200ms", value_name = "TIME")]
    listen: paceline_cc::Nanos,
    /// A JSON object instead of lines.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct KeyArgs {
    /// The publisher: letters, digits, - and _.
    name: String,
    /// What it may publish; may be given again.
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = ["sink", "hop", "controller", "agent"])]
    roles: Vec<String>,
    /// The folder, which is made where there is none.
    #[arg(long, value_name = "FOLDER", default_value = "/etc/paceline/keys")]
    keys: PathBuf,
    /// Print where it is as a JSON object.
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Whether it handles signals itself.
    pub(crate) fn moves(&self) -> bool {
        !matches!(self, Self::Watch(_) | Self::Path(_) | Self::Key(_))
    }
}

#[cfg(feature = "ebpf")]
pub(crate) use ebpf::run;

#[cfg(not(feature = "ebpf"))]
pub(crate) fn run(_: &Command) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("int: this paceline has no eBPF; {}", super::kernel::BUILD)
}
