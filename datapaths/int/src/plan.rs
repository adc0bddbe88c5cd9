//! What would change if a source were on: computed, and asked of the kernel. Nothing is loaded, sent or changed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use paceline_linux::connections::{Connection, Diagnosis};
use paceline_linux::route::LeavingRoute;
use paceline_telemetry::{RecordProfile, Tuple};
use serde::Serialize;

use crate::interface::Interface;
use crate::source::HEADER_MAX;
use crate::{NodeError, SourceOptions};

/// Octets of the headers of IPv6 and TCP with timestamps.
const HEADERS: u32 = 40 + 20 + 12;
/// Flows that are shown to people.
const SHOWN: usize = 16;

/// What a node takes of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeCost {
    /// Which.
    pub role: &'static str,
    /// Nanoseconds of a packet.
    pub packet_ns: u32,
    /// Nanoseconds of a buffer of segmentation offload.
    pub buffer_ns: u32,
}

/// As docs/results/telemetry.md has them, on the way; a test compares.
pub const COSTS: [NodeCost; 3] = [
    NodeCost { role: "source", packet_ns: 396, buffer_ns: 383 },
    NodeCost { role: "hop", packet_ns: 292, buffer_ns: 261 },
    NodeCost { role: "sink", packet_ns: 605, buffer_ns: 622 },
];

/// A profile on this path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedProfile {
    /// Which.
    pub profile: &'static str,
    /// Octets of most headers, and of the largest.
    pub octets: usize,
    /// Octets of the largest, by which segments become shorter.
    pub largest: usize,
    /// Octets of data in a full packet of a new connection; `None`: a header of so many hops does not fit.
    pub segment: Option<u32>,
    /// What a flow of full packets loses of its throughput where a link is its limit, in percent.
    pub bulk_loss: f64,
    /// The header's mean share of packets of so many octets, in percent.
    pub shares: BTreeMap<u32, f64>,
}

/// A flow of this host that leaves where the source would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedFlow {
    /// The flow.
    pub tuple: Tuple,
    /// The rule that leaves it out; `None`: it is selected.
    pub left_out_by: Option<&'static str>,
    /// Octets of data in its full packets now.
    pub segment: u32,
    /// These have room for a header; those of the others go without.
    pub fits: bool,
}

/// What would change if a source were on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourcePlan {
    /// Where packets go.
    pub to: Ipv6Addr,
    /// Where they leave, and the source would be.
    pub interface: String,
    /// Longest packet of the path, as far as it is known.
    pub mtu: u32,
    /// It is less than the interface's.
    pub narrow: bool,
    /// Octets of data in a full packet now.
    pub segment: u32,
    /// Hops that there is room for.
    pub hops: u8,
    /// Every n-th header is full; 0: none.
    pub full_every: u32,
    /// The profile that was asked for.
    pub profile: &'static str,
    /// Each of them.
    pub profiles: Vec<PlannedProfile>,
    /// The flows, those that are selected first.
    pub flows: Vec<PlannedFlow>,
    /// Connections over IPv4, which have no headers.
    pub over_ipv4: usize,
    /// What nodes cost.
    pub costs: [NodeCost; 3],
}

impl SourcePlan {
    /// For packets of the calling thread's network namespace to an address; shares are of packets of these lengths.
    ///
    /// # Errors
    /// One line: there is no way to the address, a source cannot be where it leaves, or an option cannot be.
    pub fn of(to: Ipv6Addr, options: &SourceOptions, lengths: &[u32]) -> Result<Self, NodeError> {
        options.check()?;
        let route = LeavingRoute::to(to).map_err(|source| NodeError::NoRoute { to, source })?;
        Interface::find(&route.interface)?;
        let mtu = route.mtu();
        let cgroups = options.cgroup.as_deref().map(cgroups).transpose()?;
        let mut flows = Vec::new();
        let mut leaves = BTreeMap::from([(to, true)]);
        let connections =
            Diagnosis::open().and_then(|mut diagnosis| diagnosis.all()).map_err(NodeError::Connections)?;
        let over_ipv4 = connections.iter().filter(|one| one.remote.is_ipv4()).count();
        for one in &connections {
            let (SocketAddr::V6(local), SocketAddr::V6(remote)) = (one.local, one.remote) else { continue };
            let here = *leaves.entry(*remote.ip()).or_insert_with(|| {
                LeavingRoute::to(*remote.ip()).is_ok_and(|other| other.interface == route.interface)
            });
            if here {
                let tuple = Tuple { src: *local.ip(), dst: *remote.ip(), sport: local.port(), dport: remote.port() };
                let segment = one.info.mss;
                let left_out_by = left_out_by(options, &tuple, one, cgroups.as_deref());
                let longest = segment.saturating_add(HEADERS + options.profile.header_octets(options.hops) as u32);
                flows.push(PlannedFlow { tuple, left_out_by, segment, fits: longest <= mtu });
            }
        }
        flows.sort_by_key(|flow| (flow.left_out_by, flow.tuple.dst != to, flow.tuple));
        Ok(Self {
            to,
            mtu,
            narrow: route.route_mtu.is_some(),
            interface: route.interface,
            segment: mtu.saturating_sub(HEADERS),
            hops: options.hops,
            full_every: options.fulls(),
            profile: options.profile.name(),
            profiles: RecordProfile::ALL.map(|profile| planned(profile, options, mtu, lengths)).into(),
            flows,
            over_ipv4,
            costs: COSTS,
        })
    }
}

