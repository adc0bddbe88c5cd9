//! From runs to figures and one sentence, which says what the numbers support and no more.

use paceline_lab::record::{FlowRecord, Run};

use super::cells::{Cells, others, own, share};
use super::questions::{CONVERGENCE_SECONDS, RIVALS};
use super::{AnswerChart, AnswerLine, Effort};
use crate::page::figure;

type Answer = (String, Vec<AnswerChart>);

/// A line of a figure for each of those who are compared.
struct Lines(Vec<AnswerLine>);

impl Lines {
    /// One for each of these keys.
    fn of(cells: &Cells, name: &str, keys: &[&str], read: impl Fn(&Run) -> Option<f64> + Copy) -> Self {
        Self(keys.iter().map(|key| AnswerLine { name: called(key, name), points: cells.line(key, read) }).collect())
    }

    /// From the least to the most of a line.
    fn range(&self, line: usize, unit: &str) -> String {
        range(&values(&self.0[line].points), unit)
    }

    /// `98, 97, ?`: every value of a line in order.
    fn each(&self, line: usize) -> String {
        self.0[line].points.iter().map(|(_, value)| said(*value)).collect::<Vec<_>>().join(", ")
    }

    /// A value of a line.
    fn at(&self, line: usize, index: usize) -> Option<f64> {
        self.0[line].points.get(index)?.1
    }

    /// The last value of a line.
    fn last(&self, line: usize) -> String {
        said(self.0[line].points.last().and_then(|(_, value)| *value))
    }
}

fn chart(x: &'static str, y: &'static str, top: Option<f64>, lines: Lines) -> AnswerChart {
    AnswerChart { x, y, log: false, top, lines: lines.0 }
}

fn log(chart: AnswerChart) -> AnswerChart {
    AnswerChart { log: true, ..chart }
}

/// The name of a key: the contestant's own where it is its.
fn called(key: &str, name: &str) -> String {
    if key == "itself" { name.to_owned() } else { format!("{key}@tcp") }
}

fn values(points: &[(f64, Option<f64>)]) -> Vec<f64> {
    points.iter().filter_map(|(_, value)| *value).collect()
}

/// `12 %`, `12 to 40 %`; what is missing is said so.
fn range(values: &[f64], unit: &str) -> String {
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    match (low, high) {
        (Some(low), Some(high)) if short(low) == short(high) => format!("{}{unit}", short(low)),
        (Some(low), Some(high)) => format!("{} to {}{unit}", short(low), short(high)),
        _ => "nothing that could be measured".to_owned(),
    }
}

/// Two digits and more, as a sentence needs them.
fn short(value: f64) -> String {
    match value.abs() {
        a if a >= 10.0 => format!("{value:.0}"),
        a if a >= 1.0 => figure((value * 10.0).round() / 10.0),
        _ => figure((value * 100.0).round() / 100.0),
    }
}

/// A value as a sentence needs it; what is missing is said so.
fn said(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), short)
}

fn used(run: &Run) -> Option<f64> {
    run.record.utilization.map(|used| used * 100.0)
}

fn waits(run: &Run) -> Option<f64> {
    run.record.queue_ms.map(|queue| queue.p95)
}

fn percent(run: &Run) -> Option<f64> {
    share(run).map(|share| share * 100.0)
}

pub(super) fn alone(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let (use_of, queue_of) = (Lines::of(cells, name, &keys, used), Lines::of(cells, name, &keys, waits));
    let both = |with: &str, line: usize| format!("{}{with}{}", use_of.range(line, " %"), queue_of.range(line, " ms"));
    let answer = format!(
        "Alone it used {}; CUBIC used {}, BBR {}.",
        both(" of the link and its 95th percentile of waiting was ", 0),
        both(" with ", 1),
        both(" with ", 2),
    );
    let charts = vec![
        log(chart("buffer, BDP", "used, %", Some(100.0), use_of)),
        log(chart("buffer, BDP", "queue p95, ms", None, queue_of)),
    ];
    (answer, charts)
}

