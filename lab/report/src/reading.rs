//! One line of plain reading under each figure, computed from the data.

use std::cmp::Ordering;

use paceline_cc::names::all_of;

use super::data::{Contestant, Data};
use super::steps::lived;
use super::svg::short;
use paceline_lab::numbers::span;
use paceline_lab::record::Record;
use paceline_lab::stats::{Pair, Verdict, pairs};
use paceline_lab::variation::figures;

/// The contestants with the smallest and the largest value.
fn extremes<'a, 'b>(data: &'b Data<'a>, value: impl Fn(&Contestant<'a>) -> Option<f64>) -> Option<[(&'b str, f64); 2]> {
    let mut values: Vec<(&str, f64)> =
        data.contestants.iter().filter_map(|c| value(c).map(|v| (c.name(), v))).collect();
    values.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some([*values.first()?, *values.last()?])
}

/// Under throughput over time.
pub(crate) fn throughput(data: &Data<'_>) -> String {
    if data.has_rivals() {
        return match extremes(data, |c| Some(c.throughput().median)) {
            Some([(low, least), (high, most)]) if low != high => {
                if !differ(data, low, high, |r| r.own_throughput_mbps) {
                    return no_difference(low, high, "what their own flows got");
                }
                format!("Beside the other flows {high} got {} Mbit/s, {low} {}.", short(most), short(least))
            }
            Some([_, (only, mbps)]) => format!("Beside the other flows {only} got {} Mbit/s.", short(mbps)),
            None => String::new(),
        };
    }
    if let Some([(low, least), (high, most)]) = extremes(data, |c| c.summary.utilization.map(|u| u.median)) {
        let beside = if data.has_cross_traffic() { ", without cross traffic" } else { "" };
        if low == high {
            return format!("{low} used {} % of what the path could carry{beside}.", short(100.0 * most));
        }
        if !differ(data, low, high, |r| r.utilization) {
            return no_difference(low, high, "what they used of the capacity");
        }
        let (most, least) = (short(100.0 * most), short(100.0 * least));
        return format!("Of what the path could carry, {high} used {most} % and {low} {least} %{beside}.");
    }
    match extremes(data, |c| Some(c.summary.throughput_mbps.median)) {
        Some([(low, least), (high, most)]) if low != high => {
            format!("{high} reached {} Mbit/s, {low} {} Mbit/s.", short(most), short(least))
        }
        Some([_, (only, mbps)]) => format!("{only} reached {} Mbit/s.", short(mbps)),
        None => "Nothing was delivered.".to_owned(),
    }
}

/// Under queueing delay over time.
pub(crate) fn queueing(data: &Data<'_>) -> String {
    let half = |c: &Contestant<'_>| c.median(|r| r.queue_ms.map(|q| q.p50));
    match extremes(data, half) {
        Some([(low, _), (high, _)]) if low != high && !differ(data, low, high, |r| r.queue_ms.map(|q| q.p50)) => {
            no_difference(low, high, "the median wait in the queue")
        }
        Some([(low, least), (high, most)]) if low != high => format!(
            "Half of the packets of {high} waited more than {} in the queue; of {low}, more than {}.",
            span(most),
            span(least)
        ),
        Some([_, (only, most)]) => {
            format!("Half of the packets of {only} waited more than {} in the queue.", span(most))
        }
        None => "No packet arrived.".to_owned(),
    }
}

