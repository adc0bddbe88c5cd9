//! The controllers in Rust and those for the kernel, informed of the same: the event vectors of `vectors/`, whose windows are small,
//! and simulated flows with larger ones. What a flow does follows the controller in Rust; the other one answers beside it.
//!
//! Windows are compared after each event, within what the integers explain:
//! - CUBIC: a window of whole packets is up to one below a real one, and each reduction rounds down again, from which the next
//!   curve starts; its Reno counts whole packets too. In large windows it is a share: K is that of an approximate cube root (0.3 %).
//! - DCTCP: alpha is equal to the last digit, with `arith=linux`. The window loses up to a packet by rounding.
//! - Copa: fixed point and microseconds alone, some hundredths of a packet. But an epoch that ends a microsecond earlier or later may
//!   double v once more or less. As both then move by the same steps, the distance stays: each second the window is set to that of
//!   the controller in Rust, and nearly all events must find the two together.

use std::fs::File;
use std::io::{BufReader, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};

use paceline_cc::event_log::Reader;
use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Nanos, Phase, Rate, Spec};
use paceline_experiment::{Config, Flow, Seed, Subject, Tap, Topology, Via};
use paceline_path::{Direction, LossModel};

use crate::native::Native;

mod telemetry;

/// An event, and what the controller in Rust answered to it.
#[derive(Clone, Debug)]
struct Answered {
    /// A line of `tests/native/replay.c`.
    line: String,
    /// The window in packets.
    window: f64,
    /// alpha in 1/1024, of DCTCP.
    alpha: u32,
}

impl Answered {
    /// None where the kernel's controllers are not informed of it.
    fn new(event: &Event<'_>, controller: &dyn Controller, mss: f64) -> Option<Self> {
        let mut alpha = 0;
        controller.describe(&mut |name, value| {
            if name == "alpha" {
                alpha = (value * 1024.0) as u32;
            }
        });
        Some(Self { line: line(event, mss)?, window: controller.window() as f64 / mss, alpha })
    }
}

fn line(event: &Event<'_>, mss: f64) -> Option<String> {
    let micros = |span: Nanos| span.as_nanos() / 1000;
    let now = event.now().as_nanos() / 1000;
    let line = match event {
        Event::Acked(ack) => {
            let rtt = ack.rtt.map_or(-1, |rtt| micros(rtt) as i64);
            let phase = match ack.phase {
                Phase::Open => 0,
                Phase::Cwr => 1,
                Phase::Recovery => 2,
                Phase::Loss => 3,
            };
            let (packets, marked) = (ack.packets.len(), ack.ce_packets);
            let (echo, used) = (u8::from(ack.echo), u8::from(ack.window_limited));
            let (una, next) = (ack.una as u32, ack.next as u32);
            let (srtt, least) = (micros(ack.srtt), if ack.min_rtt < Nanos::MAX { micros(ack.min_rtt) } else { 0 });
            let (delivered, interval, limited) = ack.rate.map_or((0, 0, 0), |rate| {
                ((rate.delivered as f64 / mss).round() as u64, micros(rate.interval), u8::from(rate.app_limited))
            });
            format!(
                "ack {now} {rtt} {una} {next} {packets} {marked} {echo} {used} {phase} {srtt} {least} {delivered} {interval} {limited}"
            )
        }
        Event::Lost(loss) => format!("loss {now} {} {}", loss.packets.len(), u8::from(loss.new_episode)),
        Event::Timeout(timeout) => {
            format!("timeout {now} {} {}", timeout.count, (timeout.in_flight as f64 / mss).round())
        }
        Event::Spurious(_) => format!("spurious {now}"),
        Event::Restart(restart) => format!("restart {now} {} {}", micros(restart.idle), micros(restart.rto).max(1)),
        Event::Tick(now) => telemetry::line(*now)?,
        _ => return None,
    };
    Some(line)
}

/// A log of `vectors/`, with its own answers, or with those of another `controller` to the same events.
fn vector(name: &str, controller: Option<&str>) -> Vec<Answered> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name);
    let reader = Reader::new(name, BufReader::new(File::open(path).unwrap())).unwrap();
    let (env, mss) = (reader.header().env, f64::from(reader.header().env.mss));
    let mut other = controller.map(|controller| controller.parse::<Spec>().unwrap().build(&env));
    let mut answered = Vec::new();
    for read in reader {
        let read = read.unwrap();
        let answer = read.event.with(|event| match &mut other {
            Some(other) => {
                event.feed(other.as_mut());
                Answered::new(event, other.as_ref(), mss)
            }
            None => line(event, mss).map(|line| Answered { line, window: read.answers.window as f64 / mss, alpha: 0 }),
        });
        answered.extend(answer);
    }
    answered
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<Answered>>>, f64);

