//! What quinn cannot express is refused when the factory is made; everything else of the registry is made.

use paceline_cc::registry::CONTROLLERS;
use paceline_cc::start_ups::START_UPS;
use paceline_cc::{Ability, Misfit, Spec};
use paceline_quic::Factory;

fn refusal(cc: &str) -> Option<Misfit> {
    Factory::new(cc.parse::<Spec>().unwrap(), 1).err()
}

#[test]
fn start_ups_with_gaps_of_their_own_are_refused_and_no_others() {
    for start in START_UPS {
        for policy in ["reno", "cubic", "bic"] {
            let text = format!("{policy}:start={}", start.name);
            let refused = refusal(&text).map(|misfit| misfit.ability);
            let gaps = start.needs.contains(&Ability::ExactGaps);
            assert_eq!(refused, gaps.then_some(Ability::ExactGaps), "{text}");
        }
    }
    assert_eq!(
        refusal("cubic:start=chirp").unwrap().to_string(),
        "start=chirp needs an exact gap before each packet, and a controller of quinn sets only a window; use @udp, @tcp or @alcc"
    );
}

#[test]
fn every_entry_is_made_or_refused_for_a_reason() {
    let refused: Vec<_> =
        CONTROLLERS.iter().filter_map(|entry| refusal(entry.name).map(|misfit| (entry.name, misfit.ability))).collect();
    assert_eq!(
        refused,
        [
            ("dctcp", Ability::ExactMarks),
            ("prague", Ability::ExactMarks),
            ("rledbat", Ability::ReceiverHalf),
            ("sprout", Ability::ReceiverHalf),
            ("sprout-ewma", Ability::ReceiverHalf),
        ]
    );
}
