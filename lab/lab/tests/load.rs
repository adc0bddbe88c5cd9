//! What a second trace for a light load does to controllers: the claims of `docs/results/load-dependent.md`.

use std::path::Path;

use paceline_lab::record::Record;
use paceline_lab::stats::Median;
use paceline_lab::sweep::Sweep;

/// Of the runs in the file: enough for a median, and few enough for a test.
const RUNS: usize = 3;

/// Medians in a cell, for Copa and for Verus.
fn both(sweep: &Sweep, cell: usize, figure: impl Fn(&Record) -> f64) -> (f64, f64) {
    let runs = sweep.runs as usize;
    let of = |contestant: &str| {
        let place = sweep.contestants.iter().position(|name| name == contestant).unwrap();
        let first = (place * sweep.cells() + cell) * runs;
        let values: Vec<f64> = (first..first + RUNS).map(|index| figure(&sweep.point(index).run().unwrap())).collect();
        Median::of(&values).unwrap().median
    };
    (of("copa@udp"), of("verus@udp"))
}

#[test]
fn the_ranking_under_saturation_is_not_that_under_a_light_load() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps/load-dependent.toml");
    let sweep = Sweep::read(&file).unwrap();
    // Cells: saturated, 2 Mbit/s and short flows; on one trace, then with a light trace.
    let throughput = |cell| both(&sweep, cell, |record| record.throughput_mbps);
    let (copa, verus) = throughput(0);
    assert!(copa < verus && copa > 0.85 * verus, "one trace, saturated: {copa} {verus}");
    let (copa, verus) = throughput(3);
    assert!(copa < 0.7 * verus && verus > 11.0, "saturated, grants follow what waits: {copa} {verus}");
    let delay = |cell| both(&sweep, cell, |record| record.delay_ms.unwrap().p95);
    let (before, after) = (delay(1), delay(4));
    assert!((before.0 - before.1).abs() < 1.0, "one trace does not distinguish them at 2 Mbit/s: {before:?}");
    assert!(after.0 > 1.5 * before.0 && after.0 + 2.0 < after.1, "{before:?} {after:?}");
    let completion = |cell| both(&sweep, cell, |record| record.fct_ms.unwrap().p50);
    let (before, after) = (completion(2), completion(5));
    assert!(before.0 < 0.6 * before.1 && after.0 < 0.6 * after.1, "short flows: {before:?} {after:?}");
    assert!(after.0 > 1.04 * before.0 && after.1 > 1.08 * before.1, "one trace flatters: {before:?} {after:?}");
}
