//! The chirping of the kernel module beside that of `cc`: the same events, natively compiled, neither root nor eBPF.
//!
//! Plans and analyses are equal to the nanosecond. What grows from them is fixed point in C (1/65536 of a packet, a geometry of
//! 1/1024) and floating point in Rust: gap and load may differ by [`TOLERANCE`], the end of chirping by no acknowledgement.
#![cfg(target_os = "linux")]

mod native;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use paceline_cc::chirp::analysis::{Online, available_gap};
use paceline_cc::chirp::geometry::{Chirp, Divisor};
use paceline_cc::event_log::{Reader, Substitute};
use paceline_cc::observe::{Event, Observed, Observer};
use paceline_cc::{Controller, Nanos, Rate, Spec, Time};
use paceline_experiment::{Config, Flow, Seed, Subject, Tap, Topology, Via};
use paceline_path::Direction;

/// Share by which gap and load may differ.
const TOLERANCE: f64 = 0.0005;

/// What `tests/native/chirp_replay.c` answers to `script`; where there is no compiler, says that the test is skipped.
fn answers(test: &str, script: &str) -> Option<String> {
    let out = tempfile::tempdir().unwrap();
    let program = out.path().join("chirp_replay");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/native/chirp_replay.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compile = Command::new(&compiler);
    compile.args(["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    let Ok(compiled) = compile.output() else {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: there is no C compiler ({compiler})");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut run = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut pipe, script) = (run.stdin.take().unwrap(), script.to_owned());
    let writer = std::thread::spawn(move || pipe.write_all(script.as_bytes()));
    let output = run.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_arithmetic_of_chirps_holds() {
    native::holds("the_arithmetic_of_chirps_holds", "chirp");
}

/// Numbers that look random: a multiplier of Knuth's, seeded.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn plans_are_equal() {
    let (mut draw, mut script, mut want) = (Draw(1), String::new(), String::new());
    for _ in 0..1_000 {
        let (packets, gap) = (2 + draw.below(63), 1_000 + draw.below(3_000_000));
        let ratio = 1_024 + draw.below(1_025);
        let by_gaps = draw.below(2);
        writeln!(script, "g {packets} {gap} {ratio} {by_gaps}").unwrap();
        let divisor = if by_gaps == 1 { Divisor::Gaps } else { Divisor::Packets };
        let chirp = Chirp::new(packets as usize, Nanos::from_nanos(gap), ratio as f64 / 1024.0, divisor);
        let step = if packets > 2 { chirp.gap(0) - chirp.gap(1) } else { Nanos::ZERO };
        writeln!(want, "{} {} {}", chirp.gap(0).as_nanos(), step.as_nanos(), chirp.length().as_nanos()).unwrap();
    }
    let Some(got) = answers("plans_are_equal", &script) else { return };
    for ((line, got), want) in script.lines().zip(got.lines()).zip(want.lines()) {
        let (got, want): (Vec<&str>, Vec<&str>) = (got.split(' ').collect(), want.split(' ').collect());
        // A chirp of two packets has one gap, and its step shows nowhere.
        let two = line.starts_with("g 2 ");
        assert!(got[0] == want[0] && got[2] == want[2] && (two || got[1] == want[1]), "{line}: {got:?}, not {want:?}");
    }
    assert_eq!(got.lines().count(), 1_000);
}

