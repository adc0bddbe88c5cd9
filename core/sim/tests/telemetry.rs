//! In-band telemetry: what packets carry, what senders hear of it, and what they make of it when it fails or lies.

use std::sync::{Arc, Mutex};

use crate::common::bulk;
use crate::topology::{link, run, topology, way};
use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Bytes, Cause, Controller, Hop, Nanos, Rate, Time};
use paceline_experiment::{
    Config, Faults, Flow, FlowTelemetry, HopLie, Lie, Outcome, ReportTrace, Seed, Subject, Tap, Topology, Via,
};
use paceline_path::{DelaySplit, Direction, LossModel, Policer, PolicerAction, PolicerScope};
use paceline_sim::Body;
use paceline_transport::Segment;

/// What the sender of the first flow heard and declared.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    /// Packets declared lost: when, and the cause known then.
    lost: Vec<(Time, Cause)>,
    /// Reports: when, for how long they count, and the hops.
    reports: Vec<(Time, Nanos, Vec<Hop>)>,
}

impl Observer for Heard {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        let mut notes = self.0.lock().unwrap();
        let (now, packets) = match event {
            Event::Lost(loss) => (loss.now, loss.packets),
            Event::Timeout(timeout) => (timeout.now, timeout.packets),
            Event::Telemetry(telemetry) => {
                notes.reports.push((telemetry.now, telemetry.fresh_for, telemetry.hops.to_vec()));
                return;
            }
            _ => return,
        };
        notes.lost.extend(packets.iter().map(|lost| (now, lost.cause)));
    }
}

/// Observes the first flow.
#[derive(Default)]
struct Watch {
    heard: Heard,
    /// Wire bytes of data that arrived are not in a segment; its payload is.
    payload: u64,
}

impl Tap for Watch {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        (of.flow == 0).then(|| Box::new(self.heard.clone()) as Box<dyn Observer>)
    }

    fn on_arrival(&mut self, _: Time, flow: u32, segment: &Segment, _: bool, _: &DelaySplit) {
        self.payload += if flow == 0 { u64::from(segment.bytes) } else { 0 };
    }
}

fn carrying(trace: &str, flow: Flow) -> Flow {
    let trace: ReportTrace = trace.parse().unwrap();
    let mss = flow.mss - trace.header_bytes();
    Flow { mss, telemetry: Some(FlowTelemetry { trace, ..FlowTelemetry::default() }), ..flow }
}

fn cubic() -> Flow {
    bulk("cubic", Via::tcp(None))
}

fn with_faults(faults: Faults) -> Flow {
    let mut flow = carrying("C1", cubic());
    flow.telemetry.as_mut().unwrap().faults = faults;
    flow
}

/// 20 Mbit/s and 20 ms with this queue, and this share lost behind it.
fn radio(queue: &str, loss: f64) -> Topology<Body> {
    let lossy = Direction { loss: (loss > 0.0).then_some(LossModel::Rate(loss)), ..link(20.0, queue, 10) };
    topology(&[("radio", ["ap", "sta"], lossy)], 1)
}

fn watched(topology: Topology<Body>, flows: Vec<Flow>, seconds: u64) -> (Outcome, Notes, u64) {
    let mut watch = Watch::default();
    let outcome = run(topology, flows, 1, seconds, Some(&mut watch));
    let notes = std::mem::take(&mut *watch.heard.0.lock().unwrap());
    (outcome, notes, watch.payload)
}

