//! Section 5.1: a controller alone, and beside itself.

use super::{BUFFER, PLAIN, Question, STARTS, buffered, each, path};
use crate::evaluate::answers::{
    Answer, Axis, BREAKER, Lines, Measure, NEVER, lost, measured, points, range, reading, said, used, values, waits,
};
use crate::evaluate::cells::{CellRun, Cells, own};
use crate::evaluate::verdict::Bound;
use crate::evaluate::watched::Side;
use crate::evaluate::{Effort, QuestionCell};
use crate::page::figure;

/// Buffers of a lone flow, in BDP.
const DEEP: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];
/// From this buffer on, in BDP, a standing queue is judged.
const JUDGED_FROM: f64 = 4.0;
/// Flows of itself at once.
const ITSELF: [u32; 4] = [2, 4, 8, 16];
const FLOWS: Axis = Axis::numbers("flows");
/// Round trips of the second flow over those of the first.
const TIMES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Seconds that the second flow of `convergence` has at least to come to its share and keep it.
const CONVERGENCE_SECONDS: u32 = 57;
/// Buffers in BDP where many flows share little.
const SHALLOW: [f64; 5] = [0.1, 0.25, 0.5, 1.0, 1.5];
/// Losses of several flows: twice CUBIC's and a point.
const LOSSES: Bound = Bound::MostBeside(2.0, 1.0);
/// Flows of a run, at most.
const MANY: [u32; 6] = [1, 10, 50, 100, 500, 1000];

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "alone",
        asks: |name| format!("Does a lone {name} flow use its path, and how much does it keep waiting in the buffer?"),
        clauses: &["5.1.2", "6.1", "6.3"],
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 0.5 to 8 BDP; beside it CUBIC and BBR, each alone".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &DEEP, |one, buffer| one.at(buffer, buffered(buffer)))
        },
        answer: alone,
        ..PLAIN
    },
    Question {
        id: "itself",
        asks: |name| format!("Do {name} flows share a link fairly with each other?"),
        clauses: &["5.1.4"],
        setup: |_| "2 to 16 flows, 100 Mbit/s, 40 ms, drop-tail of 1 BDP, starts 1 s apart".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic"], &ITSELF, |one, count| {
                let flows = format!("\n[[flows]]\ncount = {count}\nstagger = \"1s\"\nstart = \"0ms..200ms\"\n");
                one.at(count, path(100.0, 40.0, "droptail:bdp=1", "")).with(flows)
            })
        },
        answer: itself,
        ..PLAIN
    },
    Question {
        id: "rtt",
        asks: |name| format!("Of two {name} flows, what does the one with the longer round trip get?"),
        clauses: &["5.1.4"],
        setup: |_| "two flows, 50 Mbit/s, 20 ms, and 1 to 8 times that, drop-tail of 2 BDP of the shorter".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic"], &TIMES, |one, times| {
                let extra = 10_000.0 * (times - 1.0);
                let flows = format!("{STARTS}\n[[flows]]\nstart = \"0ms..200ms\"\nextra_delay = \"{extra}us\"\n");
                one.at(times, path(50.0, 20.0, "droptail:bdp=2", "")).with(flows)
            })
        },
        answer: rtt,
        ..PLAIN
    },
    Question {
        id: "convergence",
        asks: |name| format!("How long does a second {name} flow take to get its share?"),
        clauses: &["5.1.4"],
        after: "RFC 5166: convergence times",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 and 2 BDP; the second flow starts after 15 s".to_owned(),
        cells: |contestant, _| {
            let flows = format!("{STARTS}\n[[flows]]\nstart = \"15s..16s\"\n");
            each(contestant, &["cubic", "bbr"], &[1.0, 2.0], |one, buffer| QuestionCell {
                seconds: Some(16 + CONVERGENCE_SECONDS + 2),
                series: true,
                ..one.at(buffer, buffered(buffer)).with(flows.clone())
            })
        },
        answer: convergence,
        ..PLAIN
    },
    Question {
        id: "many",
        asks: |name| format!("What becomes of a link with up to a thousand {name} flows?"),
        clauses: &["5.1.3", "5.1.4", "7.2"],
        setup: |effort| {
            format!("1 to {} flows, 500 Mbit/s, 40 ms, drop-tail of 1 BDP, starts within 5 s", effort.flows)
        },
        cells: |contestant, effort| {
            let counts: Vec<u32> = MANY.into_iter().filter(|count| *count <= effort.flows).collect();
            each(contestant, &["cubic"], &counts, |one, count| {
                let stagger = 5_000_000 / count;
                let flows =
                    format!("\n[[flows]]\ncount = {count}\nstagger = \"{stagger}us\"\nstart = \"0ms..200ms\"\n");
                let cell = one.at(count, path(500.0, 40.0, "droptail:bdp=1", "")).with(flows);
                QuestionCell { weight: 10, ..cell.watched(20) }
            })
        },
        answer: many,
        ..PLAIN
    },
    Question {
        id: "shallow",
        asks: |name| format!("How much do eight {name} flows lose where the buffer is shallow?"),
        clauses: &["5.1.3", "7.2"],
        after: "it names BBR version 1 below 1.5 BDP",
        setup: |_| "8 flows, 100 Mbit/s, 40 ms, drop-tail of 0.1 to 1.5 BDP, 30 s; losses after 10 s".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &SHALLOW, |one, buffer| {
                let path = path(100.0, 40.0, &format!("droptail:bdp={buffer}"), "");
                one.at(buffer, path).with("\n[[flows]]\ncount = 8\nstart = \"0ms..200ms\"\n").watched(30)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("5.1.3", "lost after 10 s, %", None, LOSSES, |run, _| {
                    run.watched.lost(Side::Own, &(10.0..30.0))
                }),
                BREAKER,
            ];
            measured(name, cells, BUFFER, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
];

fn alone(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let (use_of, queue_of) = (Lines::of(cells, name, &keys, used), Lines::of(cells, name, &keys, waits));
    let both = |with: &str, line: usize| format!("{}{with}{}", use_of.range(line, " %"), queue_of.range(line, " ms"));
    let text = format!(
        "Alone it used {}; CUBIC used {}, BBR {}.",
        both(" of the link and its 95th percentile of waiting was ", 0),
        both(" with ", 1),
        both(" with ", 2),
    );
    let standing = |run: &CellRun, buffer: f64| waits(run).filter(|_| buffer >= JUDGED_FROM);
    let mut queues = points(cells, BUFFER, ["itself", "cubic"], standing);
    queues.retain(|point| point.own.is_some());
    let uses = points(cells, BUFFER, ["itself", "cubic"], |run, _| used(run));
    let least = Bound::LeastBeside(1.0, 5.0);
    let checks = vec![
        Measure { clause: "5.1.2", what: "queue p95 alone, ms", bound: Bound::MostBeside(0.5, 0.0) }.of(&queues),
        Measure { clause: "6.1", what: "used, %", bound: least }.of(&uses),
        Measure { clause: "6.3", what: "used, %", bound: least }.of(&uses),
    ];
    let charts = vec![BUFFER.chart("used, %", Some(100.0), use_of), BUFFER.chart("queue p95, ms", None, queue_of)];
    Answer { text, charts, checks }
}

/// Jain's index may be this much below CUBIC's.
const JAIN: Bound = Bound::LeastBeside(1.0, 0.05);

fn itself(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let index = |run: &CellRun| run.record.jain;
    let jain = Lines::of(cells, name, &keys, index);
    let text = format!(
        "Jain's index of its 2 to 16 flows was {} (1: all equal); that of CUBIC's flows {}.",
        jain.range(0, ""),
        jain.range(1, "")
    );
    let judged = points(cells, FLOWS, keys, |run, _| index(run));
    let checks = vec![Measure { clause: "5.1.4", what: "Jain's index", bound: JAIN }.of(&judged)];
    Answer { text, charts: vec![FLOWS.chart("Jain's index", Some(1.0), jain)], checks }
}

fn rtt(name: &str, cells: &Cells, _: Effort) -> Answer {
    const AXIS: Axis = Axis::numbers("round trip over the other's");
    let longer = |run: &CellRun| {
        let rates: Vec<f64> = own(run).map(|flow| flow.throughput_mbps).collect();
        let [shorter, longer] = rates[..] else { return None };
        (shorter + longer > 0.0).then_some(100.0 * longer / (shorter + longer))
    };
    let shares = Lines::of(cells, name, &["itself", "cubic"], longer);
    let text = format!(
        "With eight times the round trip the flow got {} % of what both got (equal: 50 %); with CUBIC {} %.",
        shares.last(0),
        shares.last(1)
    );
    let off = points(cells, Axis::numbers("times the RTT"), ["itself", "cubic"], |run, _| {
        longer(run).map(|share| (share - 50.0).abs())
    });
    let what = "of two RTTs: share away from half, %";
    let checks = vec![Measure { clause: "5.1.4", what, bound: Bound::LessIsBetter(1.0) }.of(&off)];
    Answer { text, charts: vec![AXIS.chart("share of the longer, %", Some(100.0), shares)], checks }
}

/// A share holds when this many seconds in a row each half second has 40 to 60 % (our choice: a cycle of BBR is a third of a second
/// here, and a sawtooth of CUBIC's takes longer than both).
const HOLDS_FOR: f64 = 2.0;
const PART: f64 = 0.5;

/// When two rates that are `step` seconds apart begin to be shared so that it holds: seconds after `begins`, at the end of the
/// first half second that is.
fn settles(one: &[f64], other: &[f64], step: f64, begins: f64) -> Option<f64> {
    let wide = (PART / step).ceil() as usize;
    let parts = (HOLDS_FOR / PART).ceil() as usize;
    let shared = |at: usize| {
        let sum = |rates: &[f64]| rates[at..at + wide].iter().sum::<f64>();
        let (one, other) = (sum(one), sum(other));
        (0.4..=0.6).contains(&(other / (one + other).max(1e-9)))
    };
    let last = one.len().min(other.len()).checked_sub(parts * wide)?;
    let at = ((begins / step) as usize..=last).find(|at| (0..parts).all(|part| shared(at + part * wide)))?;
    Some(((at + wide) as f64 * step - begins).max(0.0))
}

fn converges(run: &CellRun) -> Option<f64> {
    let series = run.series.as_ref()?;
    let [first, second] = &series.flows[..] else { return None };
    let begins = run.record.flows.get(1)?.start_s;
    let time = settles(&first.throughput_mbps, &second.throughput_mbps, series.step.as_secs_f64(), begins);
    Some(time.unwrap_or(NEVER))
}

/// `after 0.8 s`; where the buffers differ in whether it ever holds, which.
fn when(points: &[(f64, Option<f64>)]) -> String {
    let (held, never): (Vec<_>, Vec<_>) = points.iter().partition(|(_, time)| time.is_some());
    let within = format!("never within {CONVERGENCE_SECONDS} s");
    let of = |points: &[(f64, Option<f64>)]| points.iter().map(|(x, _)| figure(*x)).collect::<Vec<_>>().join(" and ");
    match (held.is_empty(), never.is_empty()) {
        (true, _) => within,
        (_, true) => format!("after {}", range(&values(&held), " s")),
        _ => {
            format!("after {} with {} BDP and {within} with {} BDP", range(&values(&held), " s"), of(&held), of(&never))
        }
    }
}

fn convergence(name: &str, cells: &Cells, _: Effort) -> Answer {
    let mut times = Lines::of(cells, name, &["itself", "cubic", "bbr"], converges);
    for (_, time) in times.0.iter_mut().flat_map(|line| &mut line.points) {
        *time = time.filter(|time| *time < NEVER);
    }
    let when = |line: usize| when(&times.0[line].points);
    let text = format!(
        "The second flow came to 40 to 60 %, and kept that for 2 s, {}; with CUBIC {}, with BBR {}.",
        when(0),
        when(1),
        when(2)
    );
    let judged = points(cells, BUFFER, ["itself", "cubic"], |run, _| converges(run));
    let what = "time until the share holds, s";
    let checks = vec![Measure { clause: "5.1.4", what, bound: Bound::LessIsBetter(1.0) }.of(&judged)];
    let chart = Axis { log: false, ..BUFFER }.chart(what, None, times);
    Answer { text, charts: vec![chart], checks }
}

fn many(name: &str, cells: &Cells, effort: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let uses = Lines::of(cells, name, &keys, used);
    let losses = Lines::of(cells, name, &keys, lost);
    let queues = Lines::of(cells, name, &keys, waits);
    let most = cells.numbers("itself").last().copied();
    let jain = most.and_then(|flows| cells.at("itself", flows, |run| run.record.jain));
    let text = format!(
        "{} flows of it used {} % of the link, lost {} % of the packets, kept {} ms waiting (p95) and had a Jain's index of {}; as many of CUBIC {} %, {} %, {} ms.",
        effort.flows,
        uses.last(0),
        losses.last(0),
        queues.last(0),
        said(jain),
        uses.last(1),
        losses.last(1),
        queues.last(1),
    );
    let loss = points(cells, FLOWS, keys, |run, _| lost(run));
    let index = points(cells, FLOWS, keys, |run, _| run.record.jain);
    let checks = vec![
        Measure { clause: "5.1.3", what: "lost with many flows, %", bound: LOSSES }.of(&loss),
        Measure { clause: "5.1.4", what: "Jain's index of many", bound: Bound::MoreIsBetter(0.05) }.of(&index),
        BREAKER.measure.of(&points(cells, FLOWS, keys, BREAKER.read)),
    ];
    let charts = vec![
        FLOWS.chart("used, %", Some(100.0), uses),
        FLOWS.chart("lost, %", None, losses),
        FLOWS.chart("queue p95, ms", None, queues),
    ];
    Answer { text, charts, checks }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of the second flow, a twentieth of a second each, over 50 Mbit/s, after 20 s alone.
    fn settled(share: impl Fn(f64) -> f64) -> Option<f64> {
        let share = |at: usize| if at < 400 { 0.0 } else { share((at - 400) as f64 * 0.05) };
        let two: Vec<f64> = (0..1_000).map(|at| 50.0 * share(at)).collect();
        let one: Vec<f64> = two.iter().map(|two| 50.0 - two).collect();
        settles(&one, &two, 0.05, 20.0)
    }

    #[test]
    fn a_share_holds_from_when_it_has_come() {
        // 10 % after 0.1 s, 36 % after 0.4 s, 48 % after 0.55 s, and so on.
        let time = settled(|at| (0.9 * at).min(0.48)).unwrap();
        assert!((0.6..=0.9).contains(&time), "{time}");
        assert_eq!(settled(|_| 0.5), Some(0.5));
        // For a second or so at half, and then a swing that goes too far: it holds from the second time on.
        let time = settled(|at| {
            if at < 1.5 {
                0.5
            } else if at < 4.0 {
                0.8
            } else {
                0.5
            }
        })
        .unwrap();
        assert!((4.0..=4.6).contains(&time), "{time}");
        assert_eq!(settled(|_| 0.3), None);
        assert_eq!(settled(|at| if at < 28.5 { 0.2 } else { 0.5 }), None);
        assert_eq!(settles(&[], &[], 0.05, 20.0), None);
    }

    #[test]
    fn what_never_holds_is_in_the_sentence() {
        let within = format!("never within {CONVERGENCE_SECONDS} s");
        assert_eq!(when(&[(1.0, Some(0.75)), (2.0, Some(3.0))]), "after 0.75 to 3 s");
        assert_eq!(when(&[(1.0, Some(8.3)), (2.0, None)]), format!("after 8.3 s with 1 BDP and {within} with 2 BDP"));
        assert_eq!(when(&[(1.0, None), (2.0, None)]), within);
    }
}
