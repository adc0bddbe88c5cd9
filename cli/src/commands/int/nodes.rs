//! Options of the nodes of telemetry.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use clap::ValueEnum;
use paceline_telemetry::RecordProfile;

use super::BusArgs;
use crate::commands::{BadValue, count};

/// What all three have.
#[derive(clap::Args)]
pub(crate) struct NodeArgs {
    /// The interface, in this network namespace.
    #[arg(long, value_name = "NAME")]
    pub(super) interface: String,
    /// The clock of the times in headers, the same at all nodes: of this one machine, or TAI where machines are synchronised.
    #[arg(long, value_enum, default_value_t = ClockName::Machine)]
    pub(super) clock: ClockName,
    /// Counters as a JSON object, each second and at the end; of a sink, a JSON object for each report, and counters at the end.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ClockName {
    Machine,
    Tai,
}

#[derive(clap::Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    #[command(flatten)]
    pub(super) rules: RuleArgs,
    /// Headers even where no report comes back. By default one packet asks whether they arrive, again after 30 s, 60 s, ... 8 min.
    #[arg(long)]
    pub(super) always: bool,
}

/// Which packets have a header, and what is in it.
#[derive(clap::Args)]
pub(crate) struct RuleArgs {
    /// Flows with one of these ports at either end, such as 5201,8080; all by default.
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(super) ports: Vec<u16>,
    /// Flows with one of these addresses or prefixes at either end, such as 2001:db8::/32; all by default.
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = prefix)]
    pub(super) addresses: Vec<(Ipv6Addr, u8)>,
    /// Flows of the programs in this cgroup (version 2, its folder); all by default.
    #[arg(long, value_name = "FOLDER")]
    pub(super) cgroup: Option<PathBuf>,
    /// Flows of UDP as well, such as QUIC's, where their datagrams leave room in the MTU.
    #[arg(long)]
    pub(super) udp: bool,
    /// What hops write: room, flows and rate of their queue (lean), also when (timed), also the flow's drops (counted), everything (full); or
    /// one word of four octets for all hops, which each compares and replaces (word).
    #[arg(long, value_name = "PROFILE", default_value = "lean", value_parser = profile)]
    pub(super) profile: RecordProfile,
    /// Every n-th header of a flow is full, whatever the others are; 0: none.
    #[arg(long, value_name = "N", default_value = "8", value_parser = count::<u32>)]
    pub(super) full_every: u32,
    /// Data rates of links beyond 6.5 Gbit/s (namespace 0x8002); nodes that do not know it leave such headers as they are.
    #[arg(long)]
    pub(super) wide: bool,
    /// Hops that there is room for.
    #[arg(long, value_name = "N", default_value = "2", value_parser = count::<u8>)]
    pub(super) hops: u8,
    /// A header on every n-th buffer of a flow; the others are numbered too, so that each loss is counted.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count::<u32>)]
    pub(super) one_in: u32,
    /// No header sooner than this after the last of its flow, such as 1ms.
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    pub(super) every: paceline_cc::Nanos,
}

#[derive(clap::Args)]
pub(crate) struct TransitArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// The node's number, below 2^24; by default the last three octets of the interface's hardware address.
    #[arg(long = "node", value_name = "NUMBER", value_parser = count::<u32>)]
    pub(super) number: Option<u32>,
    /// The queue's limit, such as 60p (packets) or 90000 (octets); by default what the kernel says of it.
    #[arg(long, value_name = "LIMIT", value_parser = limit)]
    pub(super) limit: Option<QueueLimit>,
    /// The link's data rate, such as 100Mbit/s, which full headers, the word and reports say; unknown by default.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<paceline_cc::Rate>,
    #[command(flatten)]
    pub(super) bus: BusArgs,
}

#[derive(clap::Args)]
pub(crate) struct SinkArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// Sender and receiver have the clock in common, as on one machine: delays are absolute.
    #[arg(long)]
    pub(super) synced: bool,
    /// Read headers of flows that this machine forwards too, at the edge of the domain; what is forged of them cannot be told.
    #[arg(long)]
    pub(super) forwarded: bool,
    /// Read headers only in packets whose hop limit is at least N: with 255 at the senders, 255 less the routers on the way.
    #[arg(long, value_name = "N", default_value = "0", value_parser = count::<u8>)]
    pub(super) hop_limit: u8,
    /// Read headers of UDP too, whose datagrams do not say whether they are forged: with --hop-limit, or inside a domain that is guarded.
    #[arg(long)]
    pub(super) udp: bool,
    #[command(flatten)]
    pub(super) bus: BusArgs,
}

/// A queue's limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum QueueLimit {
    Packets(u32),
    Octets(u64),
}

fn limit(text: &str) -> Result<QueueLimit, BadValue> {
    let wrong = || BadValue::new("a limit", "packets such as 60p, or octets such as 90000");
    match text.strip_suffix('p') {
        Some(packets) => packets.parse().map(QueueLimit::Packets).map_err(|_| wrong()),
        None => text.parse().map(QueueLimit::Octets).map_err(|_| wrong()),
    }
}

fn profile(text: &str) -> Result<RecordProfile, BadValue> {
    let found = RecordProfile::ALL.into_iter().find(|profile| profile.name() == text);
    found.ok_or_else(|| BadValue::new("a profile", "lean, timed, counted, full or word"))
}

fn prefix(text: &str) -> Result<(Ipv6Addr, u8), BadValue> {
    let (address, length) = text.split_once('/').unwrap_or((text, "128"));
    let parsed = address.parse().ok().zip(length.parse().ok().filter(|length| *length <= 128));
    parsed.ok_or_else(|| BadValue::new("an IPv6 address or prefix", "one such as 2001:db8::/32"))
}
