//! Recording in the emulator's thread: every packet of every flow, by the emulator's own clock.
//!
//! Over several links the delays of a packet are added: what the host takes between two of them is in no figure. The kernel
//! forwards packets there, so that one is known again by what no router changes of it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::{Nanos, Time};
use paceline_experiment::icn::ROUTER_PORT;
use paceline_experiment::{
    DumbbellWay, Fate, Flow, Graph, HopOutcome, Live, Outcome, Recorder, Sample, SharedTap, TelemetryOutcome, Truth,
    Way,
};
use paceline_icn::wire::UnitAnswer;
use paceline_path::{DelaySplit, Packet, Schedule};

use super::content::Fetches;
use super::{EPHEMERAL, FLOW_PORT};
use crate::numbers::Numbers;
use paceline_emulator::emulator::{EmulatorTap, Passage};
use paceline_emulator::frame;
use paceline_telemetry::TelemetryHeader;

/// What a thread of a flow shows to the series.
pub(super) type Glimpse = Arc<Mutex<Option<Sample>>>;

/// What became of a flow's packets, and what its sink made of it.
pub(crate) type SharedTruth = Arc<Mutex<Truth>>;

/// Watches a race.
pub(super) struct RaceTap {
    pub(super) recorder: Recorder,
    flows: Vec<Watched>,
    end: Time,
    shown: Shown,
    step: Nanos,
    /// Changes of the bytes that wait at the hop that is shown, by point of the series.
    waiting: Vec<i64>,
    /// Who watches.
    live: Option<Arc<Live>>,
    told: Option<Told>,
}

/// The hop that the series shows.
pub(super) struct Shown {
    pub(super) hop: u32,
    /// Of its link, if it has one.
    pub(super) schedule: Option<Schedule>,
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
    /// finds nothing at the next.
    under_way: HashMap<(usize, u64), DelaySplit>,
    /// What became of its packets with telemetry.
    truth: Option<SharedTruth>,
}

