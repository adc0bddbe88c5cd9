//! What a stack cannot express is refused when the factory is made; everything else of the registry is made.

use paceline_cc::registry::CONTROLLERS;
use paceline_cc::start_ups::START_UPS;
use paceline_cc::{Ability, Misfit};

use crate::{STACKS, Tested};

fn refusal(tested: &Tested, spec: &str) -> Option<Misfit> {
    tested.stack.factory(spec.parse().unwrap(), 1).err()
}

#[test]
fn start_ups_with_gaps_of_their_own_are_refused_and_no_others() {
    for tested in STACKS {
        for start in START_UPS {
            for policy in ["reno", "cubic", "bic"] {
                let text = format!("{policy}:start={}", start.name);
                let refused = refusal(tested, &text).map(|misfit| misfit.ability);
                let datapath = tested.stack.datapath;
                let gaps = start.needs.contains(&Ability::ExactGaps) && !datapath.offers(Ability::ExactGaps);
                assert_eq!(refused, gaps.then_some(Ability::ExactGaps), "{text}@{}", datapath.name);
            }
        }
        let Some(refused) = refusal(tested, "cubic:start=chirp") else { continue };
        let refused = refused.to_string();
        let needs = "start=chirp needs an exact gap before each packet, and a controller of ";
        assert!(refused.starts_with(&format!("{needs}{} sets only a window", tested.stack.name)), "{refused}");
        assert!(refused.ends_with("; use @udp, @tcp, @alcc or @quic/s2n"), "{refused}");
    }
}

#[test]
fn every_entry_is_made_or_refused_for_a_reason() {
    for tested in STACKS {
        let refused = CONTROLLERS
            .iter()
            .filter_map(|entry| refusal(tested, entry.name).map(|misfit| (entry.name, misfit.ability)));
        let expected = [
            ("dctcp", Ability::ExactMarks),
            ("prague", Ability::ExactMarks),
            ("rledbat", Ability::ReceiverHalf),
            ("sprout", Ability::ReceiverHalf),
            ("sprout-ewma", Ability::ReceiverHalf),
        ];
        let lacking = expected.into_iter().filter(|(_, ability)| !tested.stack.datapath.offers(*ability));
        assert_eq!(refused.collect::<Vec<_>>(), lacking.collect::<Vec<_>>(), "{}", tested.stack.name);
    }
}
