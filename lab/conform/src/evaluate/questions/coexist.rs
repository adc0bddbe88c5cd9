//! Sections 5.1.5, 5.2 and 5.2.3: a few beside many, short beside long.

use paceline_lab::record::{FlowRecord, FramesRecord};

use super::{PLAIN, Question, STARTS, buffered, every, path};
use crate::evaluate::answers::{Axis, measured, reading};
use crate::evaluate::cells::{CellRun, others};
use crate::evaluate::verdict::Bound;
use crate::evaluate::watched::{Side, Span, ends_call};

/// One flow beside several of another kind, with a buffer in BDP: the contestant has the several, and in the last six the one.
const AGAINST: [(&str, u32, f64); 18] = [
    ("reno", 1, 0.5),
    ("reno", 4, 0.5),
    ("reno", 16, 0.5),
    ("reno", 1, 2.0),
    ("reno", 4, 2.0),
    ("reno", 16, 2.0),
    ("cubic", 1, 0.5),
    ("cubic", 4, 0.5),
    ("cubic", 16, 0.5),
    ("cubic", 1, 2.0),
    ("cubic", 4, 2.0),
    ("cubic", 16, 2.0),
    ("", 1, 0.5),
    ("", 4, 0.5),
    ("", 16, 0.5),
    ("", 1, 2.0),
    ("", 4, 2.0),
    ("", 16, 2.0),
];
const FEW: Axis = Axis::conditions(&[
    "Reno against 1, 0.5 BDP",
    "Reno against 4, 0.5 BDP",
    "Reno against 16, 0.5 BDP",
    "Reno against 1, 2 BDP",
    "Reno against 4, 2 BDP",
    "Reno against 16, 2 BDP",
    "CUBIC against 1, 0.5 BDP",
    "CUBIC against 4, 0.5 BDP",
    "CUBIC against 16, 0.5 BDP",
    "CUBIC against 1, 2 BDP",
    "CUBIC against 4, 2 BDP",
    "CUBIC against 16, 2 BDP",
    "it against 1 CUBIC, 0.5 BDP",
    "it against 4 CUBIC, 0.5 BDP",
    "it against 16 CUBIC, 0.5 BDP",
    "it against 1 CUBIC, 2 BDP",
    "it against 4 CUBIC, 2 BDP",
    "it against 16 CUBIC, 2 BDP",
]);
/// When the one that starts late has had ten seconds, until the end.
const SHARED: Span = 20.0..60.0;
/// From its start to the end.
const ALIVE: Span = 10.0..60.0;
const MBPS: f64 = 100.0;

/// Short flows of one, a long flow of another, a buffer in BDP: `it` is the contestant.
const SHORTS: [(&str, &str, f64); 6] = [
    ("cubic@tcp", "it", 1.0),
    ("cubic@tcp", "it", 4.0),
    ("it", "cubic@tcp", 1.0),
    ("it", "cubic@tcp", 4.0),
    ("it", "it", 1.0),
    ("it", "it", 4.0),
];
const SHORT: Axis = Axis::conditions(&[
    "short CUBIC beside long, 1 BDP",
    "short CUBIC beside long, 4 BDP",
    "short beside long CUBIC, 1 BDP",
    "short beside long CUBIC, 4 BDP",
    "short beside long, 1 BDP",
    "short beside long, 4 BDP",
]);

/// A bottleneck's Mbit/s, how many contestants are beside the media, and what controls these; without a controller they react to nothing.
const CALLS: [(f64, u32, &str); 6] =
    [(10.0, 1, ""), (10.0, 4, ""), (50.0, 1, ""), (50.0, 4, ""), (10.0, 1, "sprout"), (10.0, 1, "ledbat++")];
const CALL: Axis = Axis::conditions(&[
    "10 Mbit/s, one",
    "10 Mbit/s, four",
    "50 Mbit/s, one",
    "50 Mbit/s, four",
    "10 Mbit/s, one beside sprout",
    "10 Mbit/s, one beside ledbat++",
]);

/// Of a call: when a frame is late (ITU-T G.114), and from when on frames are judged.
const FRAMES: &str = "late_after = \"150ms\", stats_from = \"10s\"";

