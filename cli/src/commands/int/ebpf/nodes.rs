//! `paceline int source`, `transit` and `sink`.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use paceline_int::bus::board::ReportSums;
use paceline_int::bus::{Heart, MessageBody, MessageKind, PublisherRole, SubjectFilter, flow_number};
use paceline_int::{
    HeaderClock, KernelQueueLimit, SinkNode, SinkOptions, SourceNode, SourceOptions, TransitNode, TransitOptions,
};
use serde_json::{Map, Value};

use super::super::nodes::{ClockName, NodeArgs, QueueLimit, RuleArgs, SinkArgs, SourceArgs, TransitArgs};
use crate::commands::ending::{Ending, Ends};

/// Between two looks whether it is to end.
const ROUND: Duration = Duration::from_millis(100);
/// Between two objects of counters.
pub(super) const EVERY: Duration = Duration::from_secs(1);

const fn clock(args: &NodeArgs) -> HeaderClock {
    match args.clock {
        ClockName::Machine => HeaderClock::Machine,
        ClockName::Tai => HeaderClock::Tai,
    }
}

impl RuleArgs {
    pub(super) fn options(&self) -> SourceOptions {
        SourceOptions {
            ports: self.ports.clone(),
            addresses: self.addresses.clone(),
            cgroup: self.cgroup.clone(),
            udp: self.udp,
            profile: self.profile,
            full_every: self.full_every,
            wide: self.wide,
            hops: self.hops,
            one_in: self.one_in,
            every: Duration::from_nanos(self.every.as_nanos()),
            ..SourceOptions::default()
        }
    }
}

pub(super) fn source(args: &SourceArgs) -> anyhow::Result<()> {
    let options = SourceOptions {
        clock: clock(&args.node),
        patience: SourceOptions::default().patience.filter(|_| !args.always),
        ..args.rules.options()
    };
    let ending = Ends::begin()?.watched()?;
    let source = SourceNode::open(&args.node.interface, &options)?;
    let name = &args.node.interface;
    say(&args.node, &format!("headers on flows that leave through {name}, until this command ends"))?;
    let mut swept = Instant::now();
    let sweep = |source: &mut SourceNode| {
        source.ensure()?;
        if swept.elapsed() >= EVERY {
            swept = Instant::now();
            source.sweep();
        }
        Ok(())
    };
    counting(&args.node, &ending, source, sweep, |source| counters(source.counters().entries()))
}

pub(super) fn transit(args: &TransitArgs) -> anyhow::Result<()> {
    let limit = args.limit.map(|limit| match limit {
        QueueLimit::Packets(packets) => KernelQueueLimit::Packets(packets),
        QueueLimit::Octets(octets) => KernelQueueLimit::Bytes(octets),
    });
    let (node, rate) = (args.number, args.rate);
    let options = TransitOptions { node, limit, rate, clock: clock(&args.node), ..TransitOptions::default() };
    let ending = Ends::begin()?.watched()?;
    let bus = args.bus.open(Some(PublisherRole::Hop))?;
    let mut heart = Heart::new(PublisherRole::Hop);
    let transit = TransitNode::open(&args.node.interface, &options)?;
    let unknown = || "its queue's limit is not known (--limit)".to_owned();
    let known = transit.limit().map_or_else(unknown, |limit| format!("its queue has room for {limit}"));
    let name = &args.node.interface;
    say(&args.node, &format!("node {} writes at {name} until this command ends; {known}", transit.node()))?;
    let publish = |transit: &mut TransitNode| {
        transit.ensure()?;
        match transit.report() {
            Ok(report) => bus.publish(MessageKind::Node(report.node), &MessageBody::Node(report)),
            // Of an interface that has not been up yet.
            Err(none) if none.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        heart.beat(&bus, None, 0);
        Ok(())
    };
    counting(&args.node, &ending, transit, publish, |transit| counters(transit.counters().entries()))
}

pub(super) fn sink(args: &SinkArgs) -> anyhow::Result<()> {
    let options = SinkOptions {
        clock: clock(&args.node),
        synced: args.synced,
        forwarded: args.forwarded,
        hop_limit: args.hop_limit,
        udp: args.udp,
        ..SinkOptions::default()
    };
    let ending = Ends::begin()?.watched()?;
    let bus = args.bus.open(Some(PublisherRole::Sink))?;
    let limits = bus.subscribe(&[SubjectFilter::Nodes])?;
    let mut heart = Heart::new(PublisherRole::Sink);
    let mut sink = SinkNode::open(&args.node.interface, &options)?;
    let name = &args.node.interface;
    say(&args.node, &format!("headers are taken out of what arrives at {name} until this command ends"))?;
    let mut reported = Instant::now();
    let mut sums = ReportSums::default();
    while !ending.has_come() {
        sink.ensure()?;
        for report in sink.reports(ROUND)? {
            if args.node.json {
                crate::print::out(&format!("{}\n", String::from_utf8_lossy(&report.to_json())))?;
            }
            sums.add(&report);
            bus.publish(MessageKind::Flow(flow_number(&report.tuple)), &MessageBody::Flow(report));
        }
        // What hops say of their queues: the limits, which no packet carries.
        while let Some(message) = limits.next(Duration::ZERO) {
            if let MessageBody::Node(report) = &message.body {
                sink.node(report);
            }
        }
        heart.beat(&bus, Some(&limits), sink.flows());
        if !args.node.json && reported.elapsed() >= EVERY && sums.reports > 0 {
            reported = Instant::now();
            crate::print::out(&std::mem::take(&mut sums).line(sink.flows()))?;
        }
    }
    let mut all = counters(sink.counters().entries());
    all.insert("unreadable".to_owned(), sink.unreadable().into());
    all.insert("flows".to_owned(), sink.flows().into());
    all.insert("forgotten".to_owned(), sink.forgotten().into());
    show(&all, args.node.json)
}

/// Says that it runs, where no JSON is expected.
fn say(args: &NodeArgs, line: &str) -> anyhow::Result<()> {
    if !args.json {
        crate::print::out(&format!("{line}\n"))?;
    }
    Ok(())
}

pub(super) fn counters(entries: impl Iterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    entries.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Counts until it is to end; `round` is done ten times a second.
fn counting<T>(
    args: &NodeArgs,
    ending: &Ending,
    mut node: T,
    mut round: impl FnMut(&mut T) -> anyhow::Result<()>,
    now: impl Fn(&T) -> Map<String, Value>,
) -> anyhow::Result<()> {
    let mut shown = Instant::now();
    while !ending.has_come() {
        std::thread::sleep(ROUND);
        round(&mut node)?;
        if args.json && shown.elapsed() >= EVERY {
            shown = Instant::now();
            show(&now(&node), true)?;
        }
    }
    show(&now(&node), args.json)
}

/// Counters, as a JSON object or as lines for people.
pub(super) fn show(counters: &Map<String, Value>, json: bool) -> anyhow::Result<()> {
    let lines = || counters.iter().map(|(name, value)| format!("{name} {value}\n")).collect::<String>();
    let text = if json { format!("{}\n", Value::Object(counters.clone())) } else { lines() };
    Ok(crate::print::out(&text)?)
}