enum Role {
    Data,
    Acknowledgement,
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
        shown: Shown,
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
            }
        };
        let step = sample_every.unwrap_or(Nanos::ZERO);
        let points = if step > Nanos::ZERO { (end.as_nanos() / step.as_nanos()) as usize } else { 0 };
        Self {
            recorder: Recorder::new(flows, sample_every),
            flows: flows.iter().zip(glimpses).map(watched).collect(),
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
        if let Some((flow, at, hops)) = on_route(key.destination.port(), key.source.ip(), hop) {
            let stretch = Stretch { flow, role: Role::Data, before: at, last: at + 1 == hops };
            return holds_data(passage.bytes).then_some(stretch);
        }
        let (flow, at, hops) = on_route(key.source.port(), key.destination.ip(), hop ^ 1)?;
        Some(Stretch { flow, role: Role::Acknowledgement, before: hops - 1 - at, last: at == 0 })
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
            let to = self.recorder.next_sample();
            let capacity = self.shown.schedule.as_ref().map(|schedule| schedule.capacity(to - self.step, to));
            let flows = &self.flows;
            // What waits is known only when it has left: filled in at the end.
            self.recorder
                .sample(capacity, 0, |flow| flows[flow].glimpse.lock().unwrap_or_else(PoisonError::into_inner).clone());
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
        if let Some(Stretch { flow, role: Role::Data, before: 0, .. }) = self.whose(passage)
            && passage.at <= self.flows[flow].stop
        {
            self.recorder.entered(flow);
        }
    }

    fn left(&mut self, passage: &Passage<'_>) {
        self.sample(passage.at);
        if hop(passage) == self.shown.hop {
            self.waited(passage.entered, passage.entered + passage.delay.queue, passage.bytes.len());
        }
        let Some(Stretch { flow, role, before, last }) = self.whose(passage) else { return };
        let watched = &mut self.flows[flow];
        let mut delay = passage.delay;
        if before > 0 {
            // Copies made on the way are in no figure.
            let Some(so_far) = watched.under_way.remove(&(before, frame::fingerprint(passage.bytes))) else { return };
            delay = sum(so_far, delay);
        }
        if !last {
            watched.under_way.insert((before + 1, frame::fingerprint(passage.bytes)), delay);
            return;
        }
        if passage.at > watched.stop {
            return;
        }
        match role {
            Role::Data => {
                if let Some(live) = &self.live {
                    live.arrived(passage.bytes.len() as u64, delay.queue);
                }
                let mut packet = Packet::new(0, passage.bytes.len() as u32, passage.ecn(), ());
                packet.delay = delay;
                self.recorder.arrived(flow, &packet, delay.propagation + delay.queue + delay.transmission);
            }
            Role::Acknowledgement => self.recorder.acknowledged(flow, &delay),
        }
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
        if matches!(role, Role::Data) && passage.at <= self.end && passage.entered <= self.flows[flow].stop {
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
mod tests {
    use paceline_experiment::icn::Asking;
    use paceline_experiment::{Tap, Via};
    use paceline_icn::wire::{AddressToken, Grant, TOKEN_BYTES, UnitHead};
    use paceline_path::DropReason;

    use super::*;

    const SHOWN: Shown = Shown { hop: 0, schedule: None };

    fn flow(direction: DumbbellWay, stop: Option<Time>) -> Flow {
        Flow { way: direction.into(), stop, ..Flow::bulk("reno".parse().unwrap(), Via::tcp(None)) }
    }

    /// Drops that a tap was told of: of which flow, when, where.
    #[derive(Default)]
    struct Drops(Vec<(u32, Time, String)>);

    impl Tap for Drops {
        fn on_dropped(&mut self, flow: u32, fate: &Fate<'_>) {
            self.0.push((flow, fate.at, fate.hop.to_owned()));
        }
    }

    /// A TCP packet over IPv4 of `length` bytes.
    fn packet(from: u16, to: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.max(40)];
        (bytes[0], bytes[9], bytes[32]) = (0x45, 6, 5 << 4);
        bytes[20..22].copy_from_slice(&from.to_be_bytes());
        bytes[22..24].copy_from_slice(&to.to_be_bytes());
        bytes
    }

    fn passage(direction: DumbbellWay, bytes: &[u8], entered: u64, at: u64) -> Passage<'_> {
        let (entered, at) = (Time::from_millis(entered), Time::from_millis(at));
        let delay = DelaySplit { queue: at - entered, ..DelaySplit::default() };
        Passage { link: 0, direction, id: 0, bytes, entered, at, released: at, delay, marked: false, reason: None }
    }

    #[test]
    fn packets_count_for_their_flow_and_nothing_is_lost_on_the_way() {
        let flows = [flow(DumbbellWay::Down, None), flow(DumbbellWay::Up, Some(Time::from_millis(50)))];
        let glimpses: Vec<Glimpse> = vec![Arc::default(), Arc::default()];
        *glimpses[0].lock().unwrap() = Some(Sample { window: 14_480, ..Sample::default() });
        let end = Time::from_millis(100);
        let drops = Arc::new(Mutex::new(Drops::default()));
        let mut tap = RaceTap::new(&Graph::dumbbell(), &flows, &glimpses, SHOWN, Some(Nanos::from_millis(10)), end)
            .telling(Some(drops.clone()), &Graph::dumbbell(), &flows);
        let data = packet(40_000, FLOW_PORT, 1500);
        let ack = packet(FLOW_PORT, 40_000, 40);
        let upward = packet(40_001, FLOW_PORT + 1, 1000);
        let stranger = packet(40_000, FLOW_PORT + 2, 1000);
        // One arrives after 15 ms, one is dropped, one is still under way; what is not data does not count.
        for at in [0, 1, 2] {
            tap.entered(&passage(DumbbellWay::Down, &data, at, at));
        }
        tap.entered(&passage(DumbbellWay::Down, &packet(40_000, FLOW_PORT, 40), 3, 3));
        tap.entered(&passage(DumbbellWay::Up, &upward, 4, 4));
        tap.entered(&passage(DumbbellWay::Up, &stranger, 4, 4));
        let full = Some(DropReason::Full);
        tap.dropped(&Passage { reason: full, ..passage(DumbbellWay::Down, &data, 1, 5) });
        tap.left(&passage(DumbbellWay::Down, &data, 0, 15));
        tap.left(&passage(DumbbellWay::Up, &ack, 15, 16));
        // Comes when its flow has stopped.
        tap.left(&passage(DumbbellWay::Up, &upward, 4, 60));
        let outcome = tap.finish(Graph::dumbbell(), Vec::new());
        assert_eq!(drops.lock().unwrap().0, [(0, Time::from_millis(5), "down".to_owned())]);

        let counts = |index: usize| {
            let flow = &outcome.flows[index];
            (flow.packets_entered, flow.packets_arrived, flow.packets_dropped, flow.wire_bytes_arrived)
        };
        assert_eq!((counts(0), counts(1)), ((3, 1, 1, 1500), (1, 0, 0, 0)));
        assert_eq!(outcome.flows[0].delay.max_ms(), Some(15.0));
        assert_eq!(outcome.flows[0].ack_split.count, 1);
        let series = outcome.series.unwrap();
        // It waited from 0 to 15 ms: at the end of the first step it was there.
        assert_eq!(series.queue_bytes, [1500, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(series.flows[0].window_packets, [10.0; 10]);
        assert_eq!(series.flows[0].throughput_mbps[1], 1.2);
    }

    #[test]
    fn delays_of_a_packet_over_several_links_are_added_and_each_drop_counts_once() {
        let mut graph = Graph::default();
        for (name, between) in [("1", ["a", "b"]), ("2", ["c", "b"]), ("3", ["c", "d"])] {
            graph.link(name, between).unwrap();
        }
        let way = Way { from: graph.node("a").unwrap(), to: graph.node("d").unwrap() };
        let flows = [Flow { way, ..Flow::bulk("reno".parse().unwrap(), Via::tcp(None)) }];
        let (glimpses, end) = (vec![Arc::default()], Time::from_millis(100));
        let mut tap = RaceTap::new(&graph, &flows, &glimpses, SHOWN, None, end);
        // What routers change is not what a packet is known by.
        let number = |number: u8, ttl: u8, from: u16, to: u16, length: usize| {
            let mut bytes = packet(from, to, length);
            (bytes[5], bytes[8], bytes[10]) = (number, ttl, 255 - ttl);
            bytes
        };
        let data = |id, ttl| number(id, ttl, 40_000, FLOW_PORT, 1500);
        let ack = |ttl| number(9, ttl, FLOW_PORT, 40_000, 40);
        let (down, up) = (DumbbellWay::Down, DumbbellWay::Up);
        // The second link leads the other way round. Of data the third overtakes the first there, of it a copy is made, and the
        // second is dropped.
        let steps = [
            ("left", 1, up, data(2, 63), 7, 10),
            ("left", 1, up, data(2, 63), 7, 10),
            ("left", 1, up, data(0, 63), 7, 11),
            ("dropped", 1, up, data(1, 63), 7, 8),
            ("left", 2, down, data(2, 62), 20, 30),
            ("left", 2, down, data(2, 62), 20, 31),
            ("left", 2, down, data(0, 62), 20, 40),
            ("left", 2, up, ack(64), 41, 42),
            ("left", 1, down, ack(63), 43, 45),
            ("left", 0, up, ack(62), 46, 50),
        ];
        let first = (0..3).flat_map(|id| {
            [
                ("entered", 0, down, data(id, 64), 1, 1),
                ("left", 0, down, data(id, 64), 1, 6),
                ("entered", 1, up, data(id, 63), 7, 7),
            ]
        });
        for (what, link, direction, bytes, entered, at) in first.chain(steps) {
            let passage = Passage { link, ..passage(direction, &bytes, entered, at) };
            match what {
                "entered" => tap.entered(&passage),
                "left" => tap.left(&passage),
                _ => tap.dropped(&passage),
            }
        }
        assert!(tap.flows[0].under_way.is_empty());
        let outcome = tap.finish(graph, Vec::new());
        let flow = &outcome.flows[0];
        assert_eq!((flow.packets_entered, flow.packets_arrived, flow.packets_dropped), (3, 2, 1));
        // 5 + 3 + 10 and 5 + 4 + 20 ms; 1 + 2 + 4 of the acknowledgement.
        assert_eq!((flow.delay.min_ms(), flow.delay.max_ms()), (Some(18.0), Some(29.0)));
        assert_eq!((flow.ack_split.count, flow.ack_split.mean_ms()[1]), (1, 7.0));
    }

    #[test]
    fn units_of_a_fetch_count_by_their_source_whatever_port_its_flow_has() {
        let mut graph = Graph::default();
        for (name, between) in [("near", ["edge", "user"]), ("far", ["mirror", "edge"])] {
            graph.link(name, between).unwrap();
        }
        let [edge, user, mirror] = ["edge", "user", "mirror"].map(|name| graph.node(name).unwrap());
        let mut flow = Flow::bulk("bbr".parse().unwrap(), Via::icn(Asking::default()));
        (flow.way, flow.content.sources) = (Way { from: edge, to: user }, vec![mirror]);
        let flows = [flow.clone(), flow];
        let routers = [1, 2].map(|host| SocketAddr::new(IpAddr::V4([10, 0, 0, host].into()), ROUTER_PORT)).to_vec();
        let fetches = [Some(Arc::new(Fetches { objects: Vec::new(), routers })), None];
        let (glimpses, end) = (vec![Arc::default(), Arc::default()], Time::from_millis(100));
        let tap = RaceTap::new(&graph, &flows, &glimpses, SHOWN, None, end).fetching(&graph, &flows, &fetches);
        let unit = UnitHead { nonce: 1, unit: 7, stored_units: None, waited: Nanos::ZERO, app_limited: false };
        let mut grant = Vec::new();
        Grant { nonce: 1, token: AddressToken([0; TOKEN_BYTES]) }.encode(&mut grant);
        let whose = |link: usize, host: u8, port: u16, message: &[u8]| {
            let mut bytes = packet(ROUTER_PORT, port, 28);
            bytes[9] = 17;
            bytes[12..16].copy_from_slice(&[10, 0, 0, host]);
            bytes.truncate(28);
            bytes.extend_from_slice(message);
            let stretch = tap.whose(&Passage { link, ..passage(DumbbellWay::Down, &bytes, 0, 0) })?;
            Some((stretch.flow, stretch.before, stretch.last))
        };
        let data = [&unit.encode_head()[..], &[7]].concat();
        assert_eq!(whose(0, 1, FLOW_PORT, &data), Some((0, 0, true)), "from the edge");
        assert_eq!(whose(1, 2, FLOW_PORT, &data), Some((0, 0, false)), "from the mirror to the edge");
        assert_eq!(whose(0, 2, FLOW_PORT + 2, &data), Some((0, 1, true)), "and on, to another of the family");
        assert_eq!(whose(0, 1, FLOW_PORT + 3, &data), None, "the other flow does not fetch from routers");
        assert_eq!(whose(0, 1, FLOW_PORT, &grant), None, "it has no unit");
    }
}
