//! Sections 6 and 6.1: a range of rates, delays and queues.

use super::{PLAIN, Question, each, path};
use crate::evaluate::answers::{Answer, Lines, Measure, Point, lost, points, used, waits};
use crate::evaluate::answers::{Axis, short};
use crate::evaluate::cells::{CellRun, Cells};
use crate::evaluate::verdict::Bound;
use crate::evaluate::{AnswerChart, Effort, QuestionCell};

const RATES: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
const ROUNDS: [f64; 3] = [5.0, 40.0, 200.0];
const QUEUES: [f64; 3] = [0.25, 1.0, 4.0];
/// Mbit/s times ms from which on a cell is left out: 1 Gbit/s over 200 ms.
const TOO_MUCH: f64 = 1e5;
/// Seconds of a cell, and of one at 1 Gbit/s.
const SECONDS: [u32; 2] = [20, 6];
/// Of 100 cells, those that must hold; and how much of CUBIC's use each must have.
const NINE_OF_TEN: f64 = 90.0;
const HALF: f64 = 0.5;
/// Points of use that a cell may be below CUBIC's.
const POINTS: f64 = 5.0;

/// A path of the range.
#[derive(Clone, Copy)]
struct Place {
    mbps: f64,
    rtt_ms: f64,
    bdp: f64,
}

/// Every path, in order; of a quick look every third.
fn places(effort: Effort) -> Vec<Place> {
    let all = RATES.into_iter().flat_map(|mbps| {
        ROUNDS.into_iter().flat_map(move |rtt_ms| QUEUES.into_iter().map(move |bdp| Place { mbps, rtt_ms, bdp }))
    });
    let kept = all.filter(|place| place.mbps * place.rtt_ms < TOO_MUCH);
    let step = if effort == Effort::QUICK { 3 } else { 1 };
    // Of a quick look the queues go round as well.
    kept.enumerate().filter(|(index, _)| (index + index / 3) % step == 0).map(|(_, place)| place).collect()
}

pub(super) const QUESTION: Question = Question {
    id: "range",
    asks: |name| format!("Over which rates, delays and queues does {name} use its path?"),
    clauses: &["6", "6.1"],
    setup: |effort| {
        format!(
            "one bulk flow, one run, on {} paths: 1 to 1000 Mbit/s, 5, 40 and 200 ms, drop-tail of 0.25, 1 and 4 BDP, 20 s (6 s at 1 Gbit/s)",
            places(effort).len()
        )
    },
    unasked: "1 Gbit/s over 200 ms",
    cells: |contestant, effort| {
        let numbers: Vec<u32> = (1..).take(places(effort).len()).collect();
        let places = places(effort);
        each(contestant, &["cubic"], &numbers, |one, number| {
            let Place { mbps, rtt_ms, bdp } = places[number as usize - 1];
            let seconds = SECONDS[usize::from(mbps >= 1000.0)];
            let path = path(mbps, rtt_ms, &format!("droptail:bdp={bdp}"), "");
            let weight = 1 + (mbps / 50.0) as u32;
            QuestionCell { seconds: Some(seconds), runs: Some(1), weight, ..one.at(number, path) }
        })
    },
    answer: range,
    ..PLAIN
};

fn range(name: &str, cells: &Cells, effort: Effort) -> Answer {
    const AXIS: Axis = Axis::conditions(&[]);
    let places = places(effort);
    let named = |points: Vec<Point>| -> Vec<Point> {
        let at = |place: &Place| format!("{} Mbit/s, {} ms, {} BDP", place.mbps, place.rtt_ms, short(place.bdp));
        places.iter().zip(points).map(|(place, point)| Point { at: at(place), ..point }).collect()
    };
    let keys = ["itself", "cubic"];
    let of = |read: fn(&CellRun) -> Option<f64>| named(points(cells, AXIS, keys, |run, _| read(run)));
    let uses = of(used);
    let seen: Vec<&Point> = uses.iter().filter(|point| point.own.is_some() && point.cubic.is_some()).collect();
    let near = Bound::LeastBeside(1.0, POINTS);
    let holds =
        seen.iter().filter(|point| near.excess(point.own, point.cubic).is_some_and(|excess| excess <= 0.0)).count();
    let share = (!seen.is_empty()).then(|| 100.0 * holds as f64 / seen.len() as f64);
    let cell = Point { at: String::new(), own: share, spread: None, cubic: None };
    let part = |clause| {
        Measure { clause, what: "paths used within 5 points of CUBIC, %", bound: Bound::Least(NINE_OF_TEN) }
            .of(std::slice::from_ref(&cell))
    };
    let worst = |clause| Measure { clause, what: "used, %", bound: Bound::LeastBeside(HALF, 0.0) }.of(&uses);
    let checks = vec![
        part("6"),
        worst("6"),
        Measure { clause: "6", what: "queue p95, ms", bound: Bound::LessIsBetter(2.0) }.of(&of(waits)),
        Measure { clause: "6", what: "lost, %", bound: Bound::LessIsBetter(1.0) }.of(&of(lost)),
        part("6.1"),
        worst("6.1"),
    ];
    let least = &checks[1];
    let text = format!(
        "It used as much as CUBIC, within {POINTS} points, on {holds} of {} paths; furthest from it at {}: {}, CUBIC {}.",
        seen.len(),
        least.at.as_deref().unwrap_or("none"),
        least.said[0],
        least.said[1],
    );
    let chart = |y, top, read: fn(&CellRun) -> Option<f64>| AnswerChart {
        places: places.iter().map(|place| [place.mbps, place.rtt_ms, place.bdp]).collect(),
        ..AXIS.chart(y, top, Lines::of(cells, name, &keys, read))
    };
    let charts =
        vec![chart("used, %", Some(100.0), used), chart("queue p95, ms", None, waits), chart("lost, %", None, lost)];
    Answer { text, charts, checks }
}
