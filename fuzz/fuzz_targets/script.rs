//! Scripts: a refusal is one line of bounded length with its place; what is taken runs to its end, or to one such line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_conform::script::{Script, ScriptError, table};

fn is_one_line(error: &ScriptError) {
    let line = error.to_string();
    assert!(line.starts_with("f:") && line.len() < 1500 && !line.contains(char::is_control), "{line:?}");
}

fuzz_target!(|text: &str| {
    match Script::parse("f", text, str::parse).and_then(|script| script.run(None, None)) {
        Ok(run) => assert!(!table(&[run]).is_empty()),
        Err(error) => is_one_line(&error),
    }
});
