//! Recording in the emulator's thread: every packet of every flow, by the emulator's own clock.
//!
//! Over several links the delays of a packet are added: what the host takes between two of them is in no figure. The kernel
//! forwards packets there, so that one is known again by what no router changes of it.

mod programs;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::{Codepoint, Nanos, Time};
use paceline_experiment::icn::ROUTER_PORT;
use paceline_experiment::{
    DumbbellWay, Fate, Flow, Graph, HopOutcome, Live, Outcome, ProgramOutcome, Recorder, Sample, SharedTap,
    TelemetryOutcome, Truth, Way,
};
use paceline_icn::wire::UnitAnswer;
use paceline_path::{DelaySplit, Packet};

use super::content::Fetches;
use super::{EPHEMERAL, FLOW_PORT};
use crate::numbers::Numbers;
use paceline_emulator::emulator::{EmulatorTap, Passage};
use paceline_emulator::frame::{self, FlowKey};
use paceline_telemetry::TelemetryHeader;

use programs::Outside;
pub(crate) use programs::StubAddresses;

/// What a thread of a flow shows to the series.
pub(super) type Glimpse = Arc<Mutex<Option<Sample>>>;

/// What became of a flow's packets, and what its sink made of it.
pub(crate) type SharedTruth = Arc<Mutex<Truth>>;

/// Watches a race.
pub(super) struct RaceTap {
    pub(super) recorder: Recorder,
    flows: Vec<Watched>,
    /// The flows of programs by the addresses of their ends.
    by_address: HashMap<IpAddr, usize>,
    end: Time,
    /// The hop that the series shows.
    shown: u32,
    step: Nanos,
    /// Changes of the bytes that wait at the hop that is shown, by point of the series.
    waiting: Vec<i64>,
    /// Who watches.
    live: Option<Arc<Live>>,
    told: Option<Told>,
}

/// Who is told what becomes of packets, by the names of hops.
struct Told {
    tap: SharedTap,
    hops: Vec<String>,
    numbers: Numbers,
}

struct Watched {
    /// The hops of its data. Acknowledgements take the other hops of their links, the last first.
    route: Vec<u32>,
    /// The same from further sources of a fetch, by their addresses.
    further: Vec<(IpAddr, Vec<u32>)>,
    /// Its flows are fetches, each with a port of its own.
    fetches: bool,
    /// From here on its packets no longer count.
    stop: Time,
    glimpse: Glimpse,
    /// Delays so far of packets that have left a hop which is not their last, by how many they have left. A copy that a hop makes
    /// finds nothing at the next. And whether the path has marked them.
    under_way: HashMap<(usize, u64), (DelaySplit, bool)>,
    /// What became of its packets with telemetry.
    truth: Option<SharedTruth>,
    /// What it transfers, where it has an end.
    goal: Option<u64>,
    /// Of a program: what it shows.
    outside: Option<Outside>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Data,
    Acknowledgement,
    /// On the way of a program's data, without any.
    Bare,
}

/// A packet of a flow on one of its hops.
struct Stretch {
    flow: usize,
    role: Role,
    /// Hops of its way before this one.
    before: usize,
    last: bool,
}

impl RaceTap {
    pub(super) fn new(
        graph: &Graph,
        flows: &[Flow],
        glimpses: &[Glimpse],
        shown: u32,
        sample_every: Option<Nanos>,
        end: Time,
    ) -> Self {
        let watched = |(flow, glimpse): (&Flow, &Glimpse)| {
            let route = graph.route(flow.way).unwrap_or_default();
            Watched {
                route,
                further: Vec::new(),
                fetches: false,
                stop: crate::workload::end(flow, end),
                glimpse: glimpse.clone(),
                under_way: HashMap::new(),
                truth: None,
                goal: crate::workload::goal(&flow.workload),
                outside: None,
            }
        };
        let step = sample_every.unwrap_or(Nanos::ZERO);
        let points = if step > Nanos::ZERO { (end.as_nanos() / step.as_nanos()) as usize } else { 0 };
        Self {
            recorder: Recorder::new(flows, sample_every),
            flows: flows.iter().zip(glimpses).map(watched).collect(),
            by_address: HashMap::new(),
            end,
            shown,
            step,
            waiting: vec![0; points + 1],
            live: None,
            told: None,
        }
    }

