//! What an interval does not say: in what the runs of a race differ, whether they differ at all, and whether they fall
//! into groups.

use std::collections::{BTreeMap, BTreeSet};

use paceline_cc::{Bytes, Nanos, Rate};

use crate::numbers::{plain, span};
use crate::record::Record;
use crate::stats::{MIN_RUNS, by_contestant, quantile};

/// Fewest runs of a group (our choice: one alone is an outlier, which the interval shows).
const GROUP: usize = 2;
/// Least ratio of the groups' medians (our choice: less does not mislead).
const APART: f64 = 1.25;

/// Name, unit, and where it stands in a record.
type Figure = (&'static str, &'static str, fn(&Record) -> Option<f64>);

/// The figures of a run that are read off a table.
pub const FIGURES: [Figure; 2] = [
    ("throughput", "Mbit/s", |record| record.own_throughput_mbps.or(Some(record.throughput_mbps))),
    ("p95 delay", "ms", |record| record.delay_ms.map(|delay| delay.p95)),
];

/// [`FIGURES`] as they fit these records: beside others it is the contestant's own throughput, without a common clock the round trip.
pub fn figures<'a>(records: impl IntoIterator<Item = &'a Record>) -> [Figure; 2] {
    let mut figures = FIGURES;
    for record in records {
        if record.own_throughput_mbps.is_some() {
            figures[0].0 = "own throughput";
        }
        if record.clock.is_some() {
            figures[1] = ("p95 round trip", "ms", |record| record.rtt_ms.map(|rtt| rtt.p95));
        }
    }
    figures
}

/// How many of the runs of a contestant differ from all others in any figure.
pub fn distinct(records: &[&Record]) -> usize {
    let figures = |record: &&Record| {
        // Neither a figure: what was drawn, and what the run cost.
        let bare = Record {
            run: 0,
            drawn: BTreeMap::new(),
            cpu_s: None,
            wall_s: None,
            peak_mb: None,
            ..Record::clone(record)
        };
        serde_json::to_string(&bare).unwrap_or_default()
    };
    records.iter().map(figures).collect::<BTreeSet<_>>().len()
}

/// Two groups of runs: how many, and their medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Those with less.
    pub low: (usize, f64),
    /// Those with more.
    pub high: (usize, f64),
}

/// Whether values fall into two groups: the widest gap between neighbours is wider than either side of it (our choice: evenly
/// spread or normal values hardly ever do).
pub fn groups(values: &[f64]) -> Option<Groups> {
    if values.len() < MIN_RUNS {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (split, gap) = (GROUP..=sorted.len() - GROUP)
        .map(|split| (split, sorted[split] - sorted[split - 1]))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let (low, high) = sorted.split_at(split);
    let width = |side: &[f64]| side[side.len() - 1] - side[0];
    let (less, more) = quantile(low, 0.5).zip(quantile(high, 0.5))?;
    (gap > width(low).max(width(high)) && more >= APART * less)
        .then_some(Groups { low: (low.len(), less), high: (high.len(), more) })
}

/// What to know of the runs behind a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    /// There are several runs, and all of each contestant's are one and the same.
    pub one_run: bool,
    /// One sentence a line; nothing where each contestant ran once.
    pub text: String,
}

