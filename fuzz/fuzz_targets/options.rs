//! The variables `PACELINE_*` and the options of the C library: a refusal is one line; what is taken, written as variables,
//! says the same again. The input is one value for each variable, parted by zero bytes; empty ones are not set.
#![no_main]

#[path = "../../bindings/c/src/options.rs"]
mod c;

use libfuzzer_sys::fuzz_target;
use paceline_alcc::Options;
use paceline_alcc::export::{METRICS, QLOG, Settings};
use paceline_alcc::filter::{Filter, PEERS, PORTS};
use paceline_alcc::options::{ACKS, AGGREGATE, CONTROLLER, LINGER, LOWER, MEMORY, MODE, QUEUE, SHARE};

const NAMES: [&str; 13] =
    [CONTROLLER, MODE, ACKS, QUEUE, MEMORY, LINGER, LOWER, SHARE, AGGREGATE, PORTS, PEERS, METRICS, QLOG];

/// Reads by `read` what `given` has, then what `write` makes of it.
fn again<T: PartialEq + std::fmt::Debug, E: std::fmt::Display>(
    given: &dyn Fn(&str) -> Option<String>,
    read: impl Fn(&dyn Fn(&str) -> Option<String>) -> Result<T, E>,
    write: impl Fn(&T) -> Vec<(&'static str, String)>,
) {
    match read(given) {
        Ok(value) => {
            let vars = write(&value);
            let find = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, text)| text.clone());
            let second = read(&find).unwrap_or_else(|error| panic!("{error}: {vars:?}"));
            assert_eq!(second, value, "{vars:?}");
        }
        Err(error) => one_line(&error.to_string()),
    }
}

fn one_line(text: &str) {
    assert!(!text.is_empty() && text.len() < 100_000 && !text.contains('\n'), "{text:?}");
}

fuzz_target!(|input: &str| {
    let values: Vec<&str> = input.split('\0').collect();
    let given = |name: &str| {
        let at = NAMES.iter().position(|known| *known == name)?;
        values.get(at).filter(|text| !text.is_empty()).map(|text| (*text).to_owned())
    };
    again(&given, |var| Options::from_vars(var), Options::to_env);
    again(&given, |var| Filter::from_vars(var), Filter::to_env);
    again(&given, |var| Settings::from_vars(var), Settings::to_env);
    if let Err(line) = c::read(input, |_| None) {
        one_line(&line.to_string());
    }
});