#[test]
fn the_header_is_on_each_packet_and_nothing_else_changes_without_it() {
    let (plain, _, _) = watched(radio("droptail:packets=60", 0.0), vec![cubic()], 5);
    assert_eq!(plain.flows[0].telemetry, None);
    let (traced, notes, payload) = watched(radio("droptail:packets=60", 0.0), vec![carrying("L2", cubic())], 5);
    let flow = &traced.flows[0];
    assert_eq!(flow.wire_bytes_arrived, payload + (52 + 64) * flow.packets_arrived);
    assert_eq!(flow.wire_bytes_arrived, 1500 * flow.packets_arrived, "full packets are as large as without telemetry");
    // One per 10 ms, and one at each loss; the first of a flow says nothing before a round trip.
    let reports = flow.telemetry.unwrap().reports;
    assert!((480..=700).contains(&reports) && reports == notes.reports.len() as u64, "{reports}");
    assert!(notes.reports[0].0 < Time::from_millis(60), "{}", notes.reports[0].0);
}

/// As the source in the kernel has it. A handshake that is lost takes a second, in which nothing is reported, and the source does not give up for that.
#[test]
fn a_handshake_has_no_header() {
    let flow = || Flow { handshake: true, ..carrying("L2", cubic()) };
    let (traced, _, payload) = watched(radio("droptail:packets=60", 0.0), vec![flow()], 2);
    let arrived = &traced.flows[0];
    assert_eq!(arrived.wire_bytes_arrived, payload + (52 + 64) * arrived.packets_arrived - 64);
    let mut latest = Time::ZERO;
    for seed in 1..=16 {
        let lossy = Direction { loss: Some(LossModel::Rate(0.2)), ..link(20.0, "droptail:packets=60", 10) };
        let mut watch = Watch::default();
        run(topology(&[("radio", ["ap", "sta"], lossy)], seed), vec![flow()], seed, 8, Some(&mut watch));
        let notes = watch.heard.0.lock().unwrap();
        latest = latest.max(notes.reports[0].0);
        assert!(notes.reports.len() > 40, "{} reports, seed {seed}", notes.reports.len());
    }
    assert!(latest > Time::from_millis(1000), "a handshake was lost: {latest}");
}

/// 5 Mbit/s pass into a link of 20: no queue, and all that is lost was policed. Beside them a medium that loses 2 % of what passed.
#[test]
fn the_policer_is_known_by_the_reports_of_its_node() {
    let policed = |loss: f64| {
        let (per, action) = (PolicerScope::All, PolicerAction::Drop);
        let policer = Policer { rate: Rate::from_mbps(5.0), burst: Bytes(15_000), per, action };
        let loss = (loss > 0.0).then_some(LossModel::Rate(loss));
        let policed = Direction { policer: Some(policer), loss, ..link(20.0, "droptail:packets=60", 10) };
        topology(&[("radio", ["ap", "sta"], policed)], 1)
    };
    for trace in ["L1", "C1"] {
        let (outcome, notes, _) = watched(policed(0.0), vec![carrying(trace, cubic())], 20);
        let told = outcome.flows[0].telemetry.unwrap();
        assert_eq!((told.medium.all(), told.overflow.all()), (0, 0));
        let truth = told.policed;
        let hops = outcome.hops.iter().filter_map(|hop| hop.policed).map(|policed| policed.packets).sum::<u64>();
        assert!(truth.all() > 100 && truth.all() <= hops, "{trace}: {truth:?} of {hops}");
        // What is missed just after a report of the node is counted just before the next, without a name.
        assert!(truth.policed * 100 >= truth.all() * 80, "{trace}: {truth:?}");
        assert!(notes.lost.iter().any(|(_, cause)| *cause == Cause::Policer), "{trace}");
    }
    let (outcome, _, _) = watched(policed(0.02), vec![carrying("C1", cubic())], 20);
    let told = outcome.flows[0].telemetry.unwrap();
    assert!(told.medium.all() > 50 && told.policed.all() > 50, "{told:?}");
    // What is called policed was, or stood beside it between two reports.
    assert!(told.policed.policed > 5 * told.medium.policed, "{told:?}");
}

