//! Logs of links and tables of others, as traces: a refusal is one line; what comes out is a trace by its own rules. The first byte says
//! which reader, and what the amounts of a table are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::Nanos;
use paceline_path::{Amount, Columns, Trace, TraceInfo, from_columns, from_log};

fuzz_target!(|bytes: &[u8]| {
    let Some((reader, bytes)) = bytes.split_first() else { return };
    let columns = |unit, holds| Columns { time: "time".to_owned(), unit, amount: "amount".to_owned(), holds };
    let read = match reader % 4 {
        0 => from_log("file", bytes),
        1 => from_columns("file", bytes, &columns(1.0, Amount::Bytes)),
        2 => from_columns("file", bytes, &columns(1e-3, Amount::Rate(1.0))),
        _ => from_columns("file", bytes, &columns(1e-6, Amount::Rate(1e6))),
    };
    match read {
        Ok(trace) => {
            assert!(trace.millis().is_sorted() && trace.lap() > Nanos::ZERO);
            let mut text = Vec::new();
            trace.write(&mut text).expect("memory takes it");
            assert_eq!(Trace::read("again", &text[..]).expect("it was written").millis(), trace.millis());
            let _ = TraceInfo::of(&trace);
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("file") && line.len() < 1000 && !line.contains(char::is_control), "{line:?}");
        }
    }
});
