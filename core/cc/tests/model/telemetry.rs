//! What controllers are without reports of hops.

use paceline_cc::Spec;
use paceline_cc::units::Nanos;
use proptest::prelude::*;

use super::datapath::Datapath;
use super::for_every;
use super::operations::{Operation, described, operation, run, world};
use super::report::{Report, report};

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
                    (window, pacing, exact.map(|(_, cwnd)| cwnd.to_bits()), flow.controller.permit().threshold)
                });
                assert_eq!(one, other, "{name} and {plain} after {operation:?}");
            }
        });
    }
}
