//! Sections 7.3, 7.8, 7.9 and 7.10: paths that change, and what comes upon them.

use paceline_lab::measure::jain;

use super::{PLAIN, Question, every};
use crate::evaluate::answers::{Answer, Axis, NEVER, lost, measured, reading, used};
use crate::evaluate::cells::{CellRun, Cells};
use crate::evaluate::verdict::Bound;
use crate::evaluate::watched::Side;

/// How the delay varies, with the instants of its steps in seconds.
const DELAY: Axis = Axis::conditions(&["40 to 120 ms and back", "8 ms steps (low orbit)", "grants each 20 ms"]);
const DELAYS: [(&str, &[f64]); 3] = [
    (
        "rate = \"50 Mbit/s\"\ndelay_schedule = [[\"0s\", \"20ms\"], [\"20s\", \"100ms\"], [\"40s\", \"20ms\"]]\n",
        &[20.0, 40.0],
    ),
    (
        "rate = \"50 Mbit/s\"\ndelay_schedule = [[\"0s\", \"20ms\"], [\"15s\", \"28ms\"], [\"30s\", \"20ms\"], [\"45s\", \"28ms\"]]\n",
        &[15.0, 30.0, 45.0],
    ),
    (
        "schedule = [[\"0s\", \"250 Mbit/s\"], [\"4ms\", \"0 bit/s\"]]\nschedule_lap = \"20ms\"\ndelay = \"20ms\"\n",
        &[20.0],
    ),
];
/// Seconds after a step that are judged.
const AFTER: f64 = 10.0;

/// Every how many seconds the path changes, with how many of outage at each.
const ROUTES: [(f64, f64); 8] =
    [(1.0, 0.0), (1.0, 0.05), (10.0, 0.0), (10.0, 0.05), (10.0, 3.0), (30.0, 0.0), (30.0, 0.05), (30.0, 3.0)];
const ROUTE: Axis = Axis::conditions(&[
    "each s",
    "each s, 50 ms outage",
    "each 10 s",
    "each 10 s, 50 ms outage",
    "each 10 s, 3 s outage",
    "each 30 s",
    "each 30 s, 50 ms outage",
    "each 30 s, 3 s outage",
]);
/// The two paths: Mbit/s, and one way's delay in ms. Both buffers hold one BDP of the first.
const NEAR: (f64, u32) = (50.0, 20);
const DETOUR: (f64, u32) = (5.0, 50);
/// Milliseconds that one BDP of the detour waits there.
const DETOUR_BDP_MS: f64 = 100.0;