impl Tap for Watch {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new(Self(Arc::clone(&self.0), f64::from(of.env.mss))))
    }
}

impl Observer for Watch {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        self.0.lock().unwrap().extend(Answered::new(event, controller, self.1));
    }
}

/// A simulated flow for 20 s over a link of `mbps` and 40 ms, with a share of `loss` at random.
fn simulated(controller: &str, via: Via, mbps: f64, queue: &str, loss: f64) -> Vec<Answered> {
    let delay = Nanos::from_millis(20);
    let path = |direction: Direction| direction.build(7, delay + delay, &|_| Err("no trace")).unwrap();
    let loss = (loss > 0.0).then_some(LossModel::Rate(loss));
    let queue = Some(queue.parse().unwrap());
    let down = path(Direction { rate: Some(Rate::from_mbps(mbps)), delay, loss, queue, ..Direction::default() });
    let up = path(Direction { delay, ..Direction::default() });
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(20),
        topology: Topology::dumbbell(down, up),
        flows: vec![Flow::bulk(controller.parse().unwrap(), via)],
        cross: Vec::new(),
        sample_every: None,
    };
    let mut watch = Watch::default();
    paceline_sim::run(config, Some(&mut watch));
    let answered = watch.0.lock().unwrap();
    answered.clone()
}

/// What is allowed between the two.
struct Tolerance {
    /// Ours less Rust's, in packets, after any event.
    packets: RangeInclusive<f64>,
    /// The mean of ours over the mean of Rust's.
    mean: RangeInclusive<f64>,
    /// Least share of the events after which they are within half a packet of each other.
    together: f64,
    /// Least share of the losses and timeouts after which they are within a packet and a half.
    answers: f64,
}

fn is_lapse(answered: &Answered) -> bool {
    answered.line.starts_with("loss") || answered.line.starts_with("timeout")
}

/// Feeds `program`, and compares windows; alpha is equal always.
fn compare(replay: &Native, program: &str, what: &str, answered: &[Answered], tolerance: &Tolerance) {
    let mut recorded: Vec<Answered> = Vec::new();
    for answered in answered {
        let now = |answered: &Answered| answered.line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        let before = recorded.last().filter(|before| match program {
            "copa" => now(answered) / 1_000_000 > now(before) / 1_000_000,
            // How losses are answered is compared from the same window.
            _ => program.starts_with("cubic-l") && is_lapse(answered),
        });
        if let Some(before) = before {
            let line = format!("window {} {}", now(answered), (before.window * 65536.0) as u64);
            recorded.push(Answered { line, ..before.clone() });
        }
        recorded.push(answered.clone());
    }
    let answered = &recorded;
    let input: String = answered.iter().flat_map(|answered| [&answered.line, "\n"]).collect();
    let answers = replay.run(&[program], &input);
    assert_eq!(answers.lines().count(), answered.len());
    let mut lapses = (0_u32, 0_u32);
    let (mut ours, mut theirs, mut least, mut most, mut together) = (0.0, 0.0, 0.0_f64, 0.0_f64, 0_usize);
    for (answer, answered) in answers.lines().zip(answered) {
        let mut numbers = answer.split(' ').map(|number| number.parse::<u64>().unwrap());
        let window = numbers.next().unwrap() as f64 / 65536.0;
        (least, most) = (least.min(window - answered.window), most.max(window - answered.window));
        assert!(tolerance.packets.contains(&(window - answered.window)), "{what}: {window}, {answered:?}");
        assert_eq!(numbers.nth(1), Some(u64::from(answered.alpha)), "{what}: {answered:?}");
        if is_lapse(answered) {
            lapses.0 += u32::from((window - answered.window).abs() <= 1.5);
            lapses.1 += 1;
        }
        together += usize::from((window - answered.window).abs() <= 0.5);
        ours += window;
        theirs += answered.window;
    }
    let (share, mean) = (ours / theirs, theirs / answered.len() as f64);
    let together = together as f64 / answered.len() as f64;
    let answers = if lapses.1 > 0 { f64::from(lapses.0) / f64::from(lapses.1) } else { 1.0 };
    let _ = writeln!(
        std::io::stderr(),
        "{program}, {what}: {} events, mean window {mean:.1}, {least:+.2} to {most:+.2} packets, together {together:.3} (after losses {answers:.3} of {}), means {share:.3}",
        answered.len(),
        lapses.1
    );
    assert!(answers >= tolerance.answers, "{what}: {answers} of {}", lapses.1);
    assert!(tolerance.mean.contains(&share), "{what}: {share}");
    assert!(together >= tolerance.together, "{what}: {together}");
}

