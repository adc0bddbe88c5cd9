//! A controller that holds to its rules holds to them in a capture at its sender too: what is in flight is counted as the sender counts it,
//! whatever cards put together, wherever the capture begins, whatever other flows are in it.

use std::sync::{Arc, Mutex};

use paceline_cc::Time;
use paceline_conform::capture;
use paceline_conform::rig::Rig;
use paceline_conform::suite::Score;
use paceline_conform::trajectory::Trajectory;
use paceline_experiment::{SharedTap, Tap};
use paceline_lab::run::{self, Observers, World};
use paceline_transport::{AckSegment, Segment, Sender};

/// A packet at the sender: what stands in its header.
#[derive(Clone, Debug)]
struct Seen {
    at: u64,
    out: bool,
    syn: bool,
    seq: u64,
    ack: u64,
    sacks: Vec<[u64; 2]>,
    bytes: u32,
}

/// Sees the packets of a flow of the simulator as they leave and as they are heard.
#[derive(Default)]
struct Watch(Vec<Seen>);

impl Tap for Watch {
    fn on_sent(&mut self, now: Time, _: u32, segment: &Segment) {
        let (at, syn, seq) = (now.as_nanos(), segment.syn, segment.seq);
        self.0.push(Seen { at, out: true, syn, seq, ack: 0, sacks: Vec::new(), bytes: segment.bytes });
    }

    fn on_ack(&mut self, now: Time, _: u32, ack: &AckSegment, _: &dyn Sender) {
        let duplicate = ack.duplicate.iter().chain(ack.sacks()).map(|block| [block.start, block.end]);
        let (at, syn, sacks) = (now.as_nanos(), ack.syn, duplicate.take(3).collect());
        self.0.push(Seen { at, out: false, syn, seq: 0, ack: ack.cumulative, sacks, bytes: 0 });
    }
}

/// The packets of this contestant on this path.
fn packets(contestant: &str, rig: Rig) -> Vec<Seen> {
    let contestant = contestant.parse().unwrap_or_else(|error| panic!("{error}"));
    let plan = rig.plan(&contestant).unwrap_or_else(|error| panic!("{error}"));
    let watch = Arc::new(Mutex::new(Watch::default()));
    let observers = Observers { tap: Some(Arc::clone(&watch) as SharedTap), ..Observers::default() };
    run::run(&plan, &contestant, World::Sim, &observers).unwrap_or_else(|error| panic!("{error}"));
    drop(observers);
    // The simulator's flows begin with data.
    let syn = Seen { at: 0, out: true, syn: true, seq: 0, ack: 0, sacks: Vec::new(), bytes: 0 };
    [vec![syn], Arc::into_inner(watch).unwrap().into_inner().unwrap().0].concat()
}

/// The stream's positions begin here, so that sequence numbers wrap.
const FIRST: u64 = u32::MAX as u64 - 100_000;

/// A capture in nanoseconds of IPv4 alone: the packets of each of these senders.
fn pcap(flows: &[&[Seen]]) -> Vec<u8> {
    let mut all: Vec<(u8, &Seen)> =
        flows.iter().zip(1..).flat_map(|(packets, host)| packets.iter().map(move |seen| (host, seen))).collect();
    all.sort_by_key(|(_, seen)| seen.at);
    let mut file = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 228].map(u32::to_le_bytes).concat();
    for (number, (host, seen)) in all.into_iter().enumerate() {
        let packet = ip(host, number as u16, seen);
        let time = [(seen.at / 1_000_000_000) as u32, (seen.at % 1_000_000_000) as u32];
        let kept = packet.len() as u32;
        file.extend([time[0], time[1], kept, kept + seen.bytes].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

/// The headers of a packet, without its payload.
fn ip(host: u8, number: u16, seen: &Seen) -> Vec<u8> {
    let position = |position: u64| ((FIRST + position) as u32).to_be_bytes();
    let mut options = vec![1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
    if !seen.sacks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * seen.sacks.len() as u8]);
        options.extend(seen.sacks.iter().flatten().flat_map(|edge| position(*edge)));
    }
    let (from, to, ports) = match seen.out {
        true => ([10, 0, 0, host], [10, 0, 1, 1], [443_u16, 5000]),
        false => ([10, 0, 1, 1], [10, 0, 0, host], [5000, 443]),
    };
    let mut tcp = ports.map(u16::to_be_bytes).concat();
    tcp.extend(position(seen.seq));
    tcp.extend(position(seen.ack));
    let flags = if seen.syn { 0x12 } else { 0x10 };
    tcp.extend([((20 + options.len()) as u8 / 4) << 4, flags, 9, 9, 0, 0, 0, 0]);
    tcp.extend(options);
    // What a card is to cut has no length that fits.
    let length = u16::try_from(20 + tcp.len() + seen.bytes as usize).unwrap_or(0);
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[4..6].copy_from_slice(&number.max(1).to_be_bytes());
    packet.extend(from);
    packet.extend(to);
    packet.extend(tcp);
    packet
}

fn read(file: &[u8], flow: Option<&str>) -> Trajectory {
    let flow = flow.map(|flow| flow.parse().unwrap());
    capture::read("c.pcap", file, flow).unwrap_or_else(|error| panic!("{error}"))
}

