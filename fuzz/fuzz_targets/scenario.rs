//! The scenario parser with `--set`: a refusal is one line; what is accepted, written out as the scenario in force, gives
//! the same scenario again. The input is a file and settings, parted by zero bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_lab::scenario::{Options, Source};

fuzz_target!(|input: &str| {
    let mut parts = input.split('\0').map(str::to_owned);
    let text = parts.next().unwrap_or_default();
    let options = || Options { runs: Some(1), ..Options::default() };
    match Source::from_text("fuzz.toml", &text, Options { set: parts.collect(), ..options() }).plans() {
        Ok(plans) => {
            let scenario = &plans[0].scenario;
            let written = scenario.to_toml();
            let again = Source::from_text("fuzz.toml", &written, options()).plans();
            let again = again.unwrap_or_else(|error| panic!("{error} in\n{written}"));
            assert!(again[0].scenario == *scenario, "{written}");
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains(['\n', '\r']), "{line:?}");
        }
    }
});