/// Under throughput against delay.
pub(crate) fn trade_off(data: &Data<'_>) -> String {
    let point = |c: &Contestant<'_>| c.delay_p95_ms().map(|d| (c.throughput().median, d.median));
    let all: Vec<(&str, (f64, f64))> =
        data.contestants.iter().filter_map(|c| point(c).map(|p| (c.name(), p))).collect();
    let [more, slower] = figures(data.records()).map(|(_, _, figure)| Order::of(data, figure));
    let beats = |a: &(&str, (f64, f64)), b: &(&str, (f64, f64))| {
        let throughput = more.of_two((a.0, a.1.0), (b.0, b.1.0));
        let delay = slower.of_two((b.0, b.1.1), (a.0, a.1.1));
        throughput.is_ge() && delay.is_ge() && (throughput.is_gt() || delay.is_gt())
    };
    let mut front: Vec<_> = all.iter().filter(|one| !all.iter().any(|other| beats(other, one))).collect();
    front.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let equal = |a: &(&str, (f64, f64)), b: &(&str, (f64, f64))| {
        more.of_two((a.0, a.1.0), (b.0, b.1.0)).is_eq() && slower.of_two((a.0, a.1.1), (b.0, b.1.1)).is_eq()
    };
    // Who differs from none of them in either stands for them: the one with the least delay.
    let mut alike: Vec<Vec<_>> = Vec::new();
    for one in front {
        match alike.iter_mut().find(|group| equal(group[0], one)) {
            Some(group) => group.push(one),
            None => alike.push(vec![one]),
        }
    }
    let joined: String =
        alike.iter().filter(|group| group.len() > 1).map(|group| format!(" {}", undecided(group))).collect();
    let throughput = if data.has_rivals() { "own throughput" } else { "throughput" };
    match alike.as_slice() {
        [] if all.is_empty() => "No packet arrived.".to_owned(),
        [] => "None of them stands out.".to_owned(),
        [_] if all.len() == 1 => "One contestant alone: there is nothing to compare it with.".to_owned(),
        [group] if group.len() > 1 => undecided(group),
        [group] => format!("No contestant has more {throughput} than {}, and none has less delay.", group[0].0),
        [quick, .., full] => {
            let names: Vec<&str> = alike.iter().map(|group| group[0].0).collect();
            let (quick, full) = (quick[0], full[0]);
            let gain = full.1.0 / quick.1.0.max(1e-9);
            let more = if gain < 2.0 {
                format!("gains {} % {throughput}", short(100.0 * (gain - 1.0)))
            } else {
                format!("gets {} times the {throughput}", short(gain))
            };
            format!(
                "No contestant beats {} in both; from {} to {} a flow {more} and pays {} times the delay.{joined}",
                all_of(&names),
                quick.0,
                full.0,
                short(full.1.1 / quick.1.1.max(1e-9))
            )
        }
    }
}

fn undecided(group: &[&(&str, (f64, f64))]) -> String {
    let names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
    format!("No difference was found between {}.", all_of(&names))
}

/// How contestants compare in one figure, as far as their runs say.
struct Order(Vec<Pair>);

impl Order {
    /// Closer than this two medians are equal where runs are too few for an interval (our choice: too small to matter in a choice).
    const EQUAL: f64 = 0.01;

    fn of(data: &Data<'_>, figure: fn(&Record) -> Option<f64>) -> Self {
        Self(pairs(data.records(), figure))
    }

    /// Whether the first, a name with its median, has more of it than the second.
    fn of_two(&self, first: (&str, f64), second: (&str, f64)) -> Ordering {
        let known = self.0.iter().find_map(|pair| match (pair.first.as_str(), pair.second.as_str()) {
            names if names == (first.0, second.0) => pair.verdict.order(),
            names if names == (second.0, first.0) => pair.verdict.order().map(Ordering::reverse),
            _ => None,
        });
        let equal = (first.1 - second.1).abs() <= Self::EQUAL * first.1.max(second.1);
        known.unwrap_or_else(|| if equal { Ordering::Equal } else { first.1.total_cmp(&second.1) })
    }
}

