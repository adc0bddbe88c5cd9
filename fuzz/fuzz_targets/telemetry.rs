//! Hop-by-Hop headers of a stranger, one after the other: each is refused in one line, or written again as it was understood; a
//! sink counts what they say, and its reports are ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Nanos, Time};
use paceline_telemetry::wire::MAX_HOPS;
use paceline_telemetry::{FlowReport, FlowSink, SinkConfig, TelemetryHeader, Trail};

fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut now) = (bytes, Time::ZERO);
    let (mut sink, mut trail) = (FlowSink::new(SinkConfig::default(), now), Trail::default());
    loop {
        let (header, used) = match TelemetryHeader::decode(rest) {
            Ok(read) => read,
            Err(error) => {
                assert!(!error.to_string().contains(char::is_control), "{error}");
                return;
            }
        };
        assert!(used <= rest.len() && header.records.len() <= MAX_HOPS);
        let again = header.encode();
        assert_eq!(TelemetryHeader::decode(&again), Ok((header.clone(), again.len())));
        now += Nanos::from_micros(u64::from(header.next_header) * 100);
        if header.next_header % 2 == 0 {
            sink.passed(u32::from(header.next_header));
        }
        sink.header(now, &header, header.capacity_hops, &mut trail);
        if let Some(report) = sink.poll(now) {
            let read = FlowReport::from_json(&report.to_json()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read, report);
            assert_eq!(report.exp, report.rcv + report.lost());
        }
        rest = &rest[used..];
    }
});
