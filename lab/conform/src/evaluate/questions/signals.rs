//! Sections 6.2 and 7.6: signals of the path that are taken away, or that lie.

use paceline_cc::controller::Ecn;

use super::{CUBIC, PLAIN, Question, STARTS, ecn, every, path};
use crate::evaluate::answers::{Answer, Axis, Check, measured, percent, reading};
use crate::evaluate::cells::{CellRun, Cells, own};
use crate::evaluate::verdict::{Bound, ClauseVerdict};
use crate::evaluate::{Effort, QuestionCell};

/// What a tunnel leaves of the signals.
const TUNNEL: Axis = Axis::conditions(&["signals kept", "reports stop at 10 s"]);
/// Routers and reporters that lie.
const LIES: Axis =
    Axis::conditions(&["a router marks all", "reports call all losses the medium's", "reports 500 ms late"]);
const SECONDS: u32 = 30;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "tunnel",
        asks: |name| format!("What does {name} do to CUBIC when a tunnel hides its signals?"),
        clauses: &["6.2", "5.3.2"],
        setup: |_| {
            "beside a CUBIC flow; 50 Mbit/s, 40 ms, PIE, hops that report (L2); reports that stop at 10 s as behind a tunnel; 30 s".to_owned()
        },
        unasked: "marks that a tunnel takes away",
        cells: |contestant, _| {
            every(contestant, &["cubic"], TUNNEL, |one, number| {
                let stops = if number == 1 { "" } else { "stops = \"10s\"\n" };
                let path = path(50.0, 40.0, "pie", "");
                lasting(one.at(number, format!("{path}\n[telemetry]\n{stops}")).with(format!("{STARTS}{CUBIC}")))
            })
        },
        answer: tunnel,
        ..PLAIN
    },
    Question {
        id: "cheats",
        asks: |name| format!("What does {name} do when routers lie?"),
        clauses: &["7.6", "8"],
        setup: |_| {
            "beside a CUBIC flow; 50 Mbit/s, 40 ms, drop-tail of 1 BDP; a router that marks every packet; reports of hops that call every \
             loss the medium's, and that come 500 ms late; 30 s"
                .to_owned()
        },
        unasked: "receivers that acknowledge what has not come, divide, repeat or hide marks",
        cells: |contestant, _| {
            every(contestant, &["cubic"], LIES, |one, number| {
                let path = match number {
                    1 => path(50.0, 40.0, "step:threshold=1ns,limit=166packets", ""),
                    2 => path(50.0, 40.0, "droptail:bdp=1", "") + "\n[telemetry]\nforge = \"medium\"\n",
                    _ => path(50.0, 40.0, "droptail:bdp=1", "") + "\n[telemetry]\nlate = \"500ms\"\n",
                };
                lasting(one.at(number, path).with(format!("{STARTS}{CUBIC}")))
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.6", "left to CUBIC where routers lie, %", Some(100.0), LEFT, |run, _| left(run)),
                reading("7.6", "its own rate then, Mbit/s", None, Bound::Least(0.1), |run, _| {
                    own(run).map(|flow| flow.throughput_mbps).reduce(f64::min)
                }),
                reading("8", "left to CUBIC where routers lie, %", Some(100.0), LEFT, |run, _| left(run)),
            ];
            let mut answer = measured(name, cells, LIES, &["itself", "cubic"], &readings);
            answer.charts.truncate(2);
            answer
        },
        ..PLAIN
    },
];

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
        reading("6.2", "its queue p95, ms", None, Bound::LessIsBetter(5.0), |run, _| {
            own(run).filter_map(|flow| flow.queue_ms).map(|queue| queue.p95).reduce(f64::max)
        }),
    ];
    let mut answer = measured(name, cells, TUNNEL, &["itself", "cubic"], &readings);
    let at = |x: f64| cells.at("itself", x, left);
    // Who goes by reports does otherwise without them.
    if at(1.0) == at(2.0) && cells.contestant().is_some_and(|contestant| ecn(contestant) == Ecn::Off) {
        let why = "it asks for no marks, and does the same with reports of hops as without".to_owned();
        answer.checks = vec![Check::said("6.2", "signals", ClauseVerdict::DoesNotApply(why))];
    }
    answer.checks.extend(answer.checks.first().cloned().map(|check| Check { clause: "5.3.2", ..check }));
    answer
}