pub(super) fn itself(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let jain = Lines::of(cells, name, &keys, |run| run.record.jain);
    let answer = format!(
        "Jain's index of its 2 to 16 flows was {} (1: all equal); that of CUBIC's flows {}.",
        jain.range(0, ""),
        jain.range(1, "")
    );
    (answer, vec![log(chart("flows", "Jain's index", Some(1.0), jain))])
}

pub(super) fn rivals(name: &str, cells: &Cells, _: Effort) -> Answer {
    let line = |rival| AnswerLine { name: format!("beside {rival}@tcp"), points: cells.line(rival, percent) };
    let shares = Lines(RIVALS.into_iter().map(line).collect());
    let said = |(line, rival)| format!("{} beside {}", shares.range(line, " %"), upper(rival));
    let said: Vec<String> = RIVALS.into_iter().enumerate().map(said).collect();
    let answer = format!("With buffers of 0.5 to 4 BDP {name} got {} of what both flows got.", said.join(", "));
    (answer, vec![log(chart("buffer, BDP", "share, %", Some(100.0), shares))])
}

fn upper(name: &str) -> &str {
    match name {
        "reno" => "Reno",
        "cubic" => "CUBIC",
        "bbr" => "BBR",
        other => other,
    }
}

pub(super) fn rtt(name: &str, cells: &Cells, _: Effort) -> Answer {
    let longer = |run: &Run| {
        let rates: Vec<f64> = own(run).map(|flow| flow.throughput_mbps).collect();
        let [shorter, longer] = rates[..] else { return None };
        (shorter + longer > 0.0).then_some(100.0 * longer / (shorter + longer))
    };
    let shares = Lines::of(cells, name, &["itself", "cubic"], longer);
    let answer = format!(
        "With eight times the round trip the flow got {} % of what both got (equal: 50 %); with CUBIC {} %.",
        shares.last(0),
        shares.last(1)
    );
    (answer, vec![log(chart("round trip over the other's", "share of the longer, %", Some(100.0), shares))])
}

/// Harm is more than CUBIC's when it is above this many times CUBIC's (our choice: because three runs are few, and a smaller
/// difference may be their spread; RFC 9743 and Ware et al. give no threshold).
const MORE_BY: f64 = 1.1;
/// And above it by as many points of a percent (our choice: because a tenth of a harm near zero is next to nothing).
const MORE_POINTS: f64 = 1.0;

/// Harm: what a flow loses beside another, as a share of what it has alone (more is better: throughput), or of what it has beside it
/// (less is better: delay). Ware et al., HotNets 2019, section 4.
pub(super) fn harms(name: &str, cells: &Cells, x: &'static str, at: &[f64], what: &str) -> Answer {
    // Alone the CUBIC flow is the contestant.
    let victims = |run: &Run| -> Vec<FlowRecord> {
        let beside: Vec<FlowRecord> = others(run).cloned().collect();
        if beside.is_empty() { own(run).cloned().collect() } else { beside }
    };
    let mbps = |run: &Run| Some(victims(run).iter().map(|flow| flow.throughput_mbps).sum::<f64>());
    let delay =
        |run: &Run| victims(run).iter().filter_map(|flow| flow.delay_ms).map(|delay| delay.p95).reduce(f64::max);
    let throughput = |key: &str, x: f64| {
        let (alone, beside) = (cells.at("alone", x, mbps)?, cells.at(key, x, mbps)?);
        (alone > 0.0).then(|| 100.0 * (alone - beside).max(0.0) / alone)
    };
    let waiting = |key: &str, x: f64| {
        let (alone, beside) = (cells.at("alone", x, delay)?, cells.at(key, x, delay)?);
        (beside > 0.0).then(|| 100.0 * (beside - alone).max(0.0) / beside)
    };
    let by = |of: &dyn Fn(&str, f64) -> Option<f64>| {
        let points = |key: &str| at.iter().map(|x| (*x, of(key, *x))).collect();
        Lines(["itself", "cubic"].map(|key| AnswerLine { name: called(key, name), points: points(key) }).into())
    };
    let (rates, delays) = (by(&throughput), by(&waiting));
    let pairs = (0..at.len()).filter_map(|index| rates.at(0, index).zip(rates.at(1, index)));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let more = pairs.iter().filter(|(own, cubic)| *own > cubic * MORE_BY + MORE_POINTS).count();
    let answer = format!(
        "It took {} of a CUBIC flow's throughput, where CUBIC itself takes {}; with {more} of {} {what} it did more harm than CUBIC does.",
        rates.range(0, " %"),
        rates.range(1, " %"),
        pairs.len()
    );
    let charts = vec![
        log(chart(x, "harm to throughput, %", Some(100.0), rates)),
        log(chart(x, "harm to delay p95, %", Some(100.0), delays)),
    ];
    (answer, charts)
}

