//! Event logs: a refusal is one line; what is taken is written as the same log again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::event_log::{Log, Reader};

/// The log written again, up to its first error.
fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let complain = |error: &dyn std::fmt::Display| {
        assert!(!error.to_string().contains(char::is_control), "{error}");
    };
    let reader = Reader::new("fuzz", bytes).map_err(|error| complain(&error)).ok()?;
    let mut log = Log::with_header(Vec::new(), reader.header()).expect("memory takes it");
    for line in reader {
        match line {
            Ok(line) => {
                let variables = || line.variables.clone().unwrap_or_default();
                line.event.with(|event| log.write(event, &line.answers, variables)).expect("memory takes it");
            }
            Err(error) => complain(&error),
        }
    }
    Some(log.finish().expect("memory takes it"))
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(written) = again(bytes) {
        assert!(again(&written).expect("it was written") == written);
    }
});