/// Rules with their verdicts, of those that are judged on this path.
fn verdicts(rules_of: &str, rig: Rig, of: Trajectory) -> Vec<(&'static str, &'static str, f64)> {
    let judged = Score::of_one(rules_of, of).judged.into_iter().filter(|one| one.rule.rig == rig);
    judged
        .map(|one| (one.rule.id, one.verdict.word(), one.verdict.seen().map_or(f64::NAN, |seen| seen.value)))
        .collect()
}

/// Each of these rules holds, and none departs.
#[track_caller]
fn assert_holds(what: &str, rules_of: &str, rig: Rig, of: Trajectory, seen: &[&str]) {
    let verdicts = verdicts(rules_of, rig, of);
    let departs = verdicts.iter().any(|(_, word, _)| *word == "departs");
    let held: Vec<_> = verdicts.iter().filter(|(_, word, _)| *word == "holds").map(|(rule, ..)| *rule).collect();
    assert!(!departs && seen.iter().all(|rule| held.contains(rule)), "{what}: {verdicts:?}");
}

const RENO: [&str; 3] = ["reno-halving", "reno-increase", "reno-once"];

#[test]
fn reno_holds_to_its_rules_in_every_kind_of_capture() {
    let seen = packets("reno@tcp", Rig::Middle);
    let assert_holds = |what: &str, packets: &[Seen], rules: &[&str]| {
        assert_holds(what, "reno", Rig::Middle, read(&pcap(&[packets]), None), rules);
    };
    let with_start = [&RENO[..], &["reno-slow-start"]].concat();
    assert_holds("plain", &seen, &with_start);
    let bare: Vec<Seen> = seen.iter().map(|seen| Seen { sacks: Vec::new(), ..seen.clone() }).collect();
    assert_holds("without SACK", &bare, &with_start);
    let middle: Vec<Seen> = seen.iter().filter(|seen| seen.at > 7_000_000_000).cloned().collect();
    assert_holds("from the middle on", &middle, &RENO);
    let judged = verdicts("reno", Rig::Middle, read(&pcap(&[&middle]), None));
    assert!(judged.iter().any(|(rule, word, _)| (*rule, *word) == ("reno-slow-start", "not seen")), "{judged:?}");
    let mut few: Vec<Seen> = seen.clone();
    let mut number = 0;
    few.retain(|seen| {
        number += usize::from(!seen.out && !seen.syn);
        seen.out || seen.syn || number % 4 != 0
    });
    assert_holds("acknowledgements that are not in it", &few, &RENO);
}

/// Puts up to this many segments in a row together, as they are before a card cuts them.
fn together(seen: &[Seen], most: u32) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    // The last that went out, while nothing was heard.
    let mut last = None;
    for seen in seen {
        let joins = last.filter(|&last: &usize| {
            let before = &all[last];
            seen.out && seen.bytes > 0 && before.seq + u64::from(before.bytes) == seen.seq && before.bytes < most * 1448
        });
        match joins {
            Some(last) => all[last].bytes += seen.bytes,
            None => {
                all.push(seen.clone());
                last = (seen.out && seen.bytes > 0).then(|| all.len() - 1);
            }
        }
    }
    all
}

#[test]
fn segments_that_a_card_cuts_are_counted_as_packets() {
    let seen = packets("reno@tcp", Rig::Middle);
    for most in [2, 44] {
        let together = together(&seen, most);
        assert!(together.len() < seen.len() && together.iter().any(|seen| seen.bytes > 1448));
        let read = read(&pcap(&[&together]), None);
        assert_eq!(read.mss, 1448.0);
        assert_holds(&format!("{most} together"), "reno", Rig::Middle, read, &RENO);
    }
}

#[test]
fn each_flow_of_a_capture_is_judged_by_itself() {
    let (reno, cubic) = (packets("reno@tcp", Rig::Long), packets("cubic@tcp", Rig::Long));
    let file = pcap(&[&reno, &cubic]);
    let cubics = read(&file, Some("10.0.0.2:443-10.0.1.1:5000"));
    assert_holds("CUBIC", "cubic", Rig::Long, cubics, &["cubic-beta", "cubic-curve", "cubic-once"]);
    // Any port of these hosts.
    let renos = read(&file, Some("10.0.0.1:0-10.0.1.1:0"));
    assert!(renos.name.ends_with("10.0.0.1:443-10.0.1.1:5000"), "{}", renos.name);
    let kept = verdicts("cubic", Rig::Long, renos);
    let (_, word, value) = kept.iter().find(|(rule, ..)| *rule == "cubic-beta").unwrap();
    assert!(*word == "departs" && (0.47..0.54).contains(value), "{kept:?}");
}

#[test]
fn cubic_holds_to_its_rules_in_a_capture() {
    for (rig, rules) in [
        (Rig::Long, &["cubic-beta", "cubic-curve", "cubic-once", "cubic-slow-start-exit"][..]),
        (Rig::Falling, &["cubic-fast-convergence"]),
        (Rig::Short, &["cubic-reno-friendly"]),
    ] {
        let file = pcap(&[&packets("cubic@tcp", rig)]);
        assert_holds(rig.name(), "cubic", rig, read(&file, None), rules);
    }
}
