use super::*;
use crate::report::HopReport;

const SRTT: Nanos = Nanos::from_millis(20);

fn report(rseq: u64, verdict: Cause) -> FlowReport {
    let hop = HopReport {
        node: 7,
        avail_pkts: Some(20),
        limit_pkts: Some(60),
        rate_pps: Some(1650),
        flows: Some(2),
        rate_100k: Some(200),
        ..HopReport::default()
    };
    FlowReport { rseq, verdict, exp: 20, rcv: 20, hops: vec![hop], bottleneck: Some(0), ..FlowReport::default() }
}

fn take(reader: &mut ReportReader, ms: u64, rseq: u64, verdict: Cause) -> PathRecord {
    reader.take(Time::from_millis(ms), &report(rseq, verdict), SRTT).expect("it is good")
}

#[test]
fn a_verdict_counts_from_the_third_report_in_a_row() {
    let mut reader = ReportReader::new();
    assert_eq!(
        (reader.verdict(Time::ZERO), reader.is_fresh(Time::ZERO), reader.telemetry(Time::ZERO).is_some()),
        Default::default()
    );
    assert_eq!(take(&mut reader, 0, 1, Cause::Medium).verdict, Cause::Unknown);
    assert_eq!(take(&mut reader, 10, 2, Cause::Medium).verdict, Cause::Unknown);
    let third = take(&mut reader, 20, 3, Cause::Medium);
    assert_eq!((third.verdict, third.reports, third.avail_pkts, third.flows), (Cause::Medium, 3, Some(20), Some(2)));
    assert_eq!(third.drain.map(Nanos::as_micros), Some(36_336));
    // 3 * 10 ms + 2 * 20 ms + 200 ms.
    assert_eq!(third.fresh_for, Nanos::from_millis(270));
    let (fresh, stale) = (Time::from_millis(289), Time::from_millis(290));
    assert_eq!((reader.is_fresh(fresh), reader.is_fresh(stale)), (true, false));
    assert!(reader.telemetry(stale).is_none());
    let telemetry = reader.telemetry(fresh).expect("it is fresh");
    assert_eq!((telemetry.fresh_for, telemetry.hops.len()), (Nanos::from_millis(1), 1));
    // A silence: three again.
    assert_eq!(take(&mut reader, 300, 4, Cause::Medium).reports, 1);
    assert_eq!(take(&mut reader, 310, 5, Cause::Medium).verdict, Cause::Unknown);
    assert_eq!(take(&mut reader, 320, 6, Cause::Medium).verdict, Cause::Medium);
}

#[test]
fn a_verdict_is_that_of_the_last_round_trip_and_congestion_goes_before_the_medium() {
    let mut reader = ReportReader::new();
    for (ms, verdict) in [(0, Cause::Unknown), (10, Cause::Unknown), (20, Cause::Medium), (30, Cause::Unknown)] {
        take(&mut reader, ms, ms + 1, verdict);
    }
    // 20 ms, two intervals of 10 ms and a timeout of 200 ms after 20 ms.
    assert_eq!(
        (reader.verdict(Time::from_millis(260)), reader.verdict(Time::from_millis(261))),
        (Cause::Medium, Cause::Unknown)
    );
    assert_eq!(take(&mut reader, 40, 41, Cause::Congestion).verdict, Cause::Congestion);
    assert_eq!(take(&mut reader, 50, 51, Cause::Medium).verdict, Cause::Congestion);
    assert_eq!(take(&mut reader, 60, 61, Cause::Medium).verdict, Cause::Congestion);
    for ms in [70, 80] {
        take(&mut reader, ms, ms + 1, Cause::Unknown);
    }
    assert_eq!(take(&mut reader, 90, 91, Cause::Medium).verdict, Cause::Medium);
    // Losses without a reason are one: nothing is known.
    let lost = FlowReport { exp: 21, lost_u: 1, ..report(101, Cause::Unknown) };
    assert_eq!(reader.take(Time::from_millis(100), &lost, SRTT).unwrap().verdict, Cause::Unknown);
}

#[test]
fn what_is_old_or_cannot_be_changes_nothing() {
    let mut reader = ReportReader::new();
    for ms in [0, 10, 20] {
        take(&mut reader, ms, ms + 5, Cause::Medium);
    }
    let before = reader.record();
    for rseq in [0, 24, 25] {
        let error = reader.take(Time::from_millis(30), &report(rseq, Cause::Congestion), SRTT).unwrap_err();
        assert!(matches!(error, Refused::Old { newest: 25, .. }), "{error}");
    }
    let wrong = FlowReport { rcv: 21, ..report(26, Cause::Congestion) };
    assert!(matches!(reader.take(Time::from_millis(30), &wrong, SRTT), Err(Refused::Wrong(_))));
    let later = FlowReport { v: 2, ..report(26, Cause::Congestion) };
    assert!(matches!(reader.take(Time::from_millis(30), &later, SRTT), Err(Refused::Wrong(_))));
    assert_eq!((reader.record(), reader.verdict(Time::from_millis(30))), (before, Cause::Medium));
}

#[test]
fn freshness_has_bounds_and_losses_are_smoothed() {
    let mut reader = ReportReader::new();
    let fresh = |reader: &mut ReportReader, rseq, srtt| {
        reader.take(Time::ZERO, &report(rseq, Cause::Unknown), srtt).unwrap().fresh_for
    };
    assert_eq!(fresh(&mut reader, 1, Nanos::ZERO), Nanos::from_millis(230));
    assert_eq!(fresh(&mut reader, 2, Nanos::MAX), Nanos::from_millis(500));
    let lossy = FlowReport { exp: 20, rcv: 10, lost_m: 10, ..report(3, Cause::Medium) };
    // 10 lost of 20 * (1 + 7/8 + 49/64).
    let record = reader.take(Time::from_millis(1), &lossy, SRTT).unwrap();
    assert_eq!(record.loss_ppm, (10.0 / (20.0 * (1.0 + 0.875 + 0.875 * 0.875)) * 1e6) as u32);
    let empty = FlowReport::default();
    assert_eq!(ReportReader::new().take(Time::ZERO, &empty, SRTT).unwrap().loss_ppm, 0);
}
