//! Section 5.2: a controller beside others.

use paceline_lab::contestant::Contestant;
use paceline_lab::record::FlowRecord;

use super::{BUFFER, BUFFERS, CUBIC, Compared, PLAIN, Question, RIVALS, STARTS, buffered, each, named, plain};
use crate::evaluate::answers::{Answer, Axis, Lines, Measure, Point, called, points, upper};
use crate::evaluate::cells::{CellRun, Cells, others, own};
use crate::evaluate::verdict::Bound;
use crate::evaluate::{AnswerLine, Effort, QuestionCell};

/// Shares of losses of the medium beside which harm is measured.
const MEDIUM: [f64; 3] = [0.001, 0.01, 0.05];
/// How many of the contestant and of the rival share a link, with how much buffer in BDP.
const RACES: [(u32, u32, f64); 6] = [(1, 1, 0.5), (1, 1, 1.0), (1, 1, 2.0), (1, 1, 4.0), (2, 2, 1.0), (1, 10, 1.0)];
const RACE: Axis =
    Axis::conditions(&["0.5 BDP", "1 BDP", "2 BDP", "4 BDP", "2 against 2, 1 BDP", "1 against 10, 1 BDP"]);

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "rivals",
        asks: |name| format!("What do {name} and those it must live with leave each other?"),
        clauses: &["5.2.1"],
        setup: |_| {
            format!(
                "50 Mbit/s, 40 ms; beside {} (Reno is QUIC's controller of RFC 9002 as well): one flow each with drop-tail of 0.5 to 4 BDP, \
                 two against two and one against ten with 1 BDP; CUBIC in its place",
                RIVALS.map(|(_, prose)| prose).join(", ")
            )
        },
        cells: |contestant, _| {
            let own = RIVALS.into_iter().flat_map(|(rival, _)| races(contestant, rival, rival));
            let cubic =
                RIVALS.into_iter().flat_map(|(rival, _)| races(&named("cubic"), rival, &format!("cubic/{rival}")));
            own.chain(cubic).collect()
        },
        answer: rivals,
        ..PLAIN
    },
    Question {
        id: "harm",
        asks: |name| format!("Does {name} harm a CUBIC flow more than another CUBIC flow would?"),
        clauses: &["5.2"],
        after: "Ware et al., Beyond Jain's Fairness Index, HotNets 2019",
        setup: |_| {
            "a CUBIC flow alone, beside the contestant, and beside CUBIC; 50 Mbit/s, 40 ms, drop-tail of 0.5 to 4 BDP"
                .to_owned()
        },
        cells: |contestant, _| harm(contestant, &BUFFERS, |buffer| buffer, buffered),
        answer: |name, cells, _| harms(name, cells, BUFFER, "5.2", "buffers"),
        ..PLAIN
    },
    Question {
        id: "harm-loss",
        asks: |name| {
            format!("Does {name} harm a CUBIC flow more than another CUBIC flow would, where the medium loses packets?")
        },
        clauses: &["5.2", "6.4"],
        after: "Ware et al.",
        setup: |_| "as harm, with a drop-tail of 1 BDP and 0.1 to 5 % random loss".to_owned(),
        cells: |contestant, _| {
            harm(contestant, &MEDIUM, |loss| loss * 100.0, |loss| plain(&format!("loss = {loss}\n")))
        },
        answer: |name, cells, _| harms(name, cells, Axis::numbers("lost at random, %"), "6.4", "shares of losses"),
        ..PLAIN
    },
];

fn races(who: &Contestant, rival: &str, key: &str) -> Vec<QuestionCell> {
    let cell = |(index, (count, against, buffer)): (usize, (u32, u32, f64))| {
        let flows = format!(
            "\n[[flows]]\ncount = {count}\nstart = \"0ms..200ms\"\n\
             \n[[flows]]\ncontestant = \"{rival}@tcp\"\ncount = {against}\nstart = \"0ms..200ms\"\n"
        );
        QuestionCell::new(key, index as f64 + 1.0, who, buffered(buffer)).with(flows)
    };
    RACES.into_iter().enumerate().map(cell).collect()
}

/// What some flows of a run got of what they would have if all had the same.
fn of_fair<'a>(run: &'a CellRun, which: impl Iterator<Item = &'a FlowRecord>) -> Option<f64> {
    let all: f64 = run.record.flows.iter().map(|flow| flow.throughput_mbps).sum();
    let rates: Vec<f64> = which.map(|flow| flow.throughput_mbps).collect();
    let fair = all / run.record.flows.len() as f64 * rates.len() as f64;
    (fair > 0.0).then(|| 100.0 * rates.iter().sum::<f64>() / fair)
}