    /// Whose packet this is, and which kind; `None` when it is not counted for any flow.
    fn whose(&self, passage: &Passage<'_>) -> Option<Stretch> {
        let key = frame::flow_key(passage.bytes)?;
        // The flow that has this port, and where on its route from this source the hop is; of how many.
        let on_route = |port: u16, source: IpAddr, hop: u32| {
            let flow = self.of_port(port)?;
            let Watched { route, further, .. } = &self.flows[flow];
            let route = further.iter().find(|(from, _)| *from == source).map_or(route, |(_, route)| route);
            Some((flow, route.iter().position(|other| *other == hop)?, route.len()))
        };
        let hop = hop(passage);
        let program = |ip: IpAddr| self.by_address.get(&ip).copied();
        if let Some(flow) = program(key.source.ip()).or_else(|| program(key.destination.ip())) {
            return self.of_program(flow, &key, passage.bytes, hop);
        }
        if let Some((flow, at, hops)) = on_route(key.destination.port(), key.source.ip(), hop) {
            let stretch = Stretch { flow, role: Role::Data, before: at, last: at + 1 == hops };
            return holds_data(passage.bytes).then_some(stretch);
        }
        let (flow, at, hops) = on_route(key.source.port(), key.destination.ip(), hop ^ 1)?;
        Some(Stretch { flow, role: Role::Acknowledgement, before: hops - 1 - at, last: at == 0 })
    }

    /// A packet of the flow of a program; none when it is between other addresses, or is not of the flow.
    fn of_program(&self, flow: usize, key: &FlowKey, bytes: &[u8], hop: u32) -> Option<Stretch> {
        let Watched { route, outside, .. } = &self.flows[flow];
        let forward = outside.as_ref()?.addresses.leads(key)?;
        let (hops, of_data) = (route.len(), if forward { hop } else { hop ^ 1 });
        let at = route.iter().position(|other| *other == of_data)?;
        let (role, before) = match forward {
            true if programs::holds_data(bytes) => (Role::Data, at),
            true => (Role::Bare, at),
            false => (Role::Acknowledgement, hops - 1 - at),
        };
        Some(Stretch { flow, role, before, last: before + 1 == hops })
    }

    /// The flow whose data goes to this port.
    fn of_port(&self, port: u16) -> Option<usize> {
        let place = usize::from(port.checked_sub(FLOW_PORT)?);
        let flow = place.checked_rem(self.flows.len())?;
        (place == flow || self.flows[flow].fetches && port < EPHEMERAL).then_some(flow)
    }

    /// Ends the steps of the series that are over at `now`.
    fn sample(&mut self, now: Time) {
        while self.recorder.next_sample() <= now.min(self.end) {
            let flows = &self.flows;
            // What the hop could carry and what waits there are known later: filled in at the end.
            self.recorder
                .sample(None, 0, |flow| flows[flow].glimpse.lock().unwrap_or_else(PoisonError::into_inner).clone());
        }
    }

    /// A packet waited from `from` to `to` at the hop that is shown.
    fn waited(&mut self, from: Time, to: Time, size: usize) {
        let (step, last) = (self.step.as_nanos(), self.waiting.len() - 1);
        if step == 0 {
            return;
        }
        // Point i stands for the moment (i + 1) * step.
        let point = |at: Time| ((at.as_nanos().div_ceil(step)).saturating_sub(1) as usize).min(last);
        self.waiting[point(from)] += size as i64;
        self.waiting[point(to)] -= size as i64;
    }

    /// Says of flows with telemetry what becomes of their packets.
    pub(super) fn witness(mut self, flows: &[Flow], truths: &[SharedTruth]) -> Self {
        for (watched, (flow, truth)) in self.flows.iter_mut().zip(flows.iter().zip(truths)) {
            watched.truth = flow.telemetry.as_ref().map(|_| truth.clone());
        }
        self
    }