/// A call: without control a voice of 200 bytes on the wire each 20 ms and a video of 2 Mbit/s whose frames leave in bursts; with it a
/// video whose encoder follows its controller.
fn call(controller: &str) -> String {
    if controller.is_empty() {
        return format!(
            "\n[[flows]]\ncontestant = \"fixed:window=10000@udp\"\nworkload = {{ media = [\
             {{ name = \"voice\", fps = 50, size = \"148B\", datagram = true, {FRAMES} }}, \
             {{ name = \"video\", fps = 25, size = \"10kB\", priority = 1, datagram = true, {FRAMES} }}] }}\n"
        );
    }
    format!(
        "\n[[flows]]\ncontestant = \"{controller}@udp\"\n\
         workload = {{ media_rate = {{ fps = 25, least = \"150 kbit/s\", most = \"2.5 Mbit/s\", {FRAMES} }} }}\n"
    )
}

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "starvation",
        asks: |name| format!("Does one flow starve beside many of {name}, or one of {name} beside many?"),
        clauses: &["5.2 starvation"],
        setup: |_| {
            "one Reno, and one CUBIC, against 1, 4 and 16 of it, and one of it against as many CUBIC; 100 Mbit/s, 40 ms, drop-tail of 0.5 \
             and 2 BDP, the one starts 10 s late; its share from 20 to 60 s"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic"], FEW, |one, number| {
                let (rival, count, buffer) = AGAINST[number as usize - 1];
                let late = "start = \"10s..10200ms\"\n";
                let flows = if rival.is_empty() {
                    format!(
                        "\n[[flows]]\n{late}\n[[flows]]\ncontestant = \"cubic@tcp\"\ncount = {count}\nstart = \"0ms..200ms\"\n"
                    )
                } else {
                    format!(
                        "\n[[flows]]\ncount = {count}\nstart = \"0ms..200ms\"\n\n[[flows]]\ncontestant = \"{rival}@tcp\"\n{late}"
                    )
                };
                one.at(number, path(MBPS, 40.0, &format!("droptail:bdp={buffer}"), "")).with(flows).watched(60)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("5.2 starvation", "share of what is fair, %", None, Bound::LeastBeside(0.5, 0.0), |run, x| {
                    Some(100.0 * run.watched.mbps(the_one(x), &SHARED) / fair(x))
                }),
                reading("5.2 starvation", "longest below a tenth of it, s", None, Bound::Most(10.0), |run, x| {
                    Some(run.watched.longest_below(the_one(x), fair(x) / 10.0, &ALIVE))
                }),
                reading("5.2 starvation", "longest without delivery, s", None, Bound::LessIsBetter(1.0), |run, x| {
                    Some(run.watched.longest_below(the_one(x), 0.0, &ALIVE))
                }),
            ];
            measured(name, cells, FEW, &["itself", "cubic"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "short",
        asks: |name| {
            format!("How long do short flows take beside a long {name} flow, and short {name} flows beside long ones?")
        },
        clauses: &["5.1.5", "5.2.3"],
        setup: |_| {
            "5 short flows a second of 4 kB to 4 MB (Pareto) beside one long flow; 50 Mbit/s, 40 ms, drop-tail of 1 and 4 BDP".to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], SHORT, |one, number| {
                let (short, long, buffer) = SHORTS[number as usize - 1];
                let who = |who: &str| {
                    if who == "it" { String::new() } else { format!("contestant = \"{who}\"\n") }
                };
                let flows = format!(
                    "{STARTS}{}\n[[flows]]\nstart = \"2s\"\n{}\
                     workload = {{ poisson = {{ mean_gap = \"200ms\", alpha = 1.2, min = \"4kB\", max = \"4MB\" }} }}\n",
                    who(long),
                    who(short)
                );
                one.at(number, buffered(buffer)).with(flows)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("5.1.5", "completion p95, ms", None, Bound::like_or_less(10.0), |run, x| {
                    completion(run, |fct| fct.p95).filter(|_| x >= 3.0)
                }),
                reading(
                    "5.2.3",
                    "completion p95 of CUBIC's beside it, ms",
                    None,
                    Bound::like_or_less(10.0),
                    |run, x| completion(run, |fct| fct.p95).filter(|_| x < 3.0),
                ),
                reading("5.1.5", "completion p50, ms", None, Bound::LessIsBetter(5.0), |run, _| {
                    completion(run, |fct| fct.p50)
                }),
                reading("5.2.3", "left to the long one, Mbit/s", None, Bound::like_or_more(0.5), |run, x| {
                    let long = run.record.flows.iter().find(|flow| flow.fct_ms.is_none());
                    long.map(|flow| flow.throughput_mbps).filter(|_| x >= 3.0)
                }),
            ];
            measured(name, cells, SHORT, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "realtime",
        asks: |name| format!("What becomes of calls beside {name}?"),
        clauses: &["5.2.2"],
        after: "RFC 8867; RFC 8083: circuit breakers of media",
        setup: |_| {
            "a voice (200 bytes each 20 ms) and a video (25 frames of 10 kB a second, each in a burst) that react to nothing, beside one \
             and four bulk flows; and a video of up to 2.5 Mbit/s whose encoder follows Sprout, or LEDBAT++, beside one; 10 and 50 Mbit/s, \
             40 ms, drop-tail of 0.25 s; from 10 to 60 s, of voice and video the one that fares worse"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], CALL, |one, number| {
                let (mbps, count, controller) = CALLS[number as usize - 1];
                let queue = format!("droptail:bytes={}kB", mbps * 0.25 * 125.0);
                let flows = format!("\n[[flows]]\ncount = {count}\nstart = \"0ms..200ms\"\n{}", call(controller));
                one.at(number, path(mbps, 40.0, &queue, "")).with(flows).watched(60)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("5.2.2", "frames' delay p95, ms", None, Bound::like_or_less(5.0), |run, _| {
                    frames(run, |stream| Some(stream.frame_ms?.p95))
                }),
                reading("5.2.2", "frames' delay p99, ms", None, Bound::LessIsBetter(5.0), |run, _| {
                    frames(run, |stream| Some(stream.frame_ms?.p99))
                }),
                reading("5.2.2", "frames lost or later than 150 ms, %", None, Bound::like_or_less(1.0), |run, _| {
                    frames(run, |stream| share_of(stream, stream.made - stream.complete + stream.late?))
                }),
                reading("5.2.2", "frames lost, %", None, Bound::LessIsBetter(1.0), |run, _| {
                    frames(run, |stream| share_of(stream, stream.given_up + stream.lost))
                }),
                reading("5.2.2", "calls that a breaker ends", None, Bound::Most(0.0), |run, _| {
                    let calls = run.watched.flows().iter().zip(&run.own).filter(|(_, own)| !**own);
                    Some(calls.filter(|(call, _)| ends_call(call)).count() as f64)
                }),
            ];
            measured(name, cells, CALL, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
];

/// The largest of a figure over the streams of the calls.
fn frames(run: &CellRun, of: impl Fn(&FramesRecord) -> Option<f64>) -> Option<f64> {
    others(run).flat_map(|flow| &flow.frames).filter_map(of).reduce(f64::max)
}

/// So many of the frames that a stream made, %.
fn share_of(stream: &FramesRecord, frames: u64) -> Option<f64> {
    (stream.made > 0).then(|| 100.0 * frames as f64 / stream.made as f64)
}

/// Whose side the one is on.
fn the_one(x: f64) -> Side {
    if AGAINST.get(x as usize - 1).is_some_and(|(rival, ..)| rival.is_empty()) { Side::Own } else { Side::Beside }
}

/// What the one would have if all had the same, Mbit/s.
fn fair(x: f64) -> f64 {
    MBPS / AGAINST.get(x as usize - 1).map_or(2.0, |(_, count, _)| f64::from(count + 1))
}

fn completion(run: &CellRun, of: fn(&paceline_lab::record::Span) -> f64) -> Option<f64> {
    run.record.flows.iter().filter_map(|flow: &FlowRecord| flow.fct_ms.as_ref()).map(of).reduce(f64::max)
}
