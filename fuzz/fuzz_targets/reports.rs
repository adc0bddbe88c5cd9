//! Reports from the bus: a refusal is one line; what is taken is written as the same report again, and a sender makes of it what a
//! controller can use.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Nanos, Time};
use paceline_telemetry::{FlowReport, FlowSink, NodeReport, ReportReader, SinkConfig};

fuzz_target!(|bytes: &[u8]| {
    let one_line = |error: &dyn std::fmt::Display| assert!(!error.to_string().contains(char::is_control), "{error}");
    match FlowReport::from_json(bytes) {
        Ok(report) => {
            assert_eq!(FlowReport::from_json(&report.to_json()).expect("it was written"), report);
            let mut reader = ReportReader::new();
            let now = Time::from_millis(5);
            let record = reader.take(now, &report, Nanos::from_millis(20)).expect("it is the first");
            assert!(record.loss_ppm <= 1_000_000 && reader.is_fresh(now));
            assert!(reader.telemetry(now).is_some_and(|telemetry| telemetry.hops.len() == report.hops.len()));
            assert!(reader.take(now, &report, Nanos::ZERO).is_err());
        }
        Err(error) => one_line(&error),
    }
    match NodeReport::from_json(bytes) {
        Ok(report) => {
            assert_eq!(NodeReport::from_json(&report.to_json()).expect("it was written"), report);
            FlowSink::new(SinkConfig::default(), Time::ZERO).node(&report);
        }
        Err(error) => one_line(&error),
    }
});