    /// With the ways from the further sources of fetches.
    pub(super) fn fetching(mut self, graph: &Graph, flows: &[Flow], fetches: &[Option<Arc<Fetches>>]) -> Self {
        for ((watched, flow), fetches) in self.flows.iter_mut().zip(flows).zip(fetches) {
            let Some(fetches) = fetches else { continue };
            watched.fetches = true;
            let route = |from: &u32| graph.route(Way { from: *from, to: flow.way.to }).unwrap_or_default();
            let addresses = fetches.routers.iter().skip(1).map(SocketAddr::ip);
            watched.further = addresses.zip(flow.content.sources.iter().map(route)).collect();
        }
        self
    }

    /// With the flows of programs, by the addresses of their ends.
    pub(super) fn programs(mut self, ends: &[Option<StubAddresses>]) -> Self {
        for (flow, addresses) in ends.iter().enumerate().filter_map(|(flow, ends)| Some((flow, ends.as_ref()?))) {
            let ips = addresses.sender.iter().chain(&addresses.receiver);
            self.by_address.extend(ips.map(|ip| (*ip, flow)));
            self.flows[flow].outside = Some(Outside::of(addresses.clone()));
        }
        self
    }

    /// What the program of a flow left, with what its packets showed.
    pub(super) fn program(&mut self, flow: usize, mut outcome: ProgramOutcome) {
        let Watched { outside, goal, stop, .. } = &self.flows[flow];
        if let Some(outside) = outside {
            outcome.seen = outside.seen();
            // A transfer is done when one of its sides ends by itself.
            let by_itself = [outcome.sender, outcome.receiver];
            let done = by_itself.iter().any(|side| side.status.is_some() && side.ended <= *stop);
            if let (Some(bytes), Some(took)) = (goal.filter(|_| done), outside.lasted()) {
                self.recorder.completed(flow, bytes, took);
            }
        }
        self.recorder.program(flow, outcome);
    }

    /// Adds to what someone watches.
    pub(super) fn shown_by(mut self, live: Option<Arc<Live>>) -> Self {
        self.live = live;
        self
    }

    /// Tells a tap of packets that are dropped.
    pub(super) fn telling(mut self, tap: Option<SharedTap>, graph: &Graph, flows: &[Flow]) -> Self {
        let hops = || graph.hops().iter().map(|hop| hop.name.clone()).collect();
        self.told = tap.map(|tap| Told { tap, hops: hops(), numbers: Numbers::new(flows) });
        self
    }

    /// What senders were informed of, by flow, besides what sinks made of losses.
    pub(super) fn told(&mut self, told: &[TelemetryOutcome]) {
        for (flow, told) in told.iter().enumerate() {
            let Some(truth) = self.flows[flow].truth.take() else { continue };
            let mut outcome = std::mem::take(&mut *truth.lock().unwrap_or_else(PoisonError::into_inner)).finish();
            outcome += told;
            self.recorder.telemetry(flow, &outcome);
        }
    }

    /// What is left when the run is over.
    pub(super) fn finish(mut self, graph: Graph, hops: Vec<HopOutcome>) -> Outcome {
        self.sample(self.end);
        let mut outcome = self.recorder.finish(graph, hops, 0);
        if let Some(series) = &mut outcome.series {
            let mut bytes = 0_i64;
            for (point, change) in series.queue_bytes.iter_mut().zip(&self.waiting) {
                bytes += change;
                *point = u64::try_from(bytes).unwrap_or(0);
            }
        }
        outcome
    }
}

impl EmulatorTap for RaceTap {
    fn entered(&mut self, passage: &Passage<'_>) {
        self.sample(passage.at);
        let Some(Stretch { flow, role, before: 0, .. }) = self.whose(passage) else { return };
        let watched = &mut self.flows[flow];
        if passage.at > watched.stop {
            return;
        }
        if let Some(outside) = &mut watched.outside {
            outside.entered(passage.at, passage.bytes, role != Role::Acknowledgement);
        }
        if role == Role::Data {
            self.recorder.entered(flow);
        }
    }

