//! Races over content routers: what the simulator runs, at the nodes of a world of namespaces.

use std::process::Command;

use serde_json::Value;

use super::{number, records};

/// mirror and origin - edge - user: 20 Mbit/s and 10 ms before the edge, 50 Mbit/s and 2 ms behind it. A million bytes take half a second.
const LINKS: &str = "name = 'nodes'\ncontestants = ['bbr@icn']\n\
    [links.far]\nbetween = ['origin', 'edge']\nrate = '20 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bdp=2'\n\
    [links.other]\nbetween = ['mirror', 'edge']\nrate = '20 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bdp=2'\n\
    [links.near]\nbetween = ['edge', 'user']\nrate = '50 Mbit/s'\ndelay = '2ms'\nqueue = 'droptail:bdp=4'\n\
    [nodes.origin]\n[nodes.mirror]\n";

/// The record of the first run in the simulator.
fn simulated(scenario: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    let mut race = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = race.arg("race").arg(&file).args(["--runs", "1", "--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Both worlds' records, the real one first; none where this machine does not allow it.
fn both(test: &str, scenario: &str) -> Option<[Value; 2]> {
    let real = records(test, scenario)?.remove(0);
    Some([real, simulated(scenario)])
}

/// A figure of a router.
fn router(record: &Value, node: &str, field: &str) -> f64 {
    let routers = record["routers"].as_array().unwrap();
    let router = routers.iter().find(|router| router["node"] == node);
    number(router.unwrap_or_else(|| panic!("no {node} in {record}")), &format!("/{field}"))
}

/// Units of data of an object of a million bytes; those of its index are 2 % more.
const UNITS: f64 = 715.0;

#[test]
fn what_is_asked_for_a_second_time_is_kept_nearby_in_both_worlds() {
    let flow = |start: u32| {
        format!(
            "[[flows]]\nfrom = 'edge'\nto = 'user'\nobject = 'film'\nworkload = {{ bytes = '1MB' }}\nstart = '{start}s'\n"
        )
    };
    let flows: String = [0, 4, 8].map(flow).concat();
    let scenario = format!("seconds = 11\n{LINKS}[nodes.edge]\nroute = ['origin']\ncache = '10MB'\n{flows}");
    let Some(worlds) = both("what_is_asked_for_a_second_time_is_kept_nearby", &scenario) else { return };
    for record in &worlds {
        let flow = |index: usize| &record["flows"][index];
        for index in 0..3 {
            assert_eq!(
                (&flow(index)["completions"], number(flow(index), "/packets") >= UNITS),
                (&1.into(), true),
                "{record}"
            );
        }
        // At 20 Mbit/s it takes 0.4 s at least.
        assert!(number(flow(0), "/fct_ms/p50") > 400.0, "{record}");
        let sent = |node: &str| router(record, node, "sent_units") / UNITS;
        assert!((2.0..2.6).contains(&sent("origin")), "the third costs the far link nothing: {record}");
        assert!((3.0..3.6).contains(&sent("edge")) && sent("mirror") == 0.0, "{record}");
        assert!(router(record, "edge", "hits") >= UNITS && router(record, "edge", "misses") > UNITS, "{record}");
    }
    let [real, simulated] = worlds.each_ref().map(|record| number(record, "/goodput_mbps"));
    assert_eq!((&worlds[0]["world"], &worlds[1]["world"]), (&"real".into(), &"sim".into()));
    assert_eq!(real, simulated, "all bytes of three objects, over the time of the race");
}

#[test]
fn two_receivers_of_one_object_cost_the_far_link_one_in_both_worlds() {
    let flow = "[[flows]]\nfrom = 'edge'\nto = 'user'\nobject = 'film'\nworkload = { bytes = '1MB' }\n";
    // The cache is smaller than the object.
    let scenario = format!("seconds = 6\n{LINKS}[nodes.edge]\nroute = ['origin']\ncache = '500kB'\n{flow}{flow}");
    let Some(worlds) = both("two_receivers_of_one_object_cost_the_far_link_one", &scenario) else { return };
    for record in &worlds {
        let sent = |node: &str| router(record, node, "sent_units") / UNITS;
        assert_eq!(record["completions"], 2, "{record}");
        assert!((1.0..1.6).contains(&sent("origin")) && sent("edge") >= 2.0, "{record}");
    }
}

#[test]
fn sources_are_asked_at_once_and_families_fetch_in_both_worlds() {
    let scenario = format!(
        "seconds = 10\n{LINKS}[[flows]]\nfrom = 'origin'\nto = 'user'\nsources = ['mirror']\nworkload = {{ bytes = '2MB' }}\n\
         [[flows]]\nfrom = 'mirror'\nto = 'user'\nstart = '3s'\nextra_delay = '3ms'\n\
         workload = {{ poisson = {{ mean_gap = '100ms', alpha = 1.2, min = '5kB', max = '50kB', count = 20 }} }}\n"
    );
    let Some(worlds) = both("sources_are_asked_at_once_and_families_fetch", &scenario) else { return };
    for record in &worlds {
        let flow = |index: usize| &record["flows"][index];
        assert_eq!((&flow(0)["completions"], &flow(1)["completions"]), (&1.into(), &20.into()), "{record}");
        for node in ["origin", "mirror"] {
            assert!(router(record, node, "sent_units") > 0.3 * UNITS, "{node}: {record}");
        }
        // Units from both, over 10 and 2 ms.
        assert!(number(flow(0), "/packets") >= 2.0 * UNITS && number(flow(0), "/delay_ms/min") >= 12.0, "{record}");
        assert!(number(flow(1), "/delay_ms/min") >= 15.0, "{record}");
    }
}

#[test]
fn a_router_that_cannot_be_reached_leaves_a_fetch_unfinished_and_nothing_is_left_behind() {
    let scenario = format!(
        "seconds = 3\n{}[nodes.edge]\nroute = ['origin']\n[[flows]]\nfrom = 'edge'\nto = 'user'\nworkload = {{ bytes = '1MB' }}\n",
        LINKS.replacen("queue", "loss = 1.0\nqueue", 1)
    );
    let Some(worlds) = both("a_router_that_cannot_be_reached_leaves_a_fetch", &scenario) else { return };
    for record in &worlds {
        assert_eq!((number(record, "/goodput_mbps"), router(record, "origin", "requests")), (0.0, 0.0), "{record}");
        assert!(router(record, "edge", "requests") > 0.0, "{record}");
    }
}
