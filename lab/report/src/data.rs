//! What the figures are drawn from: runs just made, or records alone.

use std::collections::{BTreeMap, BTreeSet};

use paceline_cc::names::all_of;
use paceline_experiment::FlowSeries;

use super::steps::{self, Shown};
use super::{Raced, palette};
use paceline_lab::record::{Record, Split};
use paceline_lab::stats::{Median, Summary, by_contestant};

/// About this many runs of all contestants together are drawn over time (our choice: a page of at most some 3 MB).
const MOST_SHOWN: usize = 24;
/// Most seeds that are listed one by one (our choice: a line's room).
const MOST_SEEDS: usize = 5;

/// Everything that a report shows.
#[derive(Debug)]
pub(crate) struct Data<'a> {
    /// Scenario, and file of the records where there is no more.
    pub(crate) title: String,
    /// The scenario as run, where it is known.
    pub(crate) effective: Option<&'a str>,
    /// The scenario as written.
    pub(crate) written: Option<&'a str>,
    /// The command that gives this report again, where it is known.
    pub(crate) command: Option<&'a str>,
    /// In the scenario's order.
    pub(crate) contestants: Vec<Contestant<'a>>,
}

/// One contestant with all its runs.
#[derive(Debug)]
pub(crate) struct Contestant<'a> {
    pub(crate) summary: Summary,
    pub(crate) records: Vec<&'a Record>,
    /// Runs with points over time: the first, or the first ones.
    pub(crate) shown: Vec<Shown<'a>>,
    /// Which flows of a run are its own; empty when unknown.
    pub(crate) own: &'a [bool],
    /// One-way delay at the shares 0, 0.01, ... 1, over runs; empty when unknown.
    pub(crate) delay_quantiles_ms: Vec<f64>,
    /// Completion times likewise, where flows end.
    pub(crate) completion_quantiles_ms: Vec<f64>,
    pub(crate) style: Style,
}

/// How a contestant looks in every figure: the controller gives the colour, the datapath the dash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Number of the contestant on the page, for the toggles.
    pub(crate) number: usize,
    /// Its colour's name in the palette.
    pub(crate) colour: &'static str,
    pub(crate) dash: &'static str,
}

/// The looks given so far on a page.
#[derive(Debug, Default)]
pub(crate) struct Styles(BTreeMap<String, Style>);

impl Styles {
    /// One controller with several sets of parameters over one datapath: the first has its colour, the others have colours of the
    /// reserve, as far as these go.
    fn of(&mut self, record: &Record) -> Style {
        self.named(&record.contestant(), &record.controller, &record.via)
    }

    /// The same by the names alone.
    pub(crate) fn named(&mut self, contestant: &str, controller: &str, via: &str) -> Style {
        if let Some(style) = self.0.get(contestant) {
            return *style;
        }
        let dash = palette::dash(via);
        let taken = |colour: &str| self.0.values().any(|style| (style.colour, style.dash) == (colour, dash));
        let colour = palette::free(contestant, controller, taken);
        let style = Style { number: self.0.len(), colour, dash };
        self.0.insert(contestant.to_owned(), style);
        style
    }
}

impl Contestant<'_> {
    pub(crate) fn name(&self) -> &str {
        &self.summary.contestant
    }

    /// CSS classes of its marks: number (for the toggles), colour and dash.
    pub(crate) fn class(&self) -> String {
        format!("k k{} c-{} {}", self.style.number, self.style.colour, self.style.dash)
    }

    /// CSS classes of what surrounds them.
    pub(crate) fn panel_class(&self) -> String {
        format!("k k{}", self.style.number)
    }

    /// Throughput in Mbit/s: of its own flows, where others run beside them.
    pub(crate) fn throughput(&self) -> Median {
        self.summary.own_throughput_mbps.unwrap_or(self.summary.throughput_mbps)
    }

    /// Whether a flow is its own.
    pub(crate) fn owns(&self, flow: &FlowSeries) -> bool {
        self.own.get(flow.index).copied().unwrap_or(true)
    }

    /// Its own flows over time.
    pub(crate) fn own_flows<'s>(&'s self, shown: &'s Shown<'_>) -> impl Iterator<Item = &'s FlowSeries> {
        shown.series.flows.iter().filter(|flow| self.owns(flow))
    }

    /// The flows beside them.
    pub(crate) fn rivals<'s>(&'s self, shown: &'s Shown<'_>) -> impl Iterator<Item = &'s FlowSeries> {
        shown.series.flows.iter().filter(|flow| self.own.get(flow.index) == Some(&false))
    }

    /// Mean delay by where it came from, averaged over the runs that have it.
    pub(crate) fn split(&self) -> Split {
        let mean = |side: &dyn Fn(&Split) -> Option<paceline_lab::record::Parts>| {
            let parts: Vec<_> = self.records.iter().filter_map(|r| side(&r.split)).collect();
            let count = parts.len() as f64;
            (!parts.is_empty()).then(|| paceline_lab::record::Parts {
                propagation_ms: parts.iter().map(|p| p.propagation_ms).sum::<f64>() / count,
                queue_ms: parts.iter().map(|p| p.queue_ms).sum::<f64>() / count,
                transmission_ms: parts.iter().map(|p| p.transmission_ms).sum::<f64>() / count,
            })
        };
        Split { down: mean(&|s| s.down), up: mean(&|s| s.up) }
    }

    /// 95th percentile of one-way delay, or of the round trip where that is not known.
    pub(crate) fn delay_p95_ms(&self) -> Option<Median> {
        self.summary.delay_p95_ms.or(self.summary.rtt_p95_ms)
    }

    /// The median over the runs of a value of the records.
    pub(crate) fn median(&self, value: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.records.iter().filter_map(|r| value(r)).collect();
        Median::of(&values).map(|m| m.median)
    }
}

