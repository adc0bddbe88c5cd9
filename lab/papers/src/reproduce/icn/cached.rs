//! A question of ours: what a router with a cache saves, and what its receivers gain.

use crate::reproduce::prelude::*;
use std::sync::Arc;

use paceline_cc::Time;
use paceline_experiment::Seed;
use paceline_experiment::icn::SyntheticObject;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::OURS;
use super::network::{Links, Received};
use super::run::{self, claim, seeds};

/// Objects, and bytes of each.
const OBJECTS: usize = 100;
const BYTES: u64 = 500_000;
/// Fetches of a run.
const FETCHES: usize = 1000;
/// Zipf's exponent: of web requests (Breslau et al., "Web caching and Zipf-like distributions", INFOCOM 1999: 0.64 to 0.83).
const ZIPF: f64 = 0.8;
/// Mean seconds between two fetches: 20 Mbit/s of objects.
const APART: f64 = 0.2;
/// Sizes of the cache, per cent of all objects.
const SIZES: [u64; 4] = [0, 10, 30, 100];

/// What one run found.
struct Cached {
    /// Bytes that came from upstream for a byte that receivers got.
    upstream: f64,
    /// Seconds of a fetch: median, 95th percentile.
    median: f64,
    tail: f64,
    whole: usize,
}

/// Which object each fetch wants, and when it begins.
fn wanted(seed: u64) -> Vec<(f64, usize)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let weights: Vec<f64> = (1..=OBJECTS).map(|rank| (rank as f64).powf(-ZIPF)).collect();
    let all: f64 = weights.iter().sum();
    let mut now = 0.0;
    (0..FETCHES)
        .map(|_| {
            now -= (1.0 - random.random::<f64>()).ln() * APART;
            let mut left = random.random::<f64>() * all;
            let object = weights.iter().position(|weight| {
                left -= weight;
                left <= 0.0
            });
            (now, object.unwrap_or(0))
        })
        .collect()
}

fn run(size: u64, objects: &[Arc<SyntheticObject>], seed: u64) -> Cached {
    let mut links = Links::new(seed);
    let far = "rate = \"50 Mbit/s\"\ndelay = \"25ms\"\nqueue = \"droptail:packets=350\"";
    links.link(["origin", "edge"], far, "delay = \"25ms\"");
    let near = "rate = \"200 Mbit/s\"\ndelay = \"2ms\"\nqueue = \"droptail:packets=350\"";
    links.link(["edge", "user"], near, "delay = \"2ms\"");
    let wanted = wanted(seed);
    let last = wanted.last().map_or(0.0, |(begins, _)| *begins);
    let mut network = links.world(last as u64 + 60);
    let origin = network.router("origin", objects);
    let all: u64 = objects.iter().map(|object| object.layout().stored_bytes()).sum();
    let edge = network.cache("edge", size * all / 100, origin);
    let mut fetches = Vec::new();
    for (begins, object) in wanted {
        network.world.run_until(Time::ZERO + Nanos::from_nanos((begins * 1e9) as u64));
        fetches.push(network.receiver("user", &objects[object], &[edge]));
    }
    network.world.run_until(Time::NEVER);
    let received: Vec<_> = fetches.into_iter().map(|fetch| network.received(fetch)).collect();
    let whole = received.iter().filter(|received| received.whole).count();
    let mut seconds: Vec<f64> = received.iter().map(Received::seconds).collect();
    let hops = network.world.finish().hops;
    let upstream = hops[0].stats.delivered.bytes as f64 / hops[2].stats.delivered.bytes.max(1) as f64;
    seconds.sort_by(f64::total_cmp);
    let quantile = |q: f64| seconds[((seconds.len() - 1) as f64 * q) as usize];
    Cached { upstream, median: quantile(0.5), tail: quantile(0.95), whole }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let object = |number| SyntheticObject::new(BYTES, Seed(number as u64 + 1));
    let objects: Vec<_> = (0..OBJECTS).map(object).collect();
    let runs: Vec<Vec<Cached>> =
        SIZES.iter().map(|size| seeds(bench, 3).map(|seed| run(*size, &objects, seed)).collect()).collect();
    let cell = |at: usize, ours: String, holds: bool| {
        run::cell("cache", format!("{} % of the objects", SIZES[at]), ours, holds)
    };
    let upstream = |at: usize| typical(&runs[at], |run| run.upstream);
    let median = |at: usize| typical(&runs[at], |run| run.median);
    let percent = |share: f64| format!("{} %", short((share * 1000.0).round() / 10.0));
    let saves =
        |at: usize, most: f64| cell(at, format!("{} came from upstream", percent(upstream(at))), upstream(at) <= most);
    let faster = |at: usize| {
        let text = format!("{} s, without a cache {} s", short(median(at)), short(median(0)));
        cell(at, text, median(at) <= 0.5 * median(0))
    };
    let whole = |at: usize| {
        let least = runs[at].iter().map(|run| run.whole).min().unwrap_or(0);
        cell(at, format!("{least} of {FETCHES} fetches"), least == FETCHES)
    };
    let claims = vec![
        claim(
            "with room for 30 % of the objects at most two thirds of the bytes come from upstream, with room for all at most a third (target \
             of ours)",
            OURS,
            "",
            vec![saves(2, 2.0 / 3.0), saves(3, 1.0 / 3.0)],
        ),
        claim(
            "with room for all objects the median time of a fetch is at most half of that without a cache (target of ours)",
            OURS,
            "",
            vec![faster(3)],
        ),
        claim(
            "every byte comes out once, in order and right (target of ours)",
            OURS,
            "",
            (0..SIZES.len()).map(whole).collect(),
        ),
    ];
    let row = |at: usize| {
        let values = [percent(upstream(at)), short(median(at)), short(typical(&runs[at], |run| run.tail))];
        plain(format!("{} %", SIZES[at]), values)
    };
    let points = (0..SIZES.len()).map(|at| (SIZES[at] as f64, Some(100.0 * upstream(at))));
    let line = PlotLine::dotted(palette::classes([OURS]).remove(0), points);
    let chart = ChartRow::single("from upstream, %", PlotAxis::linear(100.0), 220.0, vec![line]);
    let x = ("cache, % of the objects", PlotAxis::linear(100.0));
    let sheet = Sheet::new("Bytes from upstream by size of the cache", x, vec![chart]);
    Ok(Findings {
        setup: vec![format!(
            "{OBJECTS} objects of {} kB, {FETCHES} fetches by Zipf's law (exponent {ZIPF}), one every {APART} s in the mean (exponential), over \
             200 Mbit/s and 4 ms to a router that asks another one over 50 Mbit/s and 50 ms. The cache begins empty, takes an object when \
             it was missed twice, and drops the one that was not used for longest. Fetches of one object at a time share what comes.",
            BYTES / 1000,
        )],
        claims,
        tables: vec![Table::new(
            "By size of the cache",
            "Medians over runs.",
            ["from upstream", "fetch p50, s", "fetch p95, s"],
            (0..SIZES.len()).map(row),
        )],
        drawings: vec![Drawing::new("Bytes from upstream", &sheet, format!("{OURS}, medians."))],
        ..Findings::default()
    })
}