const CROWD: Axis = Axis::conditions(&["25 Mbit/s for 5 s, then 50 flows"]);
const MOVED: Axis = Axis::conditions(&["ten flows moved and back"]);
/// The rate of the path that ten flows are moved from and to, Mbit/s.
const TEN: [f64; 2] = [60.0, 20.0];

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "delay",
        asks: |name| format!("How does {name} take a change of the least delay?"),
        clauses: &["7.3"],
        setup: |_| {
            "50 Mbit/s, drop-tail of 250 kB, for a minute: 40 ms, 120 ms from 20 to 40 s; 8 ms more and less every 15 s; 40 ms with \
             grants of 4 ms every 20 ms"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], DELAY, |one, number| {
                let (link, _) = DELAYS[number as usize - 1];
                let path = format!("[down]\n{link}queue = \"droptail:bytes=250kB\"\n\n[up]\ndelay = \"20ms\"\n");
                one.at(number, path).watched(60)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.3", "used in 10 s after a step, %", Some(100.0), Bound::MoreIsBetter(1.0), |run, x| {
                    steps(x).map(|at| 2.0 * run.watched.mbps(Side::Own, &(at..at + AFTER))).reduce(f64::min)
                }),
                reading("7.3", "until 90 % again beyond 10 s, s", None, Bound::like_or_less(0.0), |run, x| {
                    let until = |at| run.watched.reaches(Side::Own, 45.0, &(at..at + 2.0 * AFTER));
                    steps(x).map(|at| until(at).map_or(NEVER, |time| (time - AFTER).max(0.0))).reduce(f64::max)
                }),
                reading("7.3", "queue p95 after the last step, ms", None, Bound::LessIsBetter(2.0), |run, x| {
                    steps(x).last().and_then(|at| run.watched.queue_p95(Side::Own, &(at + 1.0..at + AFTER)))
                }),
            ];
            measured(name, cells, DELAY, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "transient",
        asks: |name| format!("What does {name} do when others come suddenly, and go?"),
        clauses: &["7.8"],
        setup: |_| {
            "50 Mbit/s, 40 ms, drop-tail of 1 BDP; 25 Mbit/s that react to nothing from 20 to 25 s, 50 CUBIC flows of 100 kB at 30 s".to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], CROWD, |one, number| {
                let flows = "\n[[flows]]\n\n[[flows]]\ncontestant = \"cubic@tcp\"\ncount = 50\nstart = \"30s..30100ms\"\n\
                             workload = { bytes = \"100kB\" }\n\n[[cross]]\nrate = \"25 Mbit/s\"\nstart = \"20s\"\nstop = \"25s\"\n";
                one.at(number, super::plain("")).with(flows).watched(50)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.8", "lost at the onset, %", None, Bound::LessIsBetter(1.0), |run, _| {
                    run.watched.lost(Side::Own, &(20.0..25.0))
                }),
                reading("7.8", "queue p95 at the onset, ms", None, Bound::LessIsBetter(2.0), |run, _| {
                    run.watched.queue_p95(Side::Own, &(20.0..25.0))
                }),
                reading("7.8", "until 90 % of what is free again, s", None, Bound::LessIsBetter(0.5), |run, _| {
                    Some(run.watched.reaches(Side::Own, 45.0, &(25.0..30.0)).unwrap_or(NEVER))
                }),
                reading("7.8", "completion p95 of the 50, ms", None, Bound::LessIsBetter(20.0), |run, _| {
                    let crowd = run.record.flows.iter().filter_map(|flow| flow.fct_ms).map(|fct| fct.max);
                    crate::trajectory::quantile(crowd.collect(), 0.95)
                }),
            ];
            measured(name, cells, CROWD, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "reroute",
        asks: |name| format!("How does {name} take a change of the whole path?"),
        clauses: &["7.9"],
        setup: |_| {
            "50 Mbit/s, 40 ms, and 5 Mbit/s, 100 ms, in turn, drop-tail of 250 kB, for a minute: a change every 1, 10 and 30 s, with an \
             outage of 0, 50 ms and 3 s at each"
                .to_owned()
        },
        unasked: "an outage of 3 s at a change every second, which would be an outage all the time",
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], ROUTE, |one, number| {
                one.at(number, route(ROUTES[number as usize - 1])).watched(60)
            })
        },
        answer: reroute,
        ..PLAIN
    },
    Question {
        id: "failover",
        asks: |name| format!("What becomes of ten {name} flows that are moved to a smaller path at once?"),
        clauses: &["7.10"],
        setup: |_| {
            "ten flows, 60 Mbit/s, 40 ms, drop-tail of 300 kB; at 20 s all are moved to 20 Mbit/s, 80 ms, at 40 s back"
                .to_owned()
        },
        unasked: "flows that are moved one after the other",
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], MOVED, |one, number| {
                let path = "[down]\nschedule = [[\"0s\", \"60 Mbit/s\"], [\"20s\", \"20 Mbit/s\"], [\"40s\", \"60 Mbit/s\"]]\n\
                            delay_schedule = [[\"0s\", \"20ms\"], [\"20s\", \"60ms\"], [\"40s\", \"20ms\"]]\n\
                            queue = \"droptail:bytes=300kB\"\n\n[up]\ndelay = \"20ms\"\n";
                one.at(number, path.to_owned()).with("\n[[flows]]\ncount = 10\nstagger = \"100ms\"\n").watched(60)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.10", "least share of what is fair, %", None, Bound::LeastBeside(0.5, 0.0), |run, _| {
                    moved(run).into_iter().flatten().reduce(f64::min)
                }),
                reading("7.10", "longest below a tenth of it, s", None, Bound::Most(10.0), |run, _| {
                    run.watched.flows().iter().map(|flow| starved(flow)).reduce(f64::max)
                }),
                reading("7.10", "until 90 % is used, s", None, Bound::LessIsBetter(0.5), |run, _| {
                    let until = |(mbps, from): (f64, f64)| {
                        run.watched.reaches(Side::Own, 0.9 * mbps, &(from..from + 20.0)).unwrap_or(NEVER)
                    };
                    Some(until((TEN[1], 20.0)).max(until((TEN[0], 40.0))))
                }),
                reading("7.10", "Jain's index after it", Some(1.0), Bound::MoreIsBetter(0.05), |run, _| {
                    moved(run).iter().map(|shares| jain(shares)).reduce(f64::min)
                }),
                reading("7.10", "lost after it, %", None, Bound::LessIsBetter(1.0), |run, _| {
                    run.watched.lost(Side::Own, &(20.0..60.0))
                }),
            ];
            measured(name, cells, MOVED, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
];

/// The instants of a condition's steps.
fn steps(x: f64) -> impl Iterator<Item = f64> {
    DELAYS.get(x as usize - 1).map_or(&[][..], |(_, steps)| steps).iter().copied()
}

/// The instants at which the path changes.
fn changes(every: f64) -> impl Iterator<Item = f64> {
    (1..).map(move |turn| f64::from(turn) * every).take_while(|at| *at < 60.0)
}