#[test]
fn analyses_are_equal() {
    let (mut draw, mut script, mut want) = (Draw(2), String::new(), Vec::new());
    for _ in 0..2_000 {
        let packets = 2 + draw.below(63) as usize;
        let plan = Chirp::new(packets, Nanos::from_micros(20 + draw.below(400)), 2.0, Divisor::Gaps);
        let gaps: Vec<Nanos> =
            (0..packets - 1).map(|index| plan.gap(index) + Nanos::from_nanos(1 + draw.below(20))).collect();
        // A queue that others fill now and then.
        let (mut delays, link) = (vec![1_000_000_i64], 20_000 + draw.below(400_000) as i64);
        for gap in &gaps {
            let burst = if draw.below(6) == 0 { draw.below(400_000) as i64 } else { 0 };
            let before = delays[delays.len() - 1];
            delays.push((before + link + burst - gap.as_nanos() as i64).max(1_000_000 + draw.below(3) as i64 * 1_000));
        }
        write!(script, "l {}", gaps.len()).unwrap();
        gaps.iter().for_each(|gap| write!(script, " {}", gap.as_nanos()).unwrap());
        delays.iter().for_each(|delay| write!(script, " {delay}").unwrap());
        script.push('\n');
        let mut online = Online::new(packets);
        online.push(Nanos::ZERO, delays[0]);
        gaps.iter().zip(&delays[1..]).for_each(|(gap, delay)| online.push(*gap, *delay));
        want.push((available_gap(&gaps, &delays).unwrap().as_nanos(), online.gap().map(Nanos::as_nanos)));
    }
    let Some(got) = answers("analyses_are_equal", &script) else { return };
    let mut judged = 0;
    for ((line, got), (last, first)) in script.lines().zip(got.lines()).zip(&want) {
        let (got_last, got_first) = got.split_once(' ').unwrap();
        assert_eq!(got_last, last.to_string(), "{line}");
        // `Online` judges by the gaps too, which the kernel's train does elsewhere.
        let Some(first) = first else { continue };
        judged += 1;
        assert_eq!(got_first, first.to_string(), "{line}");
    }
    assert!(judged > 500, "{judged} of {}", got.lines().count());
}

/// What a controller saw and found, until its start-up ended.
#[derive(Default)]
struct Watch {
    /// Lines of the script; those that begin a train lack its packets.
    lines: Vec<String>,
    /// Trains: number, line of its first packet, packets.
    trains: BTreeMap<u64, (usize, u64)>,
    /// After each acknowledgement: gap in ns, load in packets or ns, whether it chirps.
    found: Vec<(f64, f64, bool)>,
    shared: usize,
    over: bool,
}

/// A packet's train, and its place there (`core/cc/src/chirp/flight.rs`).
fn place(tag: u64) -> Option<(u64, u64)> {
    let at = tag.checked_sub(1)?;
    Some((at / 64, at % 64))
}

impl Observer for Watch {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        if self.over {
            return;
        }
        match event {
            Event::Sent(_, stamp) => {
                if let Some((number, index)) = place(stamp.tag) {
                    let at = self.lines.len();
                    let train = self.trains.entry(number).or_insert((at, 0));
                    train.1 = train.1.max(index + 1);
                    if train.0 == at {
                        self.lines.push(format!("s {number}"));
                    }
                }
            }
            Event::Acked(ack) => {
                self.shared = self.shared.max(ack.packets.len());
                self.lines.push(format!(
                    "a {} {} {} {} {} {} {}",
                    ack.now.as_nanos(),
                    ack.srtt.as_nanos(),
                    ack.min_rtt.as_nanos(),
                    ack.in_flight / 1448,
                    ack.rtt.unwrap_or(ack.srtt).as_nanos(),
                    ack.ce_packets,
                    ack.packets.len(),
                ));
                for (at, packet) in ack.packets.iter().enumerate() {
                    let Some((number, index)) = place(packet.tag) else { continue };
                    let newest = at + 1 == ack.packets.len() && (self.shared < 2 || ack.packets.len() > 1);
                    let known = packet.received_at.is_some() || newest;
                    self.lines.push(format!(
                        "p {number} {index} {} {} {} {} {}",
                        packet.sent_at.as_nanos(),
                        packet.received_at.unwrap_or(ack.now).as_nanos(),
                        u8::from(known),
                        u8::from(packet.retransmitted),
                        u8::from(packet.ce),
                    ));
                }
                self.lines.push("e".to_owned());
                let (mut gap, mut load, mut chirping) = (0.0, 0.0, false);
                controller.describe(&mut |name, value| match name {
                    "chirp_gap_us" => gap = value * 1e3,
                    "chirp_load_packets" => load = value,
                    "chirp_load_us" => load = value * 1e3,
                    "chirping" => chirping = value > 0.0,
                    _ => {}
                });
                self.over = !chirping;
                self.found.push((gap, load, chirping));
            }
            Event::Lost(_) | Event::Timeout(_) | Event::Restart(_) | Event::Spurious(_) => self.over = true,
            _ => {}
        }
    }
}

