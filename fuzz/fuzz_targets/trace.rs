//! The trace parser: what is refused is refused in one line; what is read is a trace by its own rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_path::Trace;

fuzz_target!(|bytes: &[u8]| {
    match Trace::read("trace", bytes) {
        Ok(trace) => {
            assert!(trace.millis().is_sorted());
            assert!(trace.lap().as_nanos() > 0);
            let again = Trace::from_millis("trace", trace.millis().to_vec()).expect("the same rules");
            assert!(again == trace);
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("trace") && text.len() < 300, "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
});