impl Variation {
    /// Of the records of a race.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record> + Clone) -> Self {
        let figures = figures(records.clone());
        let contestants = by_contestant(records);
        let repeated: Vec<_> = contestants.iter().filter(|(_, runs)| runs.len() > 1).collect();
        let Some(most) = repeated.iter().map(|(_, runs)| runs.len()).max() else { return Self::default() };
        let distinct: Vec<usize> = repeated.iter().map(|(_, runs)| distinct(runs)).collect();
        if distinct.iter().all(|distinct| *distinct == 1) {
            let text =
                format!("Nothing in this scenario is drawn: {most} runs are one run, and say nothing about chance.\n");
            return Self { one_run: true, text };
        }
        let mut text = differences(repeated.iter().flat_map(|(_, runs)| runs.iter().copied()));
        for ((name, runs), distinct) in repeated.iter().zip(&distinct) {
            if *distinct < runs.len() {
                text.push_str(&format!(
                    "Only {distinct} of the {} runs of {name} differ from each other.\n",
                    runs.len()
                ));
            }
            for (figure, unit, value) in figures {
                let values: Vec<f64> = runs.iter().filter_map(|record| value(record)).collect();
                if let Some(Groups { low: (few, less), high: (many, more) }) = groups(&values) {
                    text.push_str(&format!(
                        "{name} falls into two groups in {figure}: {few} runs around {}, {many} around {} {unit}; their median is neither.\n",
                        plain(less),
                        plain(more)
                    ));
                }
            }
        }
        Self { one_run: false, text }
    }
}

/// The keys that were drawn, and from where to where.
fn differences<'a>(records: impl Iterator<Item = &'a Record>) -> String {
    let mut drawn: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in records.flat_map(|record| &record.drawn) {
        drawn.entry(key).or_default().insert(value);
    }
    let keys: Vec<String> = drawn.iter().map(|(key, values)| format!("{key}{}", extent(values))).collect();
    match keys.as_slice() {
        [] => "No key of the scenario is a range: runs differ only in what else their seeds draw, such as how late timers are.\n".to_owned(),
        keys => format!("Runs differ in {}, and in what else their seeds draw.\n", keys.join(", ")),
    }
}

/// The least and the largest of values of one kind.
fn extent(values: &BTreeSet<&str>) -> String {
    type Kind = (fn(&str) -> Option<f64>, fn(f64) -> String);
    let kinds: [Kind; 4] = [
        (|text| text.parse().ok(), plain),
        (|text| text.parse().ok().map(Nanos::as_millis_f64), span),
        (|text| text.parse().ok().map(Rate::as_mbps), |mbps| format!("{} Mbit/s", plain(mbps))),
        (|text| text.parse().ok().map(|Bytes(bytes)| bytes as f64), |bytes| Bytes(bytes as u64).to_string()),
    ];
    for (parse, show) in kinds {
        let Some(numbers) = values.iter().map(|text| parse(text)).collect::<Option<Vec<f64>>>() else { continue };
        let (low, high) = (numbers.iter().copied().reduce(f64::min), numbers.iter().copied().reduce(f64::max));
        if let Some((low, high)) = low.zip(high) {
            return format!(" ({} to {})", show(low), show(high));
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_wider_than_both_sides_makes_two_groups() {
        let locked = [3.1, 3.3, 7.9, 3.2, 8.1, 8.0, 3.25, 7.95, 8.05, 3.15];
        assert_eq!(groups(&locked), Some(Groups { low: (5, 3.2), high: (5, 8.0) }));
        let spread: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(groups(&spread), None, "evenly spread");
        assert_eq!(groups(&[1.0, 8.0, 8.1, 8.2, 8.1, 8.0]), None, "one alone is an outlier");
        assert_eq!(groups(&[8.0, 8.0, 8.0, 8.1, 8.1, 8.1]), None, "near each other");
        assert_eq!(groups(&locked[..5]), None, "too few");
    }

    #[test]
    fn the_ends_of_what_was_drawn_are_named_in_units() {
        let of = |values: &[&'static str]| extent(&values.iter().copied().collect());
        assert_eq!(of(&["60219458ns", "1s", "2ms"]), " (2 ms to 1 s)");
        assert_eq!(of(&["0.5", "0.25"]), " (0.25 to 0.50)");
        assert_eq!(of(&["4 Mbit/s", "12 Mbit/s"]), " (4.00 Mbit/s to 12.0 Mbit/s)");
        assert_eq!(of(&["12packets", "9packets"]), "");
    }
}
