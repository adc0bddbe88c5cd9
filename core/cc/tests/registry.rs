//! The parser of controller strings, which come from command lines and files: no text makes it panic, what it takes it
//! writes back, what it refuses it explains in one line.

use paceline_cc::Spec;
use paceline_cc::registry::CONTROLLERS;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Fixed cases; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` give more and others.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let rng_seed = if config.rng_seed == RngSeed::Random { RngSeed::Fixed(1) } else { config.rng_seed };
    ProptestConfig { rng_seed, failure_persistence: None, ..config }
}

/// Text near the grammar: names, keys and values, right and wrong, between the separators.
fn near_grammar() -> impl Strategy<Value = String> {
    let mut words: Vec<String> = ["", "1", "-1", "0", "1e999", "nan", "inf", "0x10", "on", "slow", "start", "é", "\0"]
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    for entry in CONTROLLERS {
        words.push(entry.name.to_owned());
        words.extend(entry.params().map(|param| param.name.to_owned()));
        words.extend(entry.params().map(|param| param.default.to_owned()));
    }
    let word = prop_oneof![4 => prop::sample::select(words), 1 => "\\PC{0,8}"];
    let separator = prop::sample::select(vec![":", "=", ",", "", "=,", "::"]);
    prop::collection::vec((word, separator), 0..10)
        .prop_map(|parts| parts.into_iter().flat_map(|(word, separator)| [word, separator.to_owned()]).collect())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Spec>() {
        Ok(spec) => {
            let written = spec.to_string();
            let again = written.parse::<Spec>();
            prop_assert_eq!(again.as_ref(), Ok(&spec), "written as {}", written);
        }
        Err(error) => {
            let line = error.to_string();
            prop_assert!(!line.chars().any(char::is_control), "not one line: {line:?}");
            prop_assert!(line.chars().count() < 600, "too long: {line}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn no_text_near_the_grammar_panics(text in near_grammar()) {
        check(&text)?;
    }

    #[test]
    fn numbers_round_trip(window in 1.0..1e9f64) {
        check(&format!("fixed:window={window}"))?;
        check(&format!("fixed:window={window:e}"))?;
    }
}