impl Watch {
    /// Feeds the same to the module's arithmetic; answers how many acknowledgements were compared and trains sent.
    fn compare(&self, test: &str, generation: &str, what: &str) -> Option<(usize, usize)> {
        let mut lines = self.lines.clone();
        for (number, (at, packets)) in &self.trains {
            // The first two of ours are bursts.
            let kind = if *number < 2 { 1 } else { 2 };
            write!(lines[*at], " {kind} {packets}").unwrap();
        }
        let script = format!("{generation}\n{}\n", lines.join("\n"));
        let answers = answers(test, &script)?;
        let unit = if generation == "ours" { 65_536.0 } else { 1.0 };
        for (at, (answer, (gap, load, chirping))) in answers.lines().zip(&self.found).enumerate() {
            let numbers: Vec<f64> = answer.split(' ').map(|number| number.parse().unwrap()).collect();
            let near = |got: f64, want: f64| (got - want).abs() <= TOLERANCE * want;
            let (got_gap, got_load) = (numbers[0], numbers[1] / unit);
            let same = near(got_gap, *gap) && near(got_load, *load) && (numbers[3] == 0.0) == *chirping;
            assert!(
                same,
                "{what}, acknowledgement {at}: gap {got_gap}, load {got_load}, stage {}, not {gap}, {load}, {chirping}",
                numbers[3]
            );
        }
        assert_eq!(answers.lines().count(), self.found.len(), "{what}");
        Some((self.found.len(), self.trains.len()))
    }
}

/// Sees one flow's controller.
struct Of(u32, Arc<Mutex<Watch>>);

impl Tap for Of {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        (of.flow == self.0).then(|| Box::new(self.1.clone()) as Box<dyn Observer>)
    }
}

/// A flow with this start-up, alone or beside a greedy one, as the simulator runs it.
fn simulated(start: &str, mbps: f64, delay_ms: u64, beside: bool) -> Watch {
    let direction = |rate, queue: Option<&str>| {
        let delay = Nanos::from_millis(delay_ms);
        let queue = queue.map(|queue| queue.parse().unwrap());
        let direction = Direction { rate, delay, queue, ..Direction::default() };
        direction.build(7, delay + delay, &|_| Err("no trace")).unwrap()
    };
    let flow = |spec: &str, start| {
        let spec: Spec = spec.parse().unwrap();
        Flow { ack_every: 1, handshake: true, start, ..Flow::bulk(spec, Via::tcp(None)) }
    };
    let mut flows = vec![flow(&format!("dctcp:start={start}"), Time::from_millis(if beside { 2_000 } else { 0 }))];
    if beside {
        flows.insert(0, flow("dctcp", Time::ZERO));
    }
    let watch = Arc::<Mutex<Watch>>::default();
    let mut tap = Of(u32::from(beside), watch.clone());
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_millis(4_000),
        topology: Topology::dumbbell(
            direction(Some(Rate::from_mbps(mbps)), Some("step:threshold=1ms")),
            direction(None, None),
        ),
        flows,
        cross: Vec::new(),
        sample_every: None,
    };
    paceline_sim::run(config, Some(&mut tap));
    std::mem::take(&mut watch.lock().unwrap())
}

#[test]
fn ours_and_the_branch_find_the_same() {
    for (start, generation) in [("chirp", "ours"), ("chirp-r", "branch")] {
        for (mbps, delay, beside) in [(100.0, 7, false), (20.0, 10, false), (400.0, 20, false), (100.0, 7, true)] {
            let watch = simulated(start, mbps, delay, beside);
            let what = format!("{start}, {mbps} Mbit/s, {delay} ms each way, beside another: {beside}");
            let Some((acks, trains)) = watch.compare("ours_and_the_branch_find_the_same", generation, &what) else {
                return;
            };
            assert!(acks > 50 && trains > 10, "{what}: {acks} acknowledgements, {trains} trains");
            assert!(watch.over, "{what}: it ends");
        }
    }
}

#[test]
fn the_recorded_vector_gives_the_same() {
    let test = "the_recorded_vector_gives_the_same";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/dctcp-start=chirp@tcp-1.jsonl");
    let log = fs::read(path).unwrap();
    let reader = Reader::new("vector", log.as_slice()).unwrap();
    let spec: Spec = reader.header().controller.parse().unwrap();
    let watch = Arc::<Mutex<Watch>>::default();
    let mut controller =
        Substitute::new(Observed::wrap(spec.build(&reader.header().env), Some(Box::new(watch.clone()))));
    for line in reader {
        controller.feed(&line.unwrap().event);
    }
    let watch = watch.lock().unwrap();
    let Some((acks, _)) = watch.compare(test, "ours", "the vector") else { return };
    // A packet of the second burst is lost.
    assert!(acks > 5, "{acks} acknowledgements");
}
