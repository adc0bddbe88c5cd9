//! A hop that writes into whatever comes: only octets of the trace change, as many as a record has, or the overflow flag; a header
//! that was one is one afterwards, with the record as its last.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_telemetry::wire::Refused;
use paceline_telemetry::{NodeRecord, TelemetryHeader, push_record};

fuzz_target!(|bytes: &[u8]| {
    let record =
        NodeRecord { hop_limit: 63, node: 0x12_3456, egress: Some(3), room_packets: Some(9), ..NodeRecord::default() };
    let before = TelemetryHeader::decode(bytes);
    let mut written = bytes.to_vec();
    let answer = push_record(&mut written, &record);
    let changed: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != written[*at]).collect();
    match answer {
        Ok(()) => {
            assert!(changed.iter().all(|at| (11..16 + 244).contains(at) && !(12..16).contains(at)), "{changed:?}")
        }
        Err(Refused::Full) => assert!(changed.iter().all(|at| *at == 10)),
        Err(Refused::Foreign(_)) => assert!(changed.is_empty()),
    }
    let Ok((before, used)) = before else { return };
    if answer.is_ok() {
        let (after, length) = TelemetryHeader::decode(&written).expect("it was a header");
        assert_eq!((after.records.len(), length), (before.records.len() + 1, used));
        assert_eq!(after.records[..before.records.len()], before.records[..]);
        let last = after.records[before.records.len()];
        assert_eq!((last.node, last.egress, last.room_packets), (record.node, record.egress, record.room_packets));
        assert_eq!((after.edge, after.overflow), (before.edge, before.overflow));
    }
});
