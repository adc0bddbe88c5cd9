//! Models of transitions: what is refused is refused in one line with its place; what is read is written and read again alike, and
//! drives a sender whose window stays within its bounds.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use paceline_cc::mdi::table::Table;
use paceline_cc::mdi::{Config, Mdi, Model};
use paceline_cc::testing::ack;
use paceline_cc::{Controller, Env, Nanos, Time};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let model = match Model::read(text) {
        Ok(model) => model,
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("line ") && line.len() < 400 && !line.chars().any(char::is_control), "{line:?}");
            return;
        }
    };
    assert_eq!(Model::read(&model.text(false)).expect("what is written is read"), model);
    let table = Arc::new(Table::from(&model));
    let config = Config::of(&table);
    let mut mdi = Mdi::new(&Env::default(), table, config);
    mdi.on_ack(&ack(Time::ZERO, Nanos::from_millis(40), 0));
    // Delays of 20 to 147 ms from the text itself.
    for byte in bytes.iter().take(300) {
        let now = mdi.next_tick();
        mdi.on_ack(&ack(now, Nanos::from_millis(20 + u64::from(byte & 127)), 0));
        mdi.on_tick(now);
        assert!((1448..=160_000 * 1448).contains(&mdi.window()));
        mdi.describe(&mut |name, value| assert!(value.is_finite(), "{name}"));
    }
});