#[test]
fn cubic_follows_the_one_in_rust() {
    let Some(replay) = Native::compile("cubic_follows_the_one_in_rust", "replay") else { return };
    // Windows of a few packets.
    let tolerance = Tolerance { packets: -2.5..=0.5, mean: 0.8..=1.0, together: 0.0, answers: 0.0 };
    for name in ["cubic@tcp-1.jsonl", "cubic-ecn=on@tcp-1.jsonl"] {
        compare(&replay, "cubic", name, &vector(name, None), &tolerance);
    }
    let tolerance = Tolerance { packets: -3.5..=1.0, mean: 0.96..=1.0, together: 0.0, answers: 0.0 };
    for (mbps, queue) in [(50.0, "droptail:bytes=250kB"), (12.0, "droptail:bytes=20kB")] {
        compare(&replay, "cubic", queue, &simulated("cubic", Via::tcp(None), mbps, queue, 0.0), &tolerance);
    }
    // Where losses are random, Reno's region decides: above the window before the last loss RFC 9438 (section 4.3), and Rust with
    // it, grows by a whole packet a round trip, Linux by 0.53 as before.
    let tolerance = Tolerance { packets: -28.0..=1.0, mean: 0.88..=1.0, together: 0.0, answers: 0.0 };
    let lossy = simulated("cubic", Via::tcp(None), 50.0, "droptail:bytes=250kB", 0.0005);
    compare(&replay, "cubic", "losses at random", &lossy, &tolerance);
}

#[test]
fn dctcp_follows_the_one_in_rust() {
    let Some(replay) = Native::compile("dctcp_follows_the_one_in_rust", "replay") else { return };
    // The kernel's has no cap of a window that is not used: there it grows by up to a packet more.
    let tolerance = Tolerance { packets: -2.0..=1.0, mean: 0.95..=1.04, together: 0.0, answers: 0.0 };
    for name in ["dctcp@tcp-1.jsonl", "prague@tcp-1.jsonl", "cubic-ecn=on@tcp-1.jsonl"] {
        compare(&replay, "dctcp", name, &vector(name, Some("dctcp:arith=linux")), &tolerance);
    }
    let tolerance = Tolerance { packets: -2.0..=1.0, mean: 0.99..=1.01, together: 0.0, answers: 0.0 };
    for loss in [0.0, 0.0005] {
        let queue = "step:threshold=2ms,limit=1000packets";
        let marked = simulated("dctcp:arith=linux", Via::tcp(None), 50.0, queue, loss);
        compare(&replay, "dctcp", &format!("a step, loss {loss}"), &marked, &tolerance);
    }
}

#[test]
fn copa_follows_the_one_in_rust() {
    let Some(replay) = Native::compile("copa_follows_the_one_in_rust", "replay") else { return };
    let exact = Tolerance { packets: -0.05..=0.05, mean: 0.999..=1.001, together: 1.0, answers: 1.0 };
    compare(&replay, "copa", "copa@udp-1.jsonl", &vector("copa@udp-1.jsonl", None), &exact);
    for (mbps, queue, loss, packets) in [
        (12.0, "droptail:bytes=500kB", 0.0, 0.5),
        // v once doubles a round trip later.
        (50.0, "droptail:bytes=250kB", 0.002, 105.0),
        // A cut after heavy loss comes one event later.
        (50.0, "droptail:bytes=10kB", 0.0, 50.0),
    ] {
        let tolerance = Tolerance { packets: -packets..=packets, mean: 0.99..=1.01, together: 0.95, answers: 0.0 };
        for via in [Via::udp(), Via::tcp(None)] {
            let what = format!("{queue}, loss {loss}, {via:?}");
            compare(&replay, "copa", &what, &simulated("copa", via, mbps, queue, loss), &tolerance);
        }
    }
}
