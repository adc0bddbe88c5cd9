//! Tables of rate steps: a refusal is one line; a trace that comes out is one by its own rules, and can be written as a
//! table that is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::Nanos;
use paceline_path::convert::{from_table, to_table};

fuzz_target!(|bytes: &[u8]| {
    match from_table("table", bytes) {
        Ok(trace) => {
            assert!(trace.millis().is_sorted() && trace.lap() > Nanos::ZERO);
            let (mut table, bin) = (Vec::new(), Nanos::from_nanos((trace.lap().as_nanos() / 100).max(1_000_000)));
            to_table(&trace, bin, &mut table).expect("memory takes it");
            let again = from_table("again", &table[..]).unwrap_or_else(|error| panic!("{error}"));
            assert!(again.lap() == trace.lap(), "{:?} {:?}", again.lap(), trace.lap());
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
});