impl<'a> Data<'a> {
    /// Of a race just run.
    pub(crate) fn of_race(race: Raced<'a>) -> Self {
        let mut contestants = group(race.runs.iter().map(|run| &run.record), &mut Styles::default());
        let count = contestants.len();
        for (index, contestant) in contestants.iter_mut().enumerate() {
            let runs = || race.runs.iter().filter(|run| run.contestant == index);
            contestant.shown = runs().filter_map(Shown::of).take(MOST_SHOWN.div_ceil(count.max(1))).collect();
            contestant.own = runs().next().map_or(&[], |run| &run.own);
            let curves: Vec<&[f64]> = runs().map(|run| run.delay_quantiles_ms.as_slice()).collect();
            contestant.delay_quantiles_ms = mean_quantiles(&curves);
            let curves: Vec<&[f64]> = runs().map(|run| run.completion_quantiles_ms.as_slice()).collect();
            contestant.completion_quantiles_ms = mean_quantiles(&curves);
        }
        steps::fold(&mut contestants);
        Self {
            title: race.title.to_owned(),
            effective: Some(race.effective),
            written: Some(race.written),
            command: Some(race.command),
            contestants,
        }
    }

    /// Of records: one for each scenario, trace, world and length, in the order in which they first appear.
    pub(crate) fn of_records(records: &'a [Record]) -> Vec<Self> {
        let mut styles = Styles::default();
        let mut groups: Vec<Vec<&Record>> = Vec::new();
        let alike = |a: &Record, b: &Record| {
            (&a.scenario, &a.trace, &a.world) == (&b.scenario, &b.trace, &b.world) && a.seconds == b.seconds
        };
        for record in records {
            match groups.iter_mut().find(|group| alike(group[0], record)) {
                Some(group) => group.push(record),
                None => groups.push(vec![record]),
            }
        }
        let data = |group: Vec<&'a Record>| Self {
            title: group[0].scenario.clone(),
            effective: None,
            written: None,
            command: None,
            contestants: self::group(group.into_iter(), &mut styles),
        };
        groups.into_iter().map(data).collect()
    }

    /// The first record, for what all have in common.
    pub(crate) fn first(&self) -> Option<&'a Record> {
        self.contestants.first().and_then(|c| c.records.first().copied())
    }

    /// All records.
    pub(crate) fn records(&self) -> impl Iterator<Item = &'a Record> + Clone {
        self.contestants.iter().flat_map(|c| c.records.iter().copied())
    }

    /// Of the records, in order.
    pub(crate) fn seeds(&self) -> BTreeSet<u64> {
        self.records().map(|record| record.seed).collect()
    }

    /// `seed 1`, or `seeds 1 and 9`.
    pub(crate) fn seeds_text(&self) -> String {
        let seeds: Vec<String> = self.seeds().iter().map(u64::to_string).collect();
        match seeds.len() {
            1 => format!("seed {}", seeds[0]),
            2..=MOST_SEEDS => format!("seeds {}", all_of(&seeds)),
            many => format!("{many} seeds"),
        }
    }

    /// Other flows run beside the contestants'.
    pub(crate) fn has_rivals(&self) -> bool {
        self.contestants.iter().any(|c| c.summary.own_throughput_mbps.is_some())
    }

    /// Traffic without a controller runs beside all flows.
    pub(crate) fn has_cross_traffic(&self) -> bool {
        self.contestants.iter().flat_map(|c| &c.shown).any(|shown| !shown.cross_mbps.is_empty())
    }

    /// Of two hosts without a clock in common: round trips stand for one-way delay.
    pub(crate) fn is_remote(&self) -> bool {
        self.records().any(|record| record.clock.is_some())
    }

    /// Has points over time.
    pub(crate) fn has_series(&self) -> bool {
        self.contestants.iter().any(|c| !c.shown.is_empty())
    }

    /// The runs with points over time.
    pub(crate) fn runs_shown(&self) -> Vec<u32> {
        let mut runs: Vec<u32> =
            self.contestants.iter().flat_map(|c| c.shown.iter().map(|shown| shown.record.run)).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }
}

/// Records by contestant, in the order in which they first appear.
fn group<'a>(records: impl Iterator<Item = &'a Record>, styles: &mut Styles) -> Vec<Contestant<'a>> {
    let mut contestants = Vec::new();
    for (_, records) in by_contestant(records) {
        let Some(summary) = Summary::of(&records) else { continue };
        let style = styles.of(records[0]);
        contestants.push(Contestant {
            summary,
            records,
            shown: Vec::new(),
            own: &[],
            delay_quantiles_ms: Vec::new(),
            completion_quantiles_ms: Vec::new(),
            style,
        });
    }
    contestants
}

/// The quantiles of several runs, averaged share by share.
fn mean_quantiles(curves: &[&[f64]]) -> Vec<f64> {
    let curves: Vec<_> = curves.iter().filter(|c| !c.is_empty()).collect();
    let length = curves.iter().map(|c| c.len()).min().unwrap_or(0);
    (0..length).map(|i| curves.iter().map(|c| c[i]).sum::<f64>() / curves.len() as f64).collect()
}