#[test]
fn causes_are_the_truth_where_there_is_one_and_where_there_are_both() {
    for trace in ["L1", "C1", "X1"] {
        // The medium alone: 5 % keep CUBIC far from the queue's end.
        let (outcome, notes, _) = watched(radio("droptail:packets=60", 0.05), vec![carrying(trace, cubic())], 20);
        let medium = outcome.flows[0].telemetry.unwrap();
        assert_eq!(medium.overflow.all(), 0);
        let all = medium.medium.all();
        assert!(all > 200 && medium.medium.medium * 100 >= all * 99, "{trace}: {medium:?}");
        let known = notes.lost.iter().filter(|(_, cause)| *cause == Cause::Medium).count();
        assert!(!notes.lost.iter().any(|(_, cause)| *cause == Cause::Congestion), "{trace}");
        assert!(known * 10 >= notes.lost.len() * 8, "{trace}: the sender knows {known} of {}", notes.lost.len());
        // The queue alone.
        let (outcome, notes, _) = watched(radio("droptail:packets=30", 0.0), vec![carrying(trace, cubic())], 20);
        let queue = outcome.flows[0].telemetry.unwrap();
        assert_eq!(queue.medium.all(), 0);
        let all = queue.overflow.all();
        assert!(all > 10 && queue.overflow.overflow * 100 >= all * 95, "{trace}: {queue:?}");
        assert!(!notes.lost.iter().any(|(_, cause)| *cause == Cause::Medium), "{trace}");
    }
    // Both, with the counters that tell them apart: a window of 40 packets over a path that holds 33 and a queue of 5.
    let fixed = carrying("X1", bulk("fixed:window=40", Via::tcp(None)));
    let (outcome, _, _) = watched(radio("droptail:packets=5", 0.02), vec![fixed], 20);
    let both = outcome.flows[0].telemetry.unwrap();
    let (medium, overflow) = (both.medium, both.overflow);
    assert!(medium.all() > 300 && overflow.all() > 300, "{both:?}");
    assert!(medium.medium * 100 >= medium.all() * 99 && overflow.overflow * 100 >= overflow.all() * 95, "{both:?}");
}

/// A path of two bottlenecks, and a flow over the second alone.
fn two_bottlenecks(trace: &str) -> (Outcome, Notes, u64) {
    let links = [
        ("first", ["a", "r"], link(20.0, "droptail:packets=50", 5)),
        ("second", ["r", "b"], link(10.0, "droptail:bytes=45kB", 5)),
    ];
    let topology = topology(&links, 1);
    let long = Flow { way: way(&topology, "a", "b"), ..carrying(trace, cubic()) };
    let short = Flow { way: way(&topology, "r", "b"), ..cubic() };
    watched(topology, vec![long, short], 10)
}

#[test]
fn each_hop_reports_its_own_queue_load_and_flows() {
    let (_, notes, _) = two_bottlenecks("C2");
    let late = notes.reports.iter().filter(|(now, ..)| *now > Time::from_millis(3000));
    let mut full = 0;
    for (now, fresh_for, hops) in late {
        assert!(*fresh_for >= Nanos::from_millis(50) && *fresh_for <= Nanos::from_millis(500), "{now}: {fresh_for}");
        let [first, second] = &hops[..] else { panic!("{now}: {hops:?}") };
        assert_eq!((first.id, second.id), (0, 1), "nodes a and r");
        assert_eq!((first.flows, second.flows), (Some(1), Some(2)));
        // 45 kB are 30 full packets.
        assert_eq!((first.limit_packets, second.limit_packets), (Some(50), Some(30)));
        assert_eq!(first.capacity, Some(Rate::from_mbps(20.0)));
        assert_eq!(second.capacity, Some(Rate::from_mbps(10.0)));
        // The first link only carries what half of the second lets through; the second is full.
        let (one, two) = (first.arrival.unwrap(), second.arrival.unwrap());
        assert!(one < two && one < Rate::from_mbps(15.0), "{now}: {one:?} {two:?}");
        full += usize::from(second.room_packets.unwrap() < 10);
        assert!(first.room_packets.unwrap() > 40, "{now}: {first:?}");
    }
    assert!(full > 100, "the second queue is near its end {full} times");
}

