//! Counts of transitions that `paceline mdi train --counts` wrote, of another machine: what is refused is refused in one line; what is read
//! is written and read again alike, and becomes a model that is read too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::mdi::Model;
use paceline_lab::mdi::Counts;

fuzz_target!(|text: &str| {
    match Counts::read(text) {
        Ok(counts) => {
            assert_eq!(Counts::read(&counts.text()).expect("what is written is read"), counts);
            let model = counts.model(0.0, Vec::new());
            assert_eq!(Model::read(&model.text(false)).expect("what is written is read"), model);
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.len() < 400 && !line.contains(char::is_control), "{line:?}");
        }
    }
});
