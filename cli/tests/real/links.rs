//! Races over several links: each node a namespace of its own, each link emulated.

use std::fs;

use paceline_fixture::until;
use paceline_linux::interface::{Interfaces, LOOPBACK};
use paceline_linux::namespace::{Namespace, needs_root};
use serde_json::Value;

use super::{number, records_with};

fn shipped(name: &str) -> String {
    fs::read_to_string(format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/{}.toml"), name)).unwrap()
}

/// The record of a link, or of its other direction by `NAME.back`.
fn link<'a>(record: &'a Value, name: &str) -> &'a Value {
    let links = record["links"].as_array().unwrap();
    links.iter().find(|link| link["name"] == name).unwrap_or_else(|| panic!("no {name} in {record}"))
}

/// Packets that came to a link.
fn packets(record: &Value, name: &str) -> f64 {
    number(link(record, name), "/packets")
}

/// About: what comes besides data and after the end is little, and so is what is on its way at the end.
fn about(seen: f64, wanted: f64) -> bool {
    seen >= wanted * 0.9 - 50.0 && seen <= wanted * 1.1 + 50.0
}

/// Data packets of each flow that were dropped on its way, and data packets that every link of these dropped.
fn dropped(record: &Value, links: &[&str]) -> (f64, f64) {
    let flows = record["flows"].as_array().unwrap().iter();
    let of_flows: f64 = flows.map(|flow| number(flow, "/loss") * number(flow, "/packets")).sum();
    let of_link = |name: &&str| number(link(record, name), "/dropped") + number(link(record, name), "/lost");
    (of_flows, links.iter().map(of_link).sum())
}

#[test]
fn a_parking_lot_runs_over_three_links_in_a_row() {
    let test = "a_parking_lot_runs_over_three_links_in_a_row";
    if needs_root(test) {
        return;
    }
    // Stands for the machine, so that nothing else makes interfaces there.
    let machine = Namespace::create().unwrap();
    let args = ["--runs", "1", "--seconds", "4", "--contestants", "reno@tcp,copa@udp,copa@alcc"];
    let race = || records_with(test, &shipped("parking-lot"), &args);
    let Some(records) = machine.enter(race).unwrap() else { return };
    assert_eq!(records.len(), 3);
    for record in &records {
        let flow = |index: usize| &record["flows"][index];
        for index in 0..4 {
            assert!(number(flow(index), "/goodput_mbps") > 0.0, "{index}: {record}");
            // 30 ms one way for all of them, and up to 0.6 ms on each wire.
            let least = number(flow(index), "/delay_ms/min");
            assert!((30.0..45.0).contains(&least), "{index}: {record}");
            assert!(number(flow(index), "/rtt_ms/p50") >= 60.0, "{index}: {record}");
        }
        let entered = |index: usize| number(flow(index), "/packets");
        let long = entered(0) * (1.0 - number(flow(0), "/loss"));
        // The long flow crosses all three, each of the others one; the others go back by the same links.
        assert!(about(packets(record, "first"), entered(0) + entered(1)), "{record}");
        for (name, short) in [("second", 2), ("third", 3)] {
            // Less what is still on its way at the end.
            let wanted = 0.9 * long + entered(short);
            assert!(
                packets(record, name) >= wanted && packets(record, name) <= 1.3 * wanted + 100.0,
                "{name}: {record}"
            );
        }
        for (name, short) in [("first.back", 1), ("second.back", 2), ("third.back", 3)] {
            // An acknowledgement for two packets of TCP; it may merge some more.
            assert!(packets(record, name) > 0.1 * (long + entered(short)), "{name}: {record}");
        }
        let (of_flows, of_links) = dropped(record, &["first", "second", "third"]);
        assert!((of_flows - of_links).abs() <= 0.1 * of_links + 5.0, "{of_flows}, {of_links}: {record}");
        assert_eq!(record["links"].as_array().unwrap().len(), 10, "{record}");
        assert!(number(record, "/utilization") <= 1.01, "{record}");
    }
    let interfaces = || machine.enter(|| Interfaces::open().and_then(|open| open.names())).unwrap().unwrap();
    until("the machine has no more interfaces than before", || interfaces() == [LOOPBACK]);
}

#[test]
fn two_stations_reach_each_other_over_their_access_points() {
    let scenario = shipped("two-access-points").replace("\"8s..12s\"", "\"1s\"").replace("\"20s\"", "\"3s\"");
    let args = ["--runs", "1", "--seconds", "4", "--contestants", "cubic@tcp,copa@udp"];
    let Some(records) = records_with("two_stations_reach_each_other", &scenario, &args) else { return };
    for record in &records {
        let flow = |index: usize| &record["flows"][index];
        // 2, 10 and 2 ms; the second flow begins behind the first link.
        for (index, least, end) in [(0, 14.0, 4.0), (1, 12.0, 3.0)] {
            assert!(number(flow(index), "/goodput_mbps") > 0.0, "{index}: {record}");
            assert!((least..least + 5.0).contains(&number(flow(index), "/delay_ms/min")), "{index}: {record}");
            assert!((end..end + 0.2).contains(&number(flow(index), "/end_s")), "{index}: {record}");
        }
        let entered = |index: usize| number(flow(index), "/packets");
        assert!(about(packets(record, "radio1"), entered(0)), "{record}");
        assert!(packets(record, "wire") >= 0.8 * entered(0) + entered(1), "{record}");
        // Losses of the radios are distinguished from those of queues, and belong to their link.
        assert!(number(link(record, "radio1"), "/lost") > 0.0, "{record}");
        assert_eq!(number(link(record, "wire"), "/lost"), 0.0, "{record}");
        let (of_flows, of_links) = dropped(record, &["radio1", "wire", "radio2"]);
        assert!((of_flows - of_links).abs() <= 0.1 * of_links + 5.0, "{of_flows}, {of_links}: {record}");
    }
}