#[test]
fn a_hop_without_room_writes_nothing_and_the_receiver_claims_nothing_of_the_medium() {
    let (_, notes, _) = two_bottlenecks("L1");
    assert!(notes.reports.iter().all(|(_, _, hops)| hops.len() <= 1));
    assert!(!notes.lost.is_empty() && !notes.lost.iter().any(|(_, cause)| *cause == Cause::Medium));
}

#[test]
fn the_same_seed_gives_the_same_reports() {
    let lossy = Faults { drop: 0.3, ..Faults::default() };
    let run = || {
        let (outcome, notes, payload) =
            watched(radio("droptail:packets=60", 0.05), vec![with_faults(lossy.clone())], 5);
        (outcome.flows[0].telemetry, notes.lost, notes.reports, payload)
    };
    let (first, again) = (run(), run());
    assert_eq!(first, again);
    let all = watched(radio("droptail:packets=60", 0.05), vec![with_faults(Faults::default())], 5).1.reports.len();
    let share = first.2.len() as f64 / all as f64;
    assert!((0.6..0.8).contains(&share), "{share} of the reports arrive when 0.3 are lost");
}

#[test]
fn reports_that_stop_are_forgotten_and_the_header_with_them() {
    let stops = Time::from_millis(5_000);
    let faults = Faults { stops: Some(stops), ..Faults::default() };
    let (outcome, notes, payload) = watched(radio("droptail:packets=60", 0.05), vec![with_faults(faults)], 20);
    // Half a second at most, and the way back.
    let stale = stops + Nanos::from_millis(510);
    let causes = |known: bool, after: Time, before: Time| {
        let named =
            |(now, cause): &&(Time, Cause)| *now >= after && *now < before && (*cause != Cause::Unknown) == known;
        notes.lost.iter().filter(named).count()
    };
    assert!(causes(true, Time::ZERO, stops) > 50);
    assert_eq!(causes(true, stale, Time::from_millis(20_000)), 0);
    assert!(causes(false, stale, Time::from_millis(20_000)) > 50, "losses go on");
    // A second later the source gives up, so that most packets have no header.
    let flow = &outcome.flows[0];
    let headers = (flow.wire_bytes_arrived - payload - 52 * flow.packets_arrived) / 56;
    assert!(headers < flow.packets_arrived / 2, "{headers} of {}", flow.packets_arrived);
}

#[test]
fn reports_that_resume_count_again() {
    let (stops, resumes) = (Time::from_millis(5_000), Time::from_millis(5_800));
    let faults = Faults { stops: Some(stops), resumes: Some(resumes), ..Faults::default() };
    let (_, notes, _) = watched(radio("droptail:packets=60", 0.05), vec![with_faults(faults)], 10);
    let known = |from: u64, to: u64| {
        let within = |(now, cause): &&(Time, Cause)| {
            *now >= Time::from_millis(from) && *now < Time::from_millis(to) && *cause == Cause::Medium
        };
        notes.lost.iter().filter(within).count()
    };
    assert_eq!(known(5_510, 5_810), 0);
    assert!(known(6_000, 10_000) > 10, "{}", known(6_000, 10_000));
}

#[test]
fn reports_that_stop_for_some_time_are_asked_for_soon() {
    for outage in [3_000, 5_000, 12_000] {
        let (stops, resumes) = (Time::from_millis(5_000), Time::from_millis(5_000 + outage));
        let faults = Faults { stops: Some(stops), resumes: Some(resumes), ..Faults::default() };
        let mut late = Vec::new();
        for loss in [0.02, 0.03, 0.04, 0.05, 0.06] {
            let (_, notes, _) = watched(radio("droptail:packets=60", loss), vec![with_faults(faults.clone())], 40);
            let first = notes.lost.iter().find(|(now, cause)| *now >= resumes && *cause == Cause::Medium);
            late.push(first.map_or(Nanos::MAX, |(now, _)| *now - resumes));
        }
        // Asked after 1, 2, 4, 8 and 16 s: mostly no later than as long again. One header may be lost, and a loss has to come.
        late.sort_unstable();
        assert!(late[2] <= Nanos::from_millis(outage + 1_500), "{outage}: {late:?}");
    }
}

