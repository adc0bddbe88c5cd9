//! Paths with more than one hop or with traffic beside the flows.

use paceline_lab::record::{LinkRecord, RouterRecord};

use super::*;

/// A hop where this many packets waited, and of 200 this many were dropped and lost.
fn link(name: &str, queue_packets: f64, dropped: u64, lost: u64) -> LinkRecord {
    LinkRecord {
        name: name.to_owned(),
        from: "a".to_owned(),
        to: "b".to_owned(),
        utilization: Some(0.75),
        queue_packets,
        packets: 200,
        dropped,
        lost,
        policed: None,
        ecn_marks: 0,
        frames_per_aggregate: None,
        airtime: None,
        frames_again: None,
        collisions: None,
    }
}

#[test]
fn several_links_have_no_common_capacity() {
    let mut record = record("copa", "udp", 1, 9.0, &[1.0; 101]);
    record.utilization = Some(0.75);
    assert_eq!(page::capacity([&record].into_iter()).as_deref(), Some("capacity 12 Mbit/s on average"));
    record.links = vec![link("first", 1.0, 0, 0)];
    assert_eq!(page::capacity([&record].into_iter()), None);
}

#[test]
fn each_hop_with_something_to_see_is_drawn() {
    let mut race = race(&[("cubic@tcp", 0.9, 30.0), ("copa@udp", 0.9, 20.0)], 2);
    assert!(hops::panels(&Data::of_race(race.shown())).is_empty());
    for run in &mut race.runs {
        let waits = if run.contestant == 0 { 40.0 } else { 4.0 };
        run.record.links = vec![link("wire", 0.01, 0, 0), link("ra<dio", waits, 2, 10), link("last", 1.0, 0, 0)];
    }
    let data = Data::of_race(race.shown());
    let panels = hops::panels(&data);
    // Of the wire nothing, of the radio both, of the last what waited.
    assert_eq!(panels.len(), 3);
    assert!(panels[0].svg.contains(r#"data-columns="hop waiting_packets" data-of="ra&lt;dio""#), "{}", panels[0].svg);
    assert!(panels[0].svg.contains(r#"data-parts="40""#) && panels[0].svg.contains(r#"data-parts="4""#));
    assert!(panels[1].svg.contains(r#"data-parts="1 5""#), "{}", panels[1].svg);
    let said =
        "Most packets waited at ra<dio: 4 to 40 on average. Most went missing at ra<dio: 6 % of those that came.";
    assert_eq!(hops::reading(&data), said);
    assert!(render(&[&data]).unwrap().contains("What happened at each hop"));
}

#[test]
fn cross_traffic_is_hatched_below_the_capacity() {
    let mut race = race(&[("cubic@tcp", 0.5, 30.0)], 1);
    let page = |race: &Race| render(&[&Data::of_race(race.shown())]).unwrap();
    assert!(!page(&race).contains("data-between"));
    race.runs[0].cross_mbps = vec![2.0; 600];
    let page = page(&race);
    assert!(page.contains("data-between") && page.contains("cross traffic, on average"));
}

#[test]
fn content_routers_have_a_table() {
    let mut race = race(&[("bbr@icn", 0.9, 30.0)], 3);
    let page = |race: &Race| render(&[&Data::of_race(race.shown())]).unwrap();
    assert!(!page(&race).contains("Every content router"));
    for (run, hits) in race.runs.iter_mut().zip([5_900, 6_100, 6_000]) {
        let node = "edge".to_owned();
        run.record.routers = vec![RouterRecord { node, requests: 9_000, hits, misses: 120, sent_units: 6_200 }];
    }
    let page = page(&race);
    let row = page.split("Every content router").last().unwrap();
    assert!(row.contains("edge") && row.contains("6000") && row.contains("120"), "{row}");
}
