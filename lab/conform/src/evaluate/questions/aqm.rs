//! Section 7.1: active queue management, and marks.

use paceline_cc::controller::Ecn;

use super::{CUBIC, PLAIN, Question, STARTS, ecn, every, path};
use crate::evaluate::answers::{Answer, Axis, Check, Lines, Measure, called, percent, points, short, used};
use crate::evaluate::cells::{CellRun, Cells, own};
use crate::evaluate::verdict::{Bound, ClauseVerdict};
use crate::evaluate::watched::Side;
use crate::evaluate::{AnswerLine, Effort, QuestionCell};

/// L4S in three conditions.
const L4S: Axis = Axis::conditions(&["DualPI2 alone", "DualPI2 beside CUBIC", "step marking at 1 ms"]);
/// Queues with an AQM for everybody.
const AQM: Axis = Axis::conditions(&["CoDel", "FQ-CoDel", "PIE", "RED"]);
const QUEUES: [&str; 4] = ["codel", "fq_codel", "pie", "red:min=30,limit=1000packets"];
const FAIR: &str = "FQ-CoDel";
/// A mark takes off as much as a loss does, or more (RFC 3168, section 5): the larger factor of RFC 5681 and RFC 9438, and 5 %.
const AT_A_MARK: f64 = 0.7 * 1.05;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "l4s",
        asks: |name| format!("What does {name} do at an L4S bottleneck?"),
        clauses: &["7.1"],
        after: "RFC 9330, RFC 9332",
        setup: |_| "100 Mbit/s, 20 ms: DualPI2 alone and beside CUBIC, marks from 1 ms of queue on".to_owned(),
        cells: |contestant, _| {
            let beside_cubic = format!("{STARTS}{CUBIC}");
            let conditions =
                [("dualpi2", ""), ("dualpi2", beside_cubic.as_str()), ("step:threshold=1ms,limit=2MB", "")];
            every(contestant, &["cubic", "prague"], L4S, |one, number| {
                let (queue, flows) = conditions[number as usize - 1];
                one.at(number, path(100.0, 20.0, queue, "")).with(flows)
            })
        },
        answer: l4s,
        ..PLAIN
    },
    Question {
        id: "aqm",
        asks: |name| format!("What does {name} do where a queue drops, or marks, before it is full?"),
        clauses: &["7.1"],
        after: "RFC 3168: a mark is answered like a loss",
        setup: |_| "50 Mbit/s, 40 ms, 30 s: CoDel, FQ-CoDel, PIE and RED, alone and beside a CUBIC flow".to_owned(),
        cells: |contestant, _| {
            let alone = every(contestant, &["cubic"], AQM, |one, number| {
                one.at(number, path(50.0, 40.0, QUEUES[number as usize - 1], "")).watched(30)
            });
            let beside = alone.iter().map(|cell| {
                let key = format!("{} beside", cell.key);
                QuestionCell { key, ..cell.clone() }.with(format!("{STARTS}{CUBIC}"))
            });
            alone.iter().cloned().chain(beside).collect()
        },
        answer: aqm,
        ..PLAIN
    },
];

fn l4s(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "prague"];
    let wait = |run: &CellRun| own(run).filter_map(|flow| flow.queue_ms).map(|queue| queue.p95).reduce(f64::max);
    let queue = Lines::of(cells, name, &keys, wait);
    let get = Lines::of(cells, name, &keys, |run| Some(own(run).map(|flow| flow.throughput_mbps).sum()));
    let at = |lines: &Lines, index: usize, unit: &str| {
        lines.at(0, index).map_or_else(|| "?".to_owned(), |value| short(value) + unit)
    };
    let text = format!(
        "Over DualPI2 it got {} of 100 alone with a queue of {} (p95), {} of 100 beside CUBIC; where marks begin at 1 ms its queue was {}.",
        at(&get, 0, " Mbit/s"),
        at(&queue, 0, " ms"),
        at(&get, 1, " Mbit/s"),
        at(&queue, 2, " ms"),
    );
    let judged = points(cells, L4S, ["itself", "cubic"], |run, _| wait(run));
    let what = "its queue p95 at L4S, ms";
    let checks = vec![Measure { clause: "7.1", what, bound: Bound::LessIsBetter(1.0) }.of(&judged)];
    let charts = vec![L4S.chart("its rate, Mbit/s", Some(100.0), get), L4S.chart("its queue p95, ms", None, queue)];
    Answer { text, charts, checks }
}

fn aqm(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let signals = |run: &CellRun| {
        let all = run.watched.sum(Side::Own, &(0.0..30.0));
        Some((all.marked + all.dropped) as f64 / 30.0)
    };
    // The start is of a start-up, which other questions ask.
    let queue = |run: &CellRun| run.watched.queue_p95(Side::Own, &(10.0..30.0));
    let (uses, queues) = (Lines::of(cells, name, &keys, used), Lines::of(cells, name, &keys, queue));
    let beside = |key: &str| cells.line(&format!("{key} beside"), percent);
    let shares = Lines(keys.map(|key| AnswerLine { name: called(key, name), points: beside(key) }).into());
    let text = format!(
        "Over {} it used {} % alone with {} ms waiting (p95); beside CUBIC it got {} % of what both got.",
        AQM.names.join(", "),
        uses.each(0),
        queues.each(0),
        shares.each(0)
    );
    let share = points(cells, AQM, ["itself beside", "cubic beside"], |run, _| percent(run));
    let (fair, left): (Vec<_>, Vec<_>) = share.into_iter().partition(|point| point.at == FAIR);
    let of = |what, bound, points: &[_]| Measure { clause: "7.1", what, bound }.of(points);
    let checks = vec![
        of("used alone, %", Bound::like_or_more(1.0), &points(cells, AQM, keys, |run, _| used(run))),
        of("queue p95 alone, ms", Bound::like_or_less(5.0), &points(cells, AQM, keys, |run, _| queue(run))),
        of("share beside CUBIC at FQ-CoDel, %", Bound::Between(40.0, 60.0), &fair),
        of("share beside CUBIC, %", Bound::like_or_less(10.0), &left),
        of("lost or marked, packets/s", Bound::LessIsBetter(1.0), &points(cells, AQM, keys, |run, _| signals(run))),
        marks(cells),
    ];
    let charts = vec![
        AQM.chart("used, %", Some(100.0), uses),
        AQM.chart("queue p95, ms", None, queues),
        AQM.chart("share beside CUBIC, %", Some(100.0), shares),
        AQM.chart("lost or marked, packets/s", None, Lines::of(cells, name, &keys, signals)),
    ];
    Answer { text, charts, checks }
}

/// What a window is after a mark, where the contestant takes marks as losses.
fn marks(cells: &Cells) -> Check {
    let what = "window after a mark, of before";
    match cells.contestant().map(ecn) {
        Some(Ecn::Classic) => {
            let answer = |run: &CellRun| crate::trajectory::median(run.watched.answers.clone());
            let judged = points(cells, AQM, ["itself", "cubic"], |run, _| answer(run));
            Measure { clause: "7.1", what, bound: Bound::Most(AT_A_MARK) }.of(&judged)
        }
        Some(Ecn::Off) => Check::said("7.1", what, ClauseVerdict::DoesNotApply("it asks for no marks".to_owned())),
        _ => Check::said("7.1", what, ClauseVerdict::DoesNotApply(COUNTS.to_owned())),
    }
}

const COUNTS: &str = "it answers the share of marks (RFC 8257, RFC 9331), not a mark as a loss";