#[test]
fn a_sink_that_lies_is_heard_and_the_truth_is_on_record() {
    let faults = Faults { forge: Some(Cause::Medium), ..Faults::default() };
    let (outcome, notes, _) = watched(radio("droptail:packets=30", 0.0), vec![with_faults(faults)], 20);
    assert!(notes.lost.iter().any(|(_, cause)| *cause == Cause::Medium));
    assert!(!notes.lost.iter().any(|(_, cause)| *cause == Cause::Congestion));
    let told = outcome.flows[0].telemetry.unwrap();
    assert!(told.overflow.overflow > 0 && told.medium.all() == 0, "{told:?}");
    assert!(outcome.flows[0].sender.lost_by_medium > 0);
}

/// The last hop lies from 2 s on, and the one before it never does.
#[test]
fn a_hop_that_lies_is_heard_from_then_on() {
    let links = [
        ("first", ["a", "r"], link(40.0, "droptail:packets=50", 5)),
        ("second", ["r", "b"], link(20.0, "droptail:packets=60", 5)),
    ];
    let heard = |says: HopLie| {
        let faults = Faults { lie: Some(Lie { says, from: Time::from_millis(2_000) }), ..Faults::default() };
        let mut flow = carrying("C2", cubic());
        flow.telemetry.as_mut().unwrap().faults = faults;
        let topology = topology(&links, 1);
        let flow = Flow { way: way(&topology, "a", "b"), ..flow };
        watched(topology, vec![flow], 4).1.reports
    };
    let (truth, mbps) = (Some(1), |mbps| Some(Rate::from_mbps(mbps)));
    for (says, flows, capacity) in [
        (HopLie::Idle, truth, mbps(20.0)),
        (HopLie::Busy, Some(200), mbps(20.0)),
        (HopLie::Fast, truth, mbps(200.0)),
        (HopLie::Slow, truth, mbps(2.0)),
        (HopLie::Shut, Some(253), mbps(0.1)),
    ] {
        // What a hop says of its capacity comes ten times a second, and not with packets.
        for (now, _, hops) in heard(says).into_iter().filter(|(now, ..)| *now > Time::from_millis(300)) {
            assert_eq!((hops[0].flows, hops[0].capacity), (truth, mbps(40.0)), "{says:?} at {now}");
            let told = (hops[1].flows, hops[1].capacity);
            if now < Time::from_millis(2_000) {
                assert_eq!(told, (truth, mbps(20.0)), "{says:?} at {now}");
            } else if now > Time::from_millis(2_300) {
                assert_eq!(told, (flows, capacity), "{says:?} at {now}");
            }
        }
    }
    let alternates = |says: HopLie| {
        let reports = heard(says);
        let told = reports.iter().filter(|(now, ..)| *now > Time::from_millis(2_300)).map(|(.., hops)| hops[1].flows);
        told.fold((0, None), |(changes, before), now| {
            (changes + u32::from(before.is_some_and(|before| before != now)), Some(now))
        })
        .0
    };
    assert!(alternates(HopLie::EachPacket) > 20 && alternates(HopLie::EachSecond) == 1);
    let silent = heard(HopLie::Silent);
    assert!(silent.iter().filter(|(now, ..)| *now > Time::from_millis(2_300)).all(|(.., hops)| hops.len() == 1));
}

