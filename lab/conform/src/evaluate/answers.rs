//! From runs to figures and one sentence, which says what the numbers support and no more.

use paceline_lab::record::{FlowRecord, Run};

use super::cells::{Cells, others, own, share};
use super::questions::{BUFFERS, DISORDERS, LOSSES, RIVALS};
use super::{Chart, Effort, Line};
use crate::page::figure;
use crate::trajectory::median;

type Answer = (String, Vec<Chart>);
type Points = Vec<(f64, Option<f64>)>;

fn chart(x: &'static str, y: &'static str, top: Option<f64>, lines: Vec<(String, Points)>) -> Chart {
    let lines = lines.into_iter().map(|(name, points)| Line { name, points }).collect();
    Chart { x, y, log: false, top, lines }
}

fn log(chart: Chart) -> Chart {
    Chart { log: true, ..chart }
}

/// The name of a key: the contestant's own where it is its.
fn called(key: &str, name: &str) -> String {
    if key == "itself" { name.to_owned() } else { format!("{key}@tcp") }
}

/// A line for each key.
fn lines(cells: &Cells, name: &str, keys: &[&str], read: impl Fn(&Run) -> Option<f64> + Copy) -> Vec<(String, Points)> {
    keys.iter().map(|key| (called(key, name), cells.line(key, read))).collect()
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
    let (use_of, queue_of) = (lines(cells, name, &keys, used), lines(cells, name, &keys, waits));
    let of = |lines: &[(String, Points)], line: usize| values(&lines[line].1);
    let answer = format!(
        "Alone it used {} of the link and its 95th percentile of waiting was {}; CUBIC used {} with {}, BBR {} with {}.",
        range(&of(&use_of, 0), " %"),
        range(&of(&queue_of, 0), " ms"),
        range(&of(&use_of, 1), " %"),
        range(&of(&queue_of, 1), " ms"),
        range(&of(&use_of, 2), " %"),
        range(&of(&queue_of, 2), " ms"),
    );
    let charts = vec![
        log(chart("buffer, BDP", "used, %", Some(100.0), use_of)),
        log(chart("buffer, BDP", "queue p95, ms", None, queue_of)),
    ];
    (answer, charts)
}

pub(super) fn itself(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let jain = lines(cells, name, &keys, |run| run.record.jain);
    let answer = format!(
        "Jain's index of its 2 to 16 flows was {} (1: all equal); that of CUBIC's flows {}.",
        range(&values(&jain[0].1), ""),
        range(&values(&jain[1].1), "")
    );
    (answer, vec![log(chart("flows", "Jain's index", Some(1.0), jain))])
}