    fn left(&mut self, passage: &Passage<'_>) {
        self.sample(passage.at);
        if hop(passage) == self.shown {
            self.waited(passage.entered, passage.entered + passage.delay.queue, passage.bytes.len());
        }
        let Some(Stretch { flow, role, before, last }) = self.whose(passage) else { return };
        if role == Role::Bare {
            return;
        }
        let watched = &mut self.flows[flow];
        let (mut delay, mut marked) = (passage.delay, passage.marked);
        if before > 0 {
            // Copies made on the way are in no figure.
            let Some(so_far) = watched.under_way.remove(&(before, frame::fingerprint(passage.bytes))) else { return };
            (delay, marked) = (sum(so_far.0, delay), so_far.1 || marked);
        }
        if !last {
            watched.under_way.insert((before + 1, frame::fingerprint(passage.bytes)), (delay, marked));
            return;
        }
        if passage.at > watched.stop {
            return;
        }
        if role == Role::Acknowledgement {
            let rtt = watched.outside.as_mut().and_then(|outside| outside.acknowledged(passage.at, passage.bytes));
            rtt.into_iter().for_each(|rtt| self.recorder.rtt(flow, rtt));
            self.recorder.acknowledged(flow, &delay);
            return;
        }
        if let Some(live) = &self.live {
            live.arrived(passage.bytes.len() as u64, delay.queue);
        }
        let mut ecn = passage.ecn();
        if let Some(outside) = &mut watched.outside {
            outside.arrived(passage.at);
            // Some stacks send marks themselves, to test their peer.
            ecn = if marked { Codepoint::Ce } else { Codepoint::NotEct };
        }
        let mut packet = Packet::new(0, passage.bytes.len() as u32, ecn, ());
        packet.delay = delay;
        self.recorder.arrived(flow, &packet, delay.propagation + delay.queue + delay.transmission);
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        let Some(Stretch { flow, role, before, .. }) = self.whose(passage) else { return };
        if before > 0 {
            self.flows[flow].under_way.remove(&(before, frame::fingerprint(passage.bytes)));
        }
        if let (Some(truth), Some(reason), Some(number)) =
            (&self.flows[flow].truth, passage.reason, number(passage.bytes))
        {
            truth.lock().unwrap_or_else(PoisonError::into_inner).dropped(number, reason);
        }
        if role == Role::Data && passage.at <= self.end && passage.entered <= self.flows[flow].stop {
            if let Some(live) = &self.live {
                live.dropped();
            }
            if let (Some(Told { tap, hops, numbers }), Some(reason)) = (&self.told, passage.reason) {
                let fate = Fate { at: passage.at, hop: &hops[hop(passage) as usize], reason };
                tap.lock().unwrap_or_else(PoisonError::into_inner).on_dropped(numbers.first(flow), &fate);
            }
            self.recorder.dropped(flow, &Packet::new(0, passage.bytes.len() as u32, passage.ecn(), ()));
        }
    }
}

/// The number of the hop in the graph.
fn hop(passage: &Passage<'_>) -> u32 {
    let back = passage.direction == DumbbellWay::Up;
    passage.link as u32 * 2 + u32::from(back)
}

fn sum(one: DelaySplit, other: DelaySplit) -> DelaySplit {
    DelaySplit {
        propagation: one.propagation + other.propagation,
        queue: one.queue + other.queue,
        transmission: one.transmission + other.transmission,
    }
}

/// The number in the telemetry of a packet.
fn number(packet: &[u8]) -> Option<u32> {
    let (header, _) = TelemetryHeader::decode(packet.get(40..)?).ok()?;
    Some(header.edge?.seq)
}

/// Whether a packet of a flow carries something: with TCP, bytes of the stream; from a content router, a unit.
fn holds_data(packet: &[u8]) -> bool {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    match frame::upper(packet) {
        Some((UDP, Some([high, low, _, _, _, _, _, _, message @ ..])))
            if u16::from_be_bytes([*high, *low]) == ROUTER_PORT =>
        {
            matches!(UnitAnswer::decode(message), Ok(UnitAnswer::Data(..)))
        }
        Some((TCP, above)) => {
            above.is_some_and(|above| above.get(12).is_some_and(|byte| above.len() > usize::from(byte >> 4) * 4))
        }
        other => other.is_some(),
    }
}

#[cfg(test)]
mod tests;
