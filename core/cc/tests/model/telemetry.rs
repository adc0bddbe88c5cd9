//! Reports of hops, true and false, and what controllers without them are.

use paceline_cc::Spec;
use paceline_cc::controller::{Cause, Hop};
use paceline_cc::units::{Nanos, Rate};
use proptest::prelude::*;

use super::datapath::Datapath;
use super::{Operation, described, for_every, operation, run, span, world};

/// What the path reports.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) verdict: Cause,
    pub(crate) fresh_for: Nanos,
    /// The report came with a packet that is known.
    pub(crate) in_band: bool,
    pub(crate) hops: Vec<Hop>,
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    let bytes = prop_oneof![1 => Just(0), 4 => 1_000..200_000_000u64, 1 => 0..1u64 << 40];
    prop::option::weighted(0.8, bytes.prop_map(Rate::from_bytes_per_sec))
}

fn packets() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.9, prop_oneof![2 => Just(0), 8 => 0..300u32, 1 => any::<u32>()])
}

fn hop() -> impl Strategy<Value = Hop> {
    let queue = prop::option::weighted(0.8, prop_oneof![1 => Just(0), 6 => 0..2_000_000u64, 1 => 0..1u64 << 40]);
    let flows = prop::option::weighted(0.8, prop_oneof![6 => 0..6u32, 1 => any::<u32>()]);
    (0..4u32, packets(), packets(), (rate(), rate()), flows, queue, prop::option::of(any::<u32>())).prop_map(
        |(id, room_packets, limit_packets, (capacity, arrival), flows, queue_bytes, drops)| Hop {
            id,
            queue_bytes,
            room_packets,
            limit_packets,
            capacity,
            arrival,
            flows,
            drops,
            ..Hop::default()
        },
    )
}

/// Any report: of no hop, of one, of several; fresh for long, for a moment, or not at all.
pub(crate) fn report() -> impl Strategy<Value = Report> {
    let verdict = prop::sample::select(vec![Cause::Unknown, Cause::Medium, Cause::Medium, Cause::Congestion]);
    let fresh = prop_oneof![4 => (50..500u64).prop_map(Nanos::from_millis), 1 => span()];
    (verdict, fresh, any::<bool>(), prop::collection::vec(hop(), 0..4))
        .prop_map(|(verdict, fresh_for, in_band, hops)| Report { verdict, fresh_for, in_band, hops })
}

/// What a controller is without telemetry.
const PLAIN: [(&str, &str); 8] = [
    ("cubic-l1", "cubic"),
    ("cubic-l1g", "cubic"),
    ("cubic-l2", "cubic"),
    ("cubic-l1:start=hystart++,beta=0.8", "cubic:start=hystart++,beta=0.8"),
    ("cubic:eq1=3", "cubic:start=slow"),
    ("reno:eq1=1", "reno:start=slow"),
    ("hops", "cubic"),
    ("hops:start=slow", "cubic:start=slow"),
];

#[test]
fn without_telemetry_they_are_what_they_are_built_on() {
    let reports = prop_oneof![3 => Just(None), 1 => report().prop_map(Some)];
    let sequences = |_: &&str| (world(), prop::collection::vec((operation(), reports.clone()), 1..80));
    for (name, plain) in PLAIN {
        for_every([name], 96, sequences, |_, (world, operations)| {
            let parse = |text: &str| text.parse::<Spec>().expect(text);
            let mut flows = [name, plain].map(|text| (Datapath::new(&parse(text), world), world.env.mss));
            for (operation, stale) in &operations {
                // What was never fresh is as good as nothing.
                let stale = stale.iter().map(|report| Report { fresh_for: Nanos::ZERO, ..report.clone() });
                let stale = stale.map(Operation::Telemetry).next();
                for (flow, mss) in &mut flows {
                    if let Some(stale) = &stale {
                        run(flow, mss, stale);
                    }
                    if !matches!(operation, Operation::Telemetry(_)) {
                        run(flow, mss, operation);
                    }
                }
                let [one, other] = flows.each_ref().map(|(flow, _)| {
                    let (window, pacing, variables) = described(flow.controller.as_ref());
                    let exact = variables.into_iter().find(|(name, _)| *name == "cwnd_packets");
                    (window, pacing, exact.map(|(_, cwnd)| cwnd.to_bits()), flow.controller.threshold())
                });
                assert_eq!(one, other, "after {operation:?}");
            }
        });
    }
}