/// Under the delay distributions.
pub(crate) fn delay_cdf(data: &Data<'_>) -> String {
    match extremes(data, |c| c.delay_quantiles_ms.get(95).copied()) {
        Some([(low, _), (high, _)]) if low != high && !differ(data, low, high, |r| r.delay_ms.map(|d| d.p95)) => {
            no_difference(low, high, "the 95th percentile of the delay")
        }
        Some([(low, least), (high, most)]) if low != high => format!(
            "95 % of the packets of {low} arrived within {}; {high} needed {} for as many.",
            span(least),
            span(most)
        ),
        Some([_, (only, most)]) => format!("95 % of the packets of {only} arrived within {}.", span(most)),
        None => "No packet arrived.".to_owned(),
    }
}

/// Under the completion times.
pub(crate) fn completions(data: &Data<'_>) -> String {
    let half = |c: &Contestant<'_>| c.median(|r| r.fct_ms.map(|fct| fct.p50));
    let Some([(low, least), (high, most)]) = extremes(data, half) else { return String::new() };
    if low == high {
        return format!("Half of the flows of {low} were complete within {}.", span(least));
    }
    if !differ(data, low, high, |r| r.fct_ms.map(|fct| fct.p50)) {
        return no_difference(low, high, "the median completion time");
    }
    format!(
        "Half of the flows of {low} were complete within {}; {high} needed {} for as many.",
        span(least),
        span(most)
    )
}

/// Where the runs do not support more.
fn no_difference(low: &str, high: &str, what: &str) -> String {
    format!("Even between {low} and {high}, whose medians are farthest apart, no difference was found in {what}.")
}

/// Whether the runs support that the second has more than the first, as far as they are enough to say.
fn differ(data: &Data<'_>, low: &str, high: &str, figure: fn(&Record) -> Option<f64>) -> bool {
    let between =
        |pair: &Pair| [&pair.first, &pair.second] == [low, high] || [&pair.first, &pair.second] == [high, low];
    let pair = pairs(data.records(), figure).into_iter().find(between);
    pair.is_none_or(|pair| pair.verdict != Verdict::NoDifference)
}

/// Under the parts of the delay.
pub(crate) fn delay_split(data: &Data<'_>) -> String {
    let share = |c: &Contestant<'_>| {
        let parts = c.split().down?;
        let total = parts.propagation_ms + parts.queue_ms + parts.transmission_ms;
        (total > 0.0).then(|| 100.0 * parts.queue_ms / total)
    };
    match extremes(data, share) {
        Some([(low, least), (high, most)]) if low != high => format!(
            "Downwards, waiting makes up {} % of the mean delay of {high} and {} % of that of {low}.",
            short(most),
            short(least)
        ),
        Some([_, (only, most)]) => {
            format!("Downwards, waiting makes up {} % of the mean delay of {only}.", short(most))
        }
        None => "Nothing travelled downwards.".to_owned(),
    }
}

/// Under the variables of one contestant: of its first flow.
pub(crate) fn variables(contestant: &Contestant<'_>) -> String {
    let Some(shown) = contestant.shown.first() else { return String::new() };
    let Some(flow) = contestant.own_flows(shown).next() else { return String::new() };
    let Some(record) = shown.record.flows.get(flow.index) else { return String::new() };
    let window: Vec<f64> = lived(flow).map(|step| flow.window_packets[step]).collect();
    let Some(most) = window.iter().copied().reduce(f64::max) else { return String::new() };
    let least = window.iter().copied().fold(most, f64::min);
    let mean = window.iter().sum::<f64>() / window.len() as f64;
    let whose = if contestant.own_flows(shown).count() == 1 { "Its window" } else { "The window of its first flow" };
    format!(
        "{whose} ranged from {} to {} packets, {} on average; the path dropped {} % of its packets{}.",
        short(least),
        short(most),
        short(mean),
        short(100.0 * record.loss),
        match record.retransmits {
            None => String::new(),
            Some(0) => ", none was sent again".to_owned(),
            Some(1) => ", 1 was sent again".to_owned(),
            Some(many) => format!(", {many} were sent again"),
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!([span(0.25), span(1234.0)], ["0.25 ms", "1.23 s"]);
    }
}
