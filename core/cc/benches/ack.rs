//! Time of one packet's events (sent, acknowledged, the window and the gap read again) for every registered controller;
//! with its receiver half, for those that have one. `fixed` reacts to nothing: its time is that of the feed.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::testing::steady::Steady;

fn ack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ack");
    group.throughput(Throughput::Elements(1));
    for entry in CONTROLLERS {
        let spec = entry.name.parse().expect("the bare name parses");
        let mut feed = Steady::new(&spec);
        for _ in 0..10_000 {
            feed.step();
        }
        group.bench_function(entry.name, |bencher| bencher.iter(|| feed.step()));
    }
    group.finish();
}

criterion_group!(benches, ack);
criterion_main!(benches);
