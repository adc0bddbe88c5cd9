use super::*;

fn report() -> FlowReport {
    let hop =
        HopReport { node: 7, avail_pkts: Some(20), limit_pkts: Some(60), rate_pps: Some(1650), ..HopReport::default() };
    let tuple = Tuple { src: "fd00::1".parse().unwrap(), dst: "fd00::2".parse().unwrap(), sport: 5201, dport: 40000 };
    let (exp, rcv, lost_m, verdict) = (32, 30, 2, Cause::Medium);
    FlowReport {
        tuple,
        rseq: 3,
        exp,
        rcv,
        lost_m,
        verdict,
        hops: vec![hop],
        bottleneck: Some(0),
        ..FlowReport::default()
    }
}

#[test]
fn a_report_is_read_as_it_was_written_and_unknown_keys_are_ignored() {
    let text = String::from_utf8(report().to_json()).unwrap();
    assert!(text.contains(r#""tuple":{"src":"fd00::1","dst":"fd00::2","sport":5201,"dport":40000}"#), "{text}");
    assert!(text.contains(r#""verdict":1"#) && !text.contains("rssi"), "{text}");
    assert_eq!(FlowReport::from_json(text.as_bytes()).unwrap(), report());
    let more = text.replacen('{', r#"{"mac":"aa","later":[1,{"x":2}],"#, 1);
    assert_eq!(FlowReport::from_json(more.as_bytes()).unwrap(), report());
    let node = NodeReport { node: 7, rseq: 1, hops: report().hops, ..NodeReport::default() };
    assert_eq!(NodeReport::from_json(&node.to_json()).unwrap(), node);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let refused = |from: &str, to: &str| {
        let text = String::from_utf8(report().to_json()).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        let error = FlowReport::from_json(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    assert!(refused(r#""v":1"#, r#""v":2"#).contains("version 2"));
    assert!(refused(r#""ns":32769"#, r#""ns":1"#).contains("0x0001"));
    assert!(refused(r#""verdict":1"#, r#""verdict":4"#).contains("verdict 4"));
    assert!(refused(r#""exp":32"#, r#""exp":31"#).contains("exp"));
    assert!(refused(r#""bottleneck":0"#, r#""bottleneck":1"#).contains("bottleneck"));
    assert!(refused(r#""rseq":3"#, r#""rseq":-3"#).contains("cannot be read"));
    assert!(refused("fd00::1", "10.0.0.1").contains("IPv6"));
    let sixteen = format!("[{}]", ["{\"node\":1}"; 16].join(","));
    assert!(refused(r#""hops":["#, &format!("\"hops\":{sixteen},\"x\":[")).contains("16 hops"));
    let long = [b' '; MAX_OCTETS + 1];
    assert!(FlowReport::from_json(&long).unwrap_err().to_string().contains("16385"));
    assert!(NodeReport::from_json(b"{}").unwrap_err().to_string().contains("missing field"));
}

#[test]
fn the_largest_report_fits() {
    let hop = HopReport {
        node: u32::MAX,
        hl: Some(u8::MAX),
        eg: Some(u16::MAX),
        avail_pkts: Some(u32::MAX),
        limit_pkts: Some(u32::MAX),
        qbytes: Some(u32::MAX),
        rate_pps: Some(u32::MAX),
        flows: Some(u32::MAX),
        qdrop: Some(u16::MAX),
        policed: Some(u16::MAX),
        lloss: Some(u16::MAX),
        rssi: Some(i8::MIN),
        snr: Some(i8::MIN),
        channel: Some(u16::MAX),
        rate_100k: Some(u32::MAX),
        mcs: Some(u8::MAX),
    };
    let report = FlowReport { hops: vec![hop; MAX_HOPS], ..report() };
    assert!(report.to_json().len() < MAX_OCTETS / 2, "{}", report.to_json().len());
}

#[test]
fn a_full_queue_drains_at_the_links_rate() {
    // 60 packets of 1514 octets at 20 Mbit/s.
    let hop = HopReport { limit_pkts: Some(60), rate_100k: Some(200), flows: Some(2), ..report().hops[0] };
    assert_eq!(hop.drain().map(Nanos::as_micros), Some(36_336));
    assert_eq!(HopReport { rate_100k: Some(0), ..hop }.drain(), None);
    assert!((hop.time_to_fill().unwrap() - 20.0 / 3300.0).abs() < 1e-9);
    let seen = hop.hop();
    assert_eq!((seen.id, seen.room_packets, seen.limit_packets, seen.flows), (7, Some(20), Some(60), Some(2)));
    assert_eq!(seen.capacity, Some(Rate::from_mbps(20.0)));
    assert_eq!(seen.arrival, Some(Rate::from_bytes_per_sec(1650 * 1514)));
}

#[test]
fn where_a_packet_was_stays_in_its_record_and_report() {
    let record = NodeRecord { hop_limit: 63, ..NodeRecord::default() };
    assert_eq!(HopReport::of(&record).hl, Some(63));
    assert_eq!(HopReport::of(&NodeRecord::default()).hl, None);
    let report = FlowReport { hl: Some(62), ahead_us: Some(-5), ..report() };
    assert_eq!(FlowReport::from_json(&report.to_json()).unwrap(), report);
}
