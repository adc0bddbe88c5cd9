//! Sections 6.2 and 7.6: signals of the path that are taken away, or that lie.

use paceline_cc::controller::Ecn;
use paceline_cc::datapath::{ICN, UDP};
use paceline_lab::contestant::Contestant;

use super::{CUBIC, PLAIN, Question, STARTS, ecn, every, path};
use crate::evaluate::answers::{
    Answer, Axis, Check, Lines, Measure, Point, called, measured, percent, reading, short, used,
};
use crate::evaluate::cells::{CellRun, Cells, own};
use crate::evaluate::verdict::{Bound, ClauseVerdict};
use crate::evaluate::{AnswerLine, Effort, QuestionCell};

/// What a tunnel leaves of the signals.
const TUNNEL: Axis =
    Axis::conditions(&["signals kept", "ECT cleared at the entrance", "CE lost at the exit", "reports stop at 10 s"]);
/// The keys of the path, and of the reports, that do so.
const HIDES: [(&str, &str); 4] =
    [("", ""), ("marks = \"bleach\"\n", ""), ("marks = \"forget\"\n", ""), ("", "stops = \"10s\"\n")];
/// The header of the tunnel takes 60 bytes of a full packet.
const INSIDE: &str = "mss = 1388\n";
/// Receivers that do not report what they saw: honest ones first, at both queues.
const CHEATS: Axis = Axis::conditions(&[
    "an honest receiver",
    "acknowledges what has not come",
    "divides acknowledgements",
    "repeats acknowledgements",
    "an honest receiver, PIE",
    "hides marks, PIE",
]);
/// The queue and the receiver of each.
const RECEIVERS: [(&str, &str); 6] = [
    ("droptail:bdp=1", ""),
    ("droptail:bdp=1", "optimistic"),
    ("droptail:bdp=1", "divides"),
    ("droptail:bdp=1", "repeats"),
    ("pie", ""),
    ("pie", "hides_marks"),
];
/// Who hears of no loss is held back by its application alone.
const AT_THE_RATE: &str = "workload = { rate = \"50 Mbit/s\" }\n";
/// Routers and reporters that lie.
const LIES: Axis =
    Axis::conditions(&["a router marks all", "reports call all losses the medium's", "reports 500 ms late"]);
const SECONDS: u32 = 30;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "tunnel",
        asks: |name| format!("What does {name} do to CUBIC when a tunnel hides its signals?"),
        clauses: &["6.2", "5.3.2"],
        after: "RFC 6040: what a tunnel is to do with ECN",
        setup: |_| {
            "beside a CUBIC flow; 50 Mbit/s, 40 ms, PIE with marks, hops that report (L2), packets shorter by a header of 60 bytes; ECN \
             carried through, cleared at the tunnel's entrance, or marks lost at its exit; reports that stop at 10 s; 30 s"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic"], TUNNEL, |one, number| {
                let (marks, stops) = HIDES[number as usize - 1];
                let path = path(50.0, 40.0, "pie", marks);
                let flows = format!("{STARTS}{INSIDE}{CUBIC}{INSIDE}");
                lasting(one.at(number, format!("{path}\n[telemetry]\n{stops}")).with(flows))
            })
        },
        answer: tunnel,
        ..PLAIN
    },
    Question {
        id: "cheats",
        asks: |name| format!("What does a receiver gain that cheats {name}, and what does {name} do when routers lie?"),
        clauses: &["7.6", "8"],
        after: "Savage et al., TCP Congestion Control with a Misbehaving Receiver, 1999",
        setup: |_| {
            "beside a CUBIC flow with an honest receiver; 50 Mbit/s, 40 ms, drop-tail of 1 BDP; an application that writes at the link's \
             rate, and a receiver that acknowledges all up to the \
             newest byte and ten packets more, each advance in ten parts, or each acknowledgement ten times; with PIE one that reports no \
             marks; a router that marks every packet; reports of hops that call every loss the medium's, and that come 500 ms late; 30 s"
                .to_owned()
        },
        cells: |contestant, _| {
            let lies = every(contestant, &["cubic"], LIES, |one, number| {
                let path = match number {
                    1 => path(50.0, 40.0, "step:threshold=1ns,limit=166packets", ""),
                    2 => path(50.0, 40.0, "droptail:bdp=1", "") + "\n[telemetry]\nforge = \"medium\"\n",
                    _ => path(50.0, 40.0, "droptail:bdp=1", "") + "\n[telemetry]\nlate = \"500ms\"\n",
                };
                lasting(one.at(number, path).with(format!("{STARTS}{CUBIC}")))
            });
            let cheats = every(contestant, &["cubic"], CHEATS, |one, number| {
                let (queue, receiver) = RECEIVERS[number as usize - 1];
                let cheats = if receiver.is_empty() { String::new() } else { format!("receiver = \"{receiver}\"\n") };
                let cell =
                    one.at(number, path(50.0, 40.0, queue, "")).with(format!("{STARTS}{AT_THE_RATE}{cheats}{CUBIC}"));
                lasting(QuestionCell { key: cheating(&cell.key), ..cell })
            });
            lies.into_iter().chain(cheats.into_iter().filter(can_cheat)).collect()
        },
        answer: cheats,
        ..PLAIN
    },
];

