//! What quinn cannot express is refused when the factory is made; everything else of the registry is made.

use paceline_cc::Spec;
use paceline_cc::registry::CONTROLLERS;
use paceline_quic::{Factory, Refusal};

fn refusal(cc: &str) -> Refusal {
    Factory::new(cc.parse::<Spec>().unwrap(), 1).unwrap_err()
}

#[test]
fn chirps_are_refused_whatever_the_policy() {
    for start in ["chirp", "chirp-p", "chirp-q", "chirp-r"] {
        for policy in ["reno", "cubic", "dctcp", "prague"] {
            let text = format!("{policy}:start={start}");
            assert!(matches!(refusal(&text), Refusal::Chirp { .. }), "{text}");
        }
    }
    assert_eq!(
        refusal("cubic:start=chirp").to_string(),
        "cubic:start=chirp@quic: a chirp needs a gap of its own before each packet, and a quinn controller sets a window only"
    );
}

#[test]
fn every_entry_is_made_or_refused_for_a_reason() {
    let refused: Vec<_> = CONTROLLERS
        .iter()
        .filter_map(|entry| Factory::new(entry.name.parse().unwrap(), 1).err().map(|why| (entry.name, why)))
        .collect();
    let spec = |name: &str| name.to_owned();
    assert_eq!(
        refused,
        [
            ("dctcp", Refusal::Marks { spec: spec("dctcp") }),
            ("prague", Refusal::Marks { spec: spec("prague") }),
            ("sprout", Refusal::ReceiverHalf { spec: spec("sprout") }),
            ("sprout-ewma", Refusal::ReceiverHalf { spec: spec("sprout-ewma") }),
        ]
    );
    assert_eq!(
        refusal("sprout").to_string(),
        "sprout@quic: its receiver half must send feedback, and QUIC as quinn speaks it has no frame for that"
    );
    assert_eq!(
        refusal("dctcp").to_string(),
        "dctcp@quic: it counts ECN marks, and quinn tells a controller only that something was marked"
    );
}