#[test]
fn a_report_takes_as_long_as_an_acknowledgement_or_as_it_is_asked_to() {
    let first = |change: fn(&mut FlowTelemetry)| {
        let mut flow = carrying("L1", cubic());
        change(flow.telemetry.as_mut().unwrap());
        watched(radio("droptail:packets=60", 0.0), vec![flow], 2).1.reports[0].0
    };
    let plain = first(|_| {});
    assert_eq!(first(|telemetry| telemetry.delay = Some(Nanos::from_millis(10))), plain, "the way back takes 10 ms");
    assert_eq!(first(|telemetry| telemetry.delay = Some(Nanos::from_millis(25))), plain + Nanos::from_millis(15));
    assert_eq!(first(|telemetry| telemetry.faults.late = Nanos::from_millis(300)), plain + Nanos::from_millis(300));
    // Nothing was lost and fewer than 32 packets came: the first report ends the first interval.
    assert_eq!(first(|telemetry| telemetry.interval = Nanos::from_millis(13)), plain + Nanos::from_millis(3));
}

#[test]
fn families_of_flows_and_their_ends_are_counted() {
    let topology = radio("droptail:packets=60", 0.02);
    let short = Flow {
        workload: paceline_experiment::Workload::Poisson(paceline_experiment::Poisson {
            mean_gap: Nanos::from_millis(50),
            alpha: 1.2,
            min: Bytes(20_000),
            max: Bytes(200_000),
            scale: None,
            cut: paceline_experiment::Cut::Truncate,
            count: Some(50),
        }),
        ..carrying("C1", cubic())
    };
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(10),
        topology,
        flows: vec![short],
        cross: Vec::new(),
        sample_every: None,
    };
    let outcome = paceline_sim::run(config, None);
    let flow = &outcome.flows[0];
    let told = flow.telemetry.unwrap();
    assert_eq!(flow.completions.len(), 50);
    // What was in flight as a flow ended is not waited for.
    let lost = told.medium.all() + told.overflow.all();
    assert!(lost <= flow.packets_dropped && lost + 20 >= flow.packets_dropped, "{lost} of {}", flow.packets_dropped);
    assert!(told.reports > 50);
}

/// One word for both hops: that of the second, whose link has less to give. It names no flows, no room, and no reason of a loss.
#[test]
fn a_word_tells_of_the_hop_with_the_least_to_give() {
    let (outcome, notes, payload) = two_bottlenecks("W1");
    let flow = &outcome.flows[0];
    assert_eq!(flow.wire_bytes_arrived, payload + (52 + 40) * flow.packets_arrived);
    let late: Vec<_> = notes.reports.iter().filter(|(now, ..)| *now > Time::from_millis(3_000)).collect();
    let of_second = late.iter().filter(|(_, _, hops)| matches!(&hops[..], [hop] if hop.id == 63)).count();
    assert!(of_second * 4 >= late.len() * 3, "{of_second} of {}", late.len());
    for (now, _, hops) in late {
        for hop in hops.iter().filter(|hop| hop.id == 63) {
            let capacity = hop.capacity.unwrap().as_bytes_per_sec() as f64 * 8e-6;
            assert!((8.0..12.5).contains(&capacity), "{now}: {capacity}");
            assert_eq!((hop.flows, hop.room_packets, hop.drops), (None, None, None));
        }
    }
    assert!(!notes.lost.iter().any(|(_, cause)| *cause == Cause::Medium));
}

#[test]
fn a_link_of_a_hundred_gigabits_says_so() {
    let link = Direction { loss: None, ..link(100_000.0, "droptail:packets=1000", 1) };
    let topology = topology(&[("wire", ["a", "b"], link)], 1);
    let (_, notes, _) = watched(topology, vec![carrying("X1", bulk("fixed:window=10", Via::tcp(None)))], 1);
    let capacity = notes.reports.last().unwrap().2[0].capacity.unwrap().as_bytes_per_sec() as f64;
    assert!((capacity / 12.5e9 - 1.0).abs() < 1e-3, "{capacity}");
}
