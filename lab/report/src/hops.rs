//! What hops did, where a path has several: the packets that waited at each, and those that it lost.

use paceline_lab::record::LinkRecord;

use super::bars::Bars;
use super::data::{Contestant, Data};
use super::panel::Panel;
use super::svg::short;

/// Hops that are drawn (our choice: more are not compared; the table has all).
const MOST: usize = 8;
/// A hop where fewer packets than this wait on average, and fewer percent are lost, is not drawn (our choice: nothing could be seen).
const LEAST: f64 = 0.1;

const WAITING: [(&str, &str); 1] = [("waiting_packets", "queue")];
const MISSING: [(&str, &str); 2] = [("dropped_percent", "dropped"), ("lost_percent", "lost")];

/// A hop with what each contestant met there: medians over its runs.
struct Hop<'a> {
    name: &'a str,
    title: String,
    /// Packets that waited on average.
    waiting: Vec<Option<f64>>,
    /// Percent of the packets that came: dropped by the queue, lost behind it.
    missing: Vec<Option<[f64; 2]>>,
}

impl Hop<'_> {
    /// The most that any contestant has of something.
    fn most(values: impl Iterator<Item = f64>) -> f64 {
        values.fold(0.0, f64::max)
    }

    fn most_waiting(&self) -> f64 {
        Self::most(self.waiting.iter().flatten().copied())
    }

    fn most_missing(&self) -> f64 {
        Self::most(self.missing.iter().flatten().map(|parts| parts.iter().sum()))
    }
}

/// The hops with something to see, in the order of the records.
fn hops<'a>(data: &'a Data<'_>) -> Vec<Hop<'a>> {
    let mut links: Vec<&LinkRecord> = Vec::new();
    for link in data.records().flat_map(|record| &record.links) {
        if links.iter().all(|known| known.name != link.name) {
            links.push(link);
        }
    }
    let hop = |link: &&'a LinkRecord| {
        let median = |c: &Contestant<'_>, value: &dyn Fn(&LinkRecord) -> f64| {
            c.median(|record| record.links.iter().find(|one| one.name == link.name).map(value))
        };
        let percent = |part: u64, of: &LinkRecord| 100.0 * part as f64 / of.packets.max(1) as f64;
        let missing = |c: &Contestant<'_>| {
            Some([median(c, &|link| percent(link.dropped, link))?, median(c, &|link| percent(link.lost, link))?])
        };
        Hop {
            name: &link.name,
            title: format!("{}: {} to {}", link.name, link.from, link.to),
            waiting: data.contestants.iter().map(|c| median(c, &|link| link.queue_packets)).collect(),
            missing: data.contestants.iter().map(missing).collect(),
        }
    };
    links.iter().map(hop).filter(|hop| hop.most_waiting() >= LEAST || hop.most_missing() >= LEAST).take(MOST).collect()
}

/// Two panels for each hop, where it has something to show in them; nothing for a path of one hop.
pub(crate) fn panels(data: &Data<'_>) -> Vec<Panel> {
    let draw = |hop: &Hop<'_>| {
        let waiting = Bars {
            title: hop.title.clone(),
            axis: "packets that waited, on average",
            of: ("hop", hop.name.to_owned()),
            parts: &WAITING,
            rows: data.contestants.iter().zip(hop.waiting.iter().map(|size| size.map(|size| vec![size]))).collect(),
        };
        let missing = Bars {
            title: hop.title.clone(),
            axis: "packets dropped and lost, %",
            of: ("hop", hop.name.to_owned()),
            parts: &MISSING,
            rows: data.contestants.iter().zip(hop.missing.iter().map(|sizes| sizes.map(Vec::from))).collect(),
        };
        let mut panels = Vec::new();
        if hop.most_waiting() >= LEAST {
            panels.push(waiting.panel(&format!("Packets that waited at {}", hop.title)));
        }
        if hop.most_missing() >= LEAST {
            panels.push(missing.panel(&format!("Packets dropped and lost at {}", hop.title)));
        }
        panels
    };
    hops(data).iter().flat_map(draw).collect()
}

/// Where most waited, and where most went missing, as far as that is the same for all contestants.
pub(crate) fn reading(data: &Data<'_>) -> String {
    let hops = hops(data);
    let known = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
    // The hop that leads for every contestant, with the least and the most there.
    let leader = |value: &dyn Fn(&Hop<'_>, usize) -> Option<f64>| -> Option<(&str, f64, f64)> {
        let first = |index: usize| {
            let best = hops.iter().max_by(|a, b| known(value(a, index)).total_cmp(&known(value(b, index))))?;
            Some((best.name, value(best, index)?))
        };
        let all: Option<Vec<(&str, f64)>> = (0..data.contestants.len()).map(first).collect();
        let all = all.filter(|all| all.iter().all(|(name, most)| *name == all[0].0 && *most >= LEAST))?;
        let (name, low) = *all.first()?;
        let low = all.iter().map(|(_, most)| *most).fold(low, f64::min);
        Some((name, low, all.iter().map(|(_, most)| *most).fold(low, f64::max)))
    };
    let range = |low: f64, high: f64| {
        let (low, high) = (short(low), short(high));
        if low == high { low } else { format!("{low} to {high}") }
    };
    let mut said = Vec::new();
    if let Some((name, low, high)) = leader(&|hop, index| hop.waiting[index]) {
        said.push(format!("Most packets waited at {name}: {} on average.", range(low, high)));
    }
    if let Some((name, low, high)) = leader(&|hop, index| hop.missing[index].map(|parts| parts.iter().sum())) {
        said.push(format!("Most went missing at {name}: {} % of those that came.", range(low, high)));
    }
    said.join(" ")
}