fn route((every, outage): (f64, f64)) -> String {
    let turn = |index: usize| if index.is_multiple_of(2) { DETOUR } else { NEAR };
    let (mut rates, mut delays, mut outages) =
        (format!("[\"0s\", \"{} Mbit/s\"]", NEAR.0), format!("[\"0s\", \"{}ms\"]", NEAR.1), String::new());
    for (index, at) in changes(every).enumerate() {
        let (mbps, ms) = turn(index);
        rates += &format!(", [\"{at}s\", \"{mbps} Mbit/s\"]");
        delays += &format!(", [\"{at}s\", \"{ms}ms\"]");
        if outage > 0.0 {
            outages += &format!("[\"{at}s\", \"{}s\"], ", (at + outage).min(60.0));
        }
    }
    let outages =
        if outages.is_empty() { outages } else { format!("outages = [{}]\n", outages.trim_end_matches(", ")) };
    format!(
        "[down]\nschedule = [{rates}]\ndelay_schedule = [{delays}]\n{outages}queue = \"droptail:bytes=250kB\"\n\n[up]\ndelay = \"20ms\"\n"
    )
}

fn reroute(name: &str, cells: &Cells, _: crate::evaluate::Effort) -> Answer {
    let readings = [
        reading("7.9", "used, %", Some(100.0), Bound::LeastBeside(1.0, 5.0), |run, _| used(run)),
        reading("7.9", "until 80 % of the new rate, s", None, Bound::MostBeside(2.0, 1.0), |run, x| {
            after(run, x, true).or(after(run, x, false))
        }),
        reading("7.9", "until the queue is below the detour's BDP, s", None, Bound::MostBeside(2.0, 1.0), |run, x| {
            let (every, outage) = *ROUTES.get(x as usize - 1)?;
            let drained = |at: f64| run.watched.drains(Side::Own, DETOUR_BDP_MS, &(at + outage + 0.2..at + every));
            (every > 1.0).then(|| changes(every).step_by(2).map(|at| drained(at).unwrap_or(NEVER)).fold(0.0, f64::max))
        }),
        reading("7.9", "lost, %", None, Bound::LessIsBetter(1.0), |run, _| lost(run)),
        reading("7.9", "silence after 3 s of outage, s", None, Bound::Most(3.2), |run, x| {
            let (every, outage) = *ROUTES.get(x as usize - 1)?;
            let silent = |at: f64| run.watched.silent_from(at + outage).unwrap_or(NEVER);
            (outage >= 3.0).then(|| changes(every).map(silent).fold(0.0, f64::max))
        }),
    ];
    measured(name, cells, ROUTE, &["itself", "cubic", "bbr"], &readings)
}

/// The longest time until 80 % of a new rate, from the end of an outage: of the changes to the larger one, or to the smaller.
fn after(run: &CellRun, x: f64, larger: bool) -> Option<f64> {
    let (every, outage) = *ROUTES.get(x as usize - 1)?;
    let mbps = if larger { NEAR.0 } else { DETOUR.0 };
    let until = |at: f64| {
        let reached = run.watched.reaches(Side::Own, 0.8 * mbps, &(at + outage..at + every));
        reached.unwrap_or(NEVER)
    };
    if every <= 1.0 {
        return None;
    }
    changes(every).skip(usize::from(larger)).step_by(2).map(until).reduce(f64::max)
}

/// Of each flow what it got of its fair share, in the second half of each of the two spans after a move, percent.
fn moved(run: &CellRun) -> Vec<Vec<f64>> {
    let share = |mbps: f64, from: usize| {
        let fair = mbps / run.watched.flows().len().max(1) as f64;
        let of = |flow: &Vec<_>| rate(flow, from + 10, from + 20) / fair * 100.0;
        run.watched.flows().iter().map(of).collect()
    };
    vec![share(TEN[1], 20), share(TEN[0], 40)]
}

/// Mbit/s of a flow from one second to another.
fn rate(flow: &[crate::evaluate::watched::Step], from: usize, to: usize) -> f64 {
    let bytes: u64 = flow.iter().skip(from).take(to - from).map(|step| step.bytes).sum();
    bytes as f64 / (to - from) as f64 / 125_000.0
}

/// Seconds in a row in which a flow had less than a tenth of its share after a move.
fn starved(flow: &[crate::evaluate::watched::Step]) -> f64 {
    let (mut longest, mut row) = (0.0_f64, 0.0);
    for second in 20..60 {
        let fair = if second < 40 { TEN[1] } else { TEN[0] } / 10.0;
        row = if rate(flow, second, second + 1) > fair / 10.0 { 0.0 } else { row + 1.0 };
        longest = longest.max(row);
    }
    longest
}