/// A share holds when this many seconds in a row each half second has 40 to 60 % (our choice: a cycle of BBR is a third of a second
/// here, and a sawtooth of CUBIC's takes longer than both).
const HOLDS_FOR: f64 = 2.0;
const PART: f64 = 0.5;
/// A time that stands for never: longer than any run, and a number that a median can take.
const NEVER: f64 = 1e9;

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

fn converges(run: &Run) -> Option<f64> {
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

pub(super) fn convergence(name: &str, cells: &Cells, _: Effort) -> Answer {
    let mut times = Lines::of(cells, name, &["itself", "cubic", "bbr"], converges);
    for (_, time) in times.0.iter_mut().flat_map(|line| &mut line.points) {
        *time = time.filter(|time| *time < NEVER);
    }
    let when = |line: usize| when(&times.0[line].points);
    let answer = format!(
        "The second flow came to 40 to 60 %, and kept that for 2 s, {}; with CUBIC {}, with BBR {}.",
        when(0),
        when(1),
        when(2)
    );
    (answer, vec![chart("buffer, BDP", "time until the share holds, s", None, times)])
}

pub(super) fn l4s(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "prague"];
    let queue = Lines::of(cells, name, &keys, |run| {
        own(run).filter_map(|flow| flow.queue_ms).map(|queue| queue.p95).reduce(f64::max)
    });
    let get = Lines::of(cells, name, &keys, |run| Some(own(run).map(|flow| flow.throughput_mbps).sum()));
    let at = |lines: &Lines, index: usize, unit: &str| {
        lines.at(0, index).map_or_else(|| "?".to_owned(), |value| short(value) + unit)
    };
    let answer = format!(
        "Over DualPI2 it got {} of 100 alone with a queue of {} (p95), {} of 100 beside CUBIC; where marks begin at 1 ms its queue was {}.",
        at(&get, 0, " Mbit/s"),
        at(&queue, 0, " ms"),
        at(&get, 1, " Mbit/s"),
        at(&queue, 2, " ms"),
    );
    let x = "1: DualPI2 alone; 2: beside CUBIC; 3: step marking";
    (answer, vec![chart(x, "its rate, Mbit/s", Some(100.0), get), chart(x, "its queue p95, ms", None, queue)])
}

pub(super) fn aqm(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let (uses, queues) = (Lines::of(cells, name, &keys, used), Lines::of(cells, name, &keys, waits));
    let beside = |key: &str| cells.line(&format!("{key} beside"), percent);
    let shares = Lines(keys.map(|key| AnswerLine { name: called(key, name), points: beside(key) }).into());
    let answer = format!(
        "Over CoDel, FQ-CoDel and PIE it used {} % alone with {} ms waiting (p95); beside CUBIC it got {} % of what both got.",
        uses.each(0),
        queues.each(0),
        shares.each(0)
    );
    let x = "1: CoDel; 2: FQ-CoDel; 3: PIE";
    let charts = vec![
        chart(x, "used, %", Some(100.0), uses),
        chart(x, "queue p95, ms", None, queues),
        chart(x, "share beside CUBIC, %", Some(100.0), shares),
    ];
    (answer, charts)
}