pub(super) fn rivals(name: &str, cells: &Cells, _: Effort) -> Answer {
    let shares: Vec<(String, Points)> =
        RIVALS.iter().map(|rival| (format!("beside {rival}@tcp"), cells.line(rival, percent))).collect();
    let said = RIVALS
        .iter()
        .zip(&shares)
        .map(|(rival, (_, points))| format!("{} beside {}", range(&values(points), " %"), upper(rival)));
    let said: Vec<String> = said.collect();
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
    let shares = lines(cells, name, &["itself", "cubic"], longer);
    let last = |line: usize| shares[line].1.last().and_then(|(_, value)| *value).map_or_else(|| "?".to_owned(), short);
    let answer = format!(
        "With eight times the round trip the flow got {} % of what both got (equal: 50 %); with CUBIC {} %.",
        last(0),
        last(1)
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
pub(super) fn harm(name: &str, cells: &Cells, _: Effort) -> Answer {
    // Alone the CUBIC flow is the contestant.
    let victims = |run: &Run| -> Vec<FlowRecord> {
        let beside: Vec<FlowRecord> = others(run).cloned().collect();
        if beside.is_empty() { own(run).cloned().collect() } else { beside }
    };
    let mbps = |run: &Run| Some(victims(run).iter().map(|flow| flow.throughput_mbps).sum::<f64>());
    let delay =
        |run: &Run| victims(run).iter().filter_map(|flow| flow.delay_ms).map(|delay| delay.p95).reduce(f64::max);
    let throughput = |key: &str| -> Points {
        let of = |buffer: f64| {
            let (alone, beside) = (cells.at("alone", buffer, mbps)?, cells.at(key, buffer, mbps)?);
            (alone > 0.0).then(|| 100.0 * (alone - beside).max(0.0) / alone)
        };
        BUFFERS.iter().map(|buffer| (*buffer, of(*buffer))).collect()
    };
    let waiting = |key: &str| -> Points {
        let of = |buffer: f64| {
            let (alone, beside) = (cells.at("alone", buffer, delay)?, cells.at(key, buffer, delay)?);
            (beside > 0.0).then(|| 100.0 * (beside - alone).max(0.0) / beside)
        };
        BUFFERS.iter().map(|buffer| (*buffer, of(*buffer))).collect()
    };
    let by = |of: &dyn Fn(&str) -> Points| vec![(name.to_owned(), of("itself")), ("cubic@tcp".to_owned(), of("cubic"))];
    let (rates, delays) = (by(&throughput), by(&waiting));
    let pairs: Vec<(f64, f64)> = rates[0].1.iter().zip(&rates[1].1).filter_map(|(a, b)| Some((a.1?, b.1?))).collect();
    let more = pairs.iter().filter(|(own, cubic)| *own > cubic * MORE_BY + MORE_POINTS).count();
    let answer = format!(
        "It took {} of a CUBIC flow's throughput, where CUBIC itself takes {}; with {more} of {} buffers it did more harm than CUBIC does.",
        range(&values(&rates[0].1), " %"),
        range(&values(&rates[1].1), " %"),
        pairs.len()
    );
    let charts = vec![
        log(chart("buffer, BDP", "harm to throughput, %", Some(100.0), rates)),
        log(chart("buffer, BDP", "harm to delay p95, %", Some(100.0), delays)),
    ];
    (answer, charts)
}

/// Seconds from the second flow's start until it has 40 to 60 % of what both get, in the mean of 2 s, for the first time.
fn converges(run: &Run) -> Option<f64> {
    let series = run.series.as_ref()?;
    let [first, second] = &series.flows[..] else { return None };
    let step = series.step.as_secs_f64();
    let begins = run.record.flows.get(1)?.start_s;
    let wide = (2.0 / step).ceil() as usize;
    let from = (begins / step) as usize;
    let all = first.throughput_mbps.len().min(second.throughput_mbps.len());
    (from..all.saturating_sub(wide)).find_map(|at| {
        let mean = |rates: &[f64]| rates[at..at + wide].iter().sum::<f64>();
        let (one, two) = (mean(&first.throughput_mbps), mean(&second.throughput_mbps));
        let share = two / (one + two).max(1e-9);
        (0.4..=0.6).contains(&share).then_some(((at as f64) * step - begins).max(0.0))
    })
}

pub(super) fn convergence(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let times = lines(cells, name, &keys, converges);
    let said = |line: usize| match values(&times[line].1) {
        all if all.is_empty() => "never within a minute".to_owned(),
        all => format!("after {}", range(&all, " s")),
    };
    let answer =
        format!("The second flow had 40 to 60 % for 2 s {}; with CUBIC {}, with BBR {}.", said(0), said(1), said(2));
    (answer, vec![chart("buffer, BDP", "time to a share, s", None, times)])
}

pub(super) fn l4s(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "prague"];
    let queue = lines(cells, name, &keys, |run| {
        own(run).filter_map(|flow| flow.queue_ms).map(|queue| queue.p95).reduce(f64::max)
    });
    let get = lines(cells, name, &keys, |run| {
        let rate: f64 = own(run).map(|flow| flow.throughput_mbps).sum();
        Some(rate)
    });
    let at = |lines: &[(String, Points)], index: usize, unit: &str| {
        lines[0].1.get(index).and_then(|(_, value)| *value).map_or_else(|| "?".to_owned(), |value| short(value) + unit)
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

pub(super) fn cellular(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let (rates, delays) =
        (lines(cells, name, &keys, used), lines(cells, name, &keys, |run| run.record.delay_ms.map(|delay| delay.p95)));
    let of = |lines: &[(String, Points)], line: usize, unit: &str| range(&values(&lines[line].1), unit);
    let answer = format!(
        "On the three traces it used {} at a 95th percentile of delay of {}; CUBIC {} at {}, BBR {} at {}.",
        of(&rates, 0, " %"),
        of(&delays, 0, " ms"),
        of(&rates, 1, " %"),
        of(&delays, 1, " ms"),
        of(&rates, 2, " %"),
        of(&delays, 2, " ms"),
    );
    let x = "1: lte-like; 2: lte-driving; 3: 3g-like";
    (answer, vec![chart(x, "used, %", Some(100.0), rates), chart(x, "delay p95, ms", None, delays)])
}

/// What is used while something else than congestion disturbs.
fn disturbed(name: &str, cells: &Cells, x: &'static str, what: &str, of: &[f64]) -> Answer {
    let uses = lines(cells, name, &["itself", "cubic", "bbr"], used);
    let said = |line: usize| {
        let at = |index: usize| uses[line].1.get(index).and_then(|(_, value)| *value);
        let (first, last) = (at(0), at(of.len() - 1));
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), short);
        format!("{} and {} %", text(first), text(last))
    };
    let (first, last) = (of[0] * 100.0, of[of.len() - 1] * 100.0);
    let answer = format!(
        "With {} and {} % {what} it used {} of its path; CUBIC {}, BBR {}.",
        figure(first),
        figure(last),
        said(0),
        said(1),
        said(2)
    );
    (answer, vec![log(chart(x, "used, %", Some(100.0), uses))])
}

pub(super) fn loss(name: &str, cells: &Cells, _: Effort) -> Answer {
    disturbed(name, cells, "lost at random, %", "of the packets lost", &LOSSES)
}

pub(super) fn reordering(name: &str, cells: &Cells, _: Effort) -> Answer {
    disturbed(name, cells, "held back by 8 ms, %", "of the packets held back", &DISORDERS)
}

fn short_flows(run: &Run) -> Option<f64> {
    others(run).filter_map(|flow| flow.fct_ms).map(|fct| fct.p95).reduce(f64::max)
}

pub(super) fn beside_short(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let half = |run: &Run| others(run).filter_map(|flow| flow.fct_ms).map(|fct| fct.p50).reduce(f64::max);
    let (p50, p95) = (lines(cells, name, &keys, half), lines(cells, name, &keys, short_flows));
    let of = |lines: &[(String, Points)], line: usize| range(&values(&lines[line].1), " ms");
    let answer = format!(
        "Beside it half of the short flows ended within {}, 95 % within {}; beside CUBIC {} and {}, beside BBR {} and {}.",
        of(&p50, 0),
        of(&p95, 0),
        of(&p50, 1),
        of(&p95, 1),
        of(&p50, 2),
        of(&p95, 2),
    );
    let charts = vec![
        chart("buffer, BDP", "completion p50, ms", None, p50),
        chart("buffer, BDP", "completion p95, ms", None, p95),
    ];
    (answer, charts)
}

pub(super) fn many(name: &str, cells: &Cells, effort: Effort) -> Answer {
    let keys = ["itself", "cubic"];
    let uses = lines(cells, name, &keys, used);
    let losses = lines(cells, name, &keys, |run| Some(run.record.loss * 100.0));
    let queues = lines(cells, name, &keys, waits);
    let last = |lines: &[(String, Points)], line: usize| {
        lines[line].1.last().and_then(|(_, value)| *value).map_or_else(|| "?".to_owned(), short)
    };
    let jain = median(
        cells
            .numbers("itself")
            .last()
            .into_iter()
            .filter_map(|x| cells.at("itself", *x, |run| run.record.jain))
            .collect(),
    );
    let answer = format!(
        "{} flows of it used {} % of the link, lost {} % of the packets, kept {} ms waiting (p95) and had a Jain's index of {}; as many of CUBIC {} %, {} %, {} ms.",
        effort.flows,
        last(&uses, 0),
        last(&losses, 0),
        last(&queues, 0),
        jain.map_or_else(|| "?".to_owned(), short),
        last(&uses, 1),
        last(&losses, 1),
        last(&queues, 1),
    );
    let charts = vec![
        log(chart("flows", "used, %", Some(100.0), uses)),
        log(chart("flows", "lost, %", None, losses)),
        log(chart("flows", "queue p95, ms", None, queues)),
    ];
    (answer, charts)
}
