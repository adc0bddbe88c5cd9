//! Time of one packet's events (sent, acknowledged, the window and the gap read again) for every registered controller;
//! with its receiver half, for those that have one. `fixed` reacts to nothing: its time is that of the feed.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::testing::ack as acknowledgement;
use paceline_cc::testing::steady::Steady;
use paceline_cc::{Env, Nanos, Spec, Time};

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

/// One epoch of `mdi`, with an acknowledgement in it.
fn epoch(criterion: &mut Criterion) {
    let spec: Spec = "mdi".parse().expect("it is registered");
    let mut mdi = spec.build(&Env::default());
    let mut millis = 40;
    mdi.on_ack(&acknowledgement(Time::ZERO, Nanos::from_millis(millis), 0));
    criterion.bench_function("epoch/mdi", |bencher| {
        bencher.iter(|| {
            let now = mdi.next_tick();
            // All delays of the grid in turn.
            millis = 40 + (millis + 1) % 400;
            mdi.on_ack(&acknowledgement(now, Nanos::from_millis(millis), 0));
            mdi.on_tick(now);
            mdi.window()
        });
    });
}

criterion_group!(benches, ack, epoch);
criterion_main!(benches);