/// The key of those whose receivers cheat.
fn cheating(key: &str) -> String {
    format!("{key} cheats")
}

/// Whether its receivers acknowledge what comes.
fn acknowledges(contestant: &Contestant) -> bool {
    contestant.via.row().datapath.name != ICN.name
}

/// Whether there is such a receiver over the cell's datapath: what is acknowledged as a whole cannot be divided.
fn can_cheat(cell: &QuestionCell) -> bool {
    let whole = cell.contestant.via.row().datapath.name == UDP.name;
    acknowledges(&cell.contestant) && !(whole && cell.x == DIVIDES)
}

/// What CUBIC keeps beside it, as beside another CUBIC flow.
const LEFT: Bound = Bound::like_or_more(1.0);

fn lasting(cell: QuestionCell) -> QuestionCell {
    QuestionCell { seconds: Some(SECONDS), ..cell }
}

/// What the flow beside it got of both.
fn left(run: &CellRun) -> Option<f64> {
    percent(run).map(|own| 100.0 - own)
}

fn tunnel(name: &str, cells: &Cells, _: Effort) -> Answer {
    let readings = [
        reading("6.2", "left to CUBIC beside it, %", Some(100.0), LEFT, |run, _| left(run)),
        reading("6.2", "used by both, %", Some(100.0), Bound::MoreIsBetter(5.0), |run, _| used(run)),
        reading("6.2", "its queue p95, ms", None, Bound::LessIsBetter(5.0), |run, _| {
            own(run).filter_map(|flow| flow.queue_ms).map(|queue| queue.p95).reduce(f64::max)
        }),
    ];
    let mut answer = measured(name, cells, TUNNEL, &["itself", "cubic"], &readings);
    answer.checks.extend(answer.checks.first().cloned().map(|check| Check { clause: "5.3.2", ..check }));
    answer
}

fn cheats(name: &str, cells: &Cells, _: Effort) -> Answer {
    let readings = [
        reading("7.6", "left to CUBIC where routers lie, %", Some(100.0), LEFT, |run, _| left(run)),
        reading("7.6", "its own rate then, Mbit/s", None, Bound::Least(0.1), |run, _| {
            own(run).map(|flow| flow.throughput_mbps).reduce(f64::min)
        }),
        reading("8", "left to CUBIC where routers lie, %", Some(100.0), LEFT, |run, _| left(run)),
    ];
    let mut answer = measured(name, cells, LIES, &["itself", "cubic"], &readings);
    answer.charts.truncate(2);
    let contestant = cells.contestant();
    if !contestant.is_some_and(acknowledges) {
        let why = "its receiver asks for data, and acknowledges none".to_owned();
        answer.checks.push(Check::said("7.6", "cheating receivers", ClauseVerdict::DoesNotApply(why)));
        return answer;
    }
    let keys = ["itself", "cubic"];
    let gain = |key: &str, x: f64| {
        let honest = if x > 5.0 { 5.0 } else { 1.0 };
        let share = |x: f64| cells.at(&cheating(key), x, percent);
        share(honest).filter(|share| *share > 0.0).and_then(|honest| Some(share(x)? / honest))
    };
    let point = |x: f64| Point { at: CHEATS.at(x), own: gain(keys[0], x), spread: None, cubic: gain(keys[1], x) };
    let counted = [2.0, DIVIDES, 4.0].map(point);
    let measure = |clause, what, bound| Measure { clause, what, bound };
    let what = "gain of a receiver that cheats, times";
    answer.checks.extend(["7.6", "8"].map(|clause| measure(clause, what, Bound::Most(GAIN)).of(&counted)));
    let hidden = "gain of a receiver that hides marks, times";
    answer.checks.push(match contestant.map(ecn) {
        Some(Ecn::Off) => Check::said("7.6", hidden, ClauseVerdict::DoesNotApply("it asks for no marks".to_owned())),
        _ => measure("7.6", hidden, Bound::LessIsBetter(0.05)).of(&[point(6.0)]),
    });
    let got = [2.0, DIVIDES, 4.0, 6.0]
        .into_iter()
        .filter_map(|x| Some(format!("{} times its share to one that {}", short(gain(keys[0], x)?), CHEATS.at(x))));
    answer.text = format!("It gave {}. {}", got.collect::<Vec<_>>().join(", "), answer.text);
    let line = |key: &str| AnswerLine { name: called(key, name), points: cells.line(&cheating(key), percent) };
    answer.charts.insert(0, CHEATS.chart("of what both got, %", Some(100.0), Lines(keys.map(line).into())));
    answer
}

/// The place of a receiver that divides acknowledgements.
const DIVIDES: f64 = 3.0;
/// What a cheat may gain: the spread of some runs (our choice).
const GAIN: f64 = 1.05;