/// Use and waiting on three paths, beside those of CUBIC and BBR.
pub(super) fn on_paths(name: &str, cells: &Cells, x: &'static str, paths: &str) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let (uses, queues) = (Lines::of(cells, name, &keys, used), Lines::of(cells, name, &keys, waits));
    let said = |line: usize| format!("{} % with {} ms waiting (p95)", uses.each(line), queues.each(line));
    let answer = format!("{paths} it used {}; CUBIC {}, BBR {}.", said(0), said(1), said(2));
    (answer, vec![chart(x, "used, %", Some(100.0), uses), chart(x, "queue p95, ms", None, queues)])
}

pub(super) fn cellular(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let (rates, delays) = (
        Lines::of(cells, name, &keys, used),
        Lines::of(cells, name, &keys, |run| run.record.delay_ms.map(|delay| delay.p95)),
    );
    let both = |at: &str, line: usize| format!("{}{at}{}", rates.range(line, " %"), delays.range(line, " ms"));
    let answer = format!(
        "On the three traces it used {}; CUBIC {}, BBR {}.",
        both(" at a 95th percentile of delay of ", 0),
        both(" at ", 1),
        both(" at ", 2),
    );
    let x = "1: lte-like; 2: lte-driving; 3: 3g-like";
    (answer, vec![chart(x, "used, %", Some(100.0), rates), chart(x, "delay p95, ms", None, delays)])
}

/// What is used while something else than congestion disturbs.
pub(super) fn disturbed(name: &str, cells: &Cells, x: &'static str, what: &str, of: &[f64]) -> Answer {
    let uses = Lines::of(cells, name, &["itself", "cubic", "bbr"], used);
    let both = |line: usize| format!("{} and {} %", said(uses.at(line, 0)), said(uses.at(line, of.len() - 1)));
    let (first, last) = (of[0] * 100.0, of[of.len() - 1] * 100.0);
    let answer = format!(
        "With {} and {} % {what} it used {} of its path; CUBIC {}, BBR {}.",
        figure(first),
        figure(last),
        both(0),
        both(1),
        both(2)
    );
    (answer, vec![log(chart(x, "used, %", Some(100.0), uses))])
}

fn short_flows(run: &Run) -> Option<f64> {
    others(run).filter_map(|flow| flow.fct_ms).map(|fct| fct.p95).reduce(f64::max)
}

pub(super) fn beside_short(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let half = |run: &Run| others(run).filter_map(|flow| flow.fct_ms).map(|fct| fct.p50).reduce(f64::max);
    let (p50, p95) = (Lines::of(cells, name, &keys, half), Lines::of(cells, name, &keys, short_flows));
    let both = |and: &str, line: usize| format!("{}{and}{}", p50.range(line, " ms"), p95.range(line, " ms"));
    let answer = format!(
        "Beside it half of the short flows ended within {}; beside CUBIC {}, beside BBR {}.",
        both(", 95 % within ", 0),
        both(" and ", 1),
        both(" and ", 2),
    );
    let charts = vec![
        chart("buffer, BDP", "completion p50, ms", None, p50),
        chart("buffer, BDP", "completion p95, ms", None, p95),
    ];
    (answer, charts)
}

pub(super) fn many(name: &str, cells: &Cells, effort: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let uses = Lines::of(cells, name, &keys, used);
    let losses = Lines::of(cells, name, &keys, |run| Some(run.record.loss * 100.0));
    let queues = Lines::of(cells, name, &keys, waits);
    let most = cells.numbers("itself").last().copied();
    let jain = most.and_then(|flows| cells.at("itself", flows, |run| run.record.jain));
    let answer = format!(
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
    let charts = vec![
        log(chart("flows", "used, %", Some(100.0), uses)),
        log(chart("flows", "lost, %", None, losses)),
        log(chart("flows", "queue p95, ms", None, queues)),
    ];
    (answer, charts)
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