fn planned(profile: RecordProfile, options: &SourceOptions, mtu: u32, lengths: &[u32]) -> PlannedProfile {
    let options = SourceOptions { profile, ..options.clone() };
    let (octets, largest) = (profile.header_octets(options.hops), options.reserve());
    let full = if options.fulls() > 0 { 1.0 / f64::from(options.fulls()) } else { 0.0 };
    let mean = (octets as f64 * (1.0 - full) + largest as f64 * full) / f64::from(options.one_in);
    let segment = mtu.checked_sub(HEADERS + largest as u32).filter(|left| *left > 0 && largest <= HEADER_MAX);
    let throughput =
        |segment: u32, header: f64| f64::from(segment) / (f64::from(segment) + f64::from(HEADERS) + header);
    let now = throughput(mtu.saturating_sub(HEADERS), 0.0);
    let bulk_loss = segment.map_or(100.0, |segment| 100.0 * (1.0 - throughput(segment, mean) / now));
    let shares = lengths.iter().map(|length| (*length, (100.0 * mean / f64::from(*length)).min(100.0))).collect();
    PlannedProfile { profile: profile.name(), octets, largest, segment, bulk_loss, shares }
}

/// The rule that leaves a flow out, as src/bpf/source.h selects.
fn left_out_by(
    options: &SourceOptions,
    tuple: &Tuple,
    one: &Connection,
    cgroups: Option<&[u64]>,
) -> Option<&'static str> {
    let within = |address: Ipv6Addr, (prefix, length): (Ipv6Addr, u8)| {
        let differ = address.to_bits() ^ prefix.to_bits();
        differ.leading_zeros() >= u32::from(length)
    };
    let has_port = options.ports.iter().any(|port| [tuple.sport, tuple.dport].contains(port));
    let has_address = options.addresses.iter().any(|prefix| within(tuple.src, *prefix) || within(tuple.dst, *prefix));
    if !options.ports.is_empty() && !has_port {
        return Some("ports");
    }
    if !options.addresses.is_empty() && !has_address {
        return Some("addresses");
    }
    let in_cgroup = |cgroups: &[u64]| one.cgroup.is_some_and(|cgroup| cgroups.contains(&cgroup));
    cgroups.filter(|cgroups| !in_cgroup(cgroups)).map(|_| "cgroup")
}

/// The numbers of a cgroup and of those below it.
fn cgroups(folder: &Path) -> Result<Vec<u64>, NodeError> {
    let wrong = |source: io::Error| NodeError::Option {
        option: "cgroup",
        reason: format!("{}: {source}; give a folder of the mounted cgroup v2", folder.display()),
    };
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = left.pop() {
        found.push(std::fs::metadata(&next).map_err(wrong)?.ino());
        let below = std::fs::read_dir(&next).map_err(wrong)?.flatten();
        left.extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
    Ok(found)
}

impl fmt::Display for SourcePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.narrow { "of the route, less than the interface's" } else { "of the interface" };
        writeln!(f, "to {}: leaves through {}, MTU {} ({whose})", self.to, self.interface, self.mtu)?;
        let full = match self.full_every {
            0 => String::new(),
            1 => ", each full".to_owned(),
            every => format!(", one in {every} full"),
        };
        let plural = if self.hops == 1 { "" } else { "s" };
        writeln!(f, "if telemetry were on (nothing is loaded or changed), room for {} hop{plural}{full}:", self.hops)?;
        let lengths = self
            .profiles
            .first()
            .map(|one| one.shares.keys().map(|length| format!("{:>11}", format!("% of {length}"))));
        let lengths: String = lengths.into_iter().flatten().collect();
        writeln!(f, "    profile  octets  largest  segment  bulk %{lengths}")?;
        writeln!(f, "    none          0        0  {:>7}     0.0", self.segment)?;
        for one in &self.profiles {
            let mark = if one.profile == self.profile { '*' } else { ' ' };
            let PlannedProfile { profile, octets, largest, bulk_loss, .. } = one;
            let segment = one.segment.map_or_else(|| "no room".to_owned(), |segment| segment.to_string());
            let shares: String = one.shares.values().map(|share| format!("{share:>11.1}")).collect();
            writeln!(f, "  {mark} {profile:<7}  {octets:>6}  {largest:>7}  {segment:>7}  {:>6.1}{shares}", -bulk_loss)?;
        }
        let selected = self.flows.iter().filter(|flow| flow.left_out_by.is_none());
        let (count, all) = (selected.clone().count(), self.flows.len());
        writeln!(f, "of {all} connections over IPv6 that leave there {count} would be selected:")?;
        for PlannedFlow { tuple, segment, fits, .. } in selected.take(SHOWN) {
            let Tuple { src, dst, sport, dport } = tuple;
            let room = if *fits {
                "have room"
            } else {
                "have none (too_big): full packets go without until it is opened again"
            };
            writeln!(f, "    [{src}]:{sport} to [{dst}]:{dport}: segments of {segment} {room}")?;
        }
        if count > SHOWN {
            writeln!(f, "    and {} more", count - SHOWN)?;
        }
        let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
        self.flows.iter().filter_map(|flow| flow.left_out_by).for_each(|rule| *left_out.entry(rule).or_default() += 1);
        for (rule, count) in left_out {
            writeln!(f, "    {count} left out by --{rule}")?;
        }
        if self.over_ipv4 > 0 {
            writeln!(f, "    {} over IPv4, which have no headers", self.over_ipv4)?;
        }
        let costs = self.costs.map(|cost| format!("{} {} ({})", cost.role, cost.packet_ns, cost.buffer_ns));
        writeln!(f, "nanoseconds of a packet (of a buffer of segmentation offload): {}", costs.join(", "))
    }
}