fn rivals(name: &str, cells: &Cells, _: Effort) -> Answer {
    let got = |run: &CellRun| of_fair(run, own(run));
    let line =
        |(rival, _): (&str, &str)| AnswerLine { name: format!("beside {rival}@tcp"), points: cells.line(rival, got) };
    let shares = Lines(RIVALS.into_iter().map(line).collect());
    let said =
        |(line, (rival, _)): (usize, (&str, &str))| format!("{} beside {}", shares.range(line, " %"), upper(rival));
    let said: Vec<String> = RIVALS.into_iter().enumerate().map(said).collect();
    let text = format!("{name} got {} of what would be fair.", said.join(", "));
    let left: Vec<Point> = RIVALS
        .into_iter()
        .flat_map(|(rival, prose)| {
            let keys = [rival.to_owned(), format!("cubic/{rival}")];
            let of = points(cells, RACE, [&keys[0], &keys[1]], |run, _| of_fair(run, others(run)));
            of.into_iter().map(move |point| Point { at: format!("{prose}, {}", point.at), ..point })
        })
        .collect();
    let what = "left to a rival, of what is fair, %";
    let checks = vec![Measure { clause: "5.2.1", what, bound: Bound::MoreIsBetter(5.0) }.of(&left)];
    Answer { text, charts: vec![RACE.chart("of its fair share, %", None, shares)], checks }
}

/// Cells of a CUBIC flow alone, beside the contestant, and beside another CUBIC flow, at each of these values.
fn harm<T: Copy>(
    contestant: &Contestant,
    values: &[T],
    x: fn(T) -> f64,
    path: impl Fn(T) -> String,
) -> Vec<QuestionCell> {
    let alone = values.iter().map(|value| QuestionCell::new("alone", x(*value), &named("cubic"), path(*value)));
    let beside = |one: &Compared, value| one.at(x(value), path(value)).with(format!("{CUBIC}{STARTS}"));
    alone.chain(each(contestant, &["cubic"], values, beside)).collect()
}

/// Harm is more than CUBIC's when it is above 1.1 times CUBIC's and as many points of a percent (our choice: because a tenth of a harm
/// near zero is next to nothing; RFC 9743 and Ware et al. give no threshold).
pub(super) const HARM: Bound = Bound::like_or_less(1.0);

/// Harm: what a flow loses beside another, as a share of what it has alone (more is better: throughput), or of what it has beside it
/// (less is better: delay, loss). Ware et al., HotNets 2019, section 4.
fn harms(name: &str, cells: &Cells, axis: Axis, clause: &'static str, what: &str) -> Answer {
    // Alone the CUBIC flow is the contestant.
    let victims = |run: &CellRun| -> Vec<FlowRecord> {
        let beside: Vec<FlowRecord> = others(run).cloned().collect();
        if beside.is_empty() { own(run).cloned().collect() } else { beside }
    };
    let most = |run: &CellRun, of: fn(&FlowRecord) -> Option<f64>| victims(run).iter().filter_map(of).reduce(f64::max);
    let rate = |run: &CellRun| Some(victims(run).iter().map(|flow| flow.throughput_mbps).sum::<f64>());
    let delay = |run: &CellRun| most(run, |flow| flow.delay_ms.map(|delay| delay.p95));
    let loss = |run: &CellRun| most(run, |flow| Some(flow.loss));
    let at = cells.numbers("alone");
    let harm = |key: &str, more_is_better: bool, read: &dyn Fn(&CellRun) -> Option<f64>, x: f64| {
        let (alone, beside) = (cells.at("alone", x, read)?, cells.at(key, x, read)?);
        let (whole, harm) = if more_is_better { (alone, alone - beside) } else { (beside, beside - alone) };
        Some(if whole > 0.0 { 100.0 * harm.max(0.0) / whole } else { 0.0 })
    };
    let figure = |measure: Measure, more_is_better: bool, read: &dyn Fn(&CellRun) -> Option<f64>| {
        let points = |key: &str| at.iter().map(|x| (*x, harm(key, more_is_better, read, *x))).collect();
        let lines = ["itself", "cubic"].map(|key| AnswerLine { name: called(key, name), points: points(key) });
        let lines = Lines(lines.into());
        let point = |(index, x): (usize, &f64)| Point {
            at: axis.at(*x),
            own: lines.at(0, index),
            spread: None,
            cubic: lines.at(1, index),
        };
        let judged: Vec<Point> = at.iter().enumerate().map(point).collect();
        (measure.of(&judged), lines)
    };
    let measure = |what| Measure { clause, what, bound: HARM };
    let (rates, throughput) = figure(measure("harm to throughput, %"), true, &rate);
    let (delays, delay) = figure(measure("harm to delay p95, %"), false, &delay);
    let (losses, loss) = figure(measure("harm to loss, %"), false, &loss);
    let (held, of) = rates.holds.unwrap_or_default();
    let text = format!(
        "It took {} of a CUBIC flow's throughput, where CUBIC itself takes {}; with {} of {of} {what} it did more harm than CUBIC does.",
        throughput.range(0, " %"),
        throughput.range(1, " %"),
        of - held,
    );
    let charts = vec![
        axis.chart("harm to throughput, %", Some(100.0), throughput),
        axis.chart("harm to delay p95, %", Some(100.0), delay),
        axis.chart("harm to loss, %", Some(100.0), loss),
    ];
    Answer { text, charts, checks: vec![rates, delays, losses] }
}
