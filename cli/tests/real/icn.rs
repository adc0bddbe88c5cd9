//! Races over named content: requests one way, data the other.

use super::{PATH, fills_the_link, number, records};

#[test]
fn who_asks_for_data_fills_a_link_as_who_sends_it() {
    let scenario = format!("name = 'icn'\nseconds = 3\ncontestants = ['bbr@icn', 'copa@icn', 'bbr@udp']\n{PATH}");
    let Some(records) = records("who_asks_for_data_fills_a_link", &scenario) else { return };
    assert_eq!([&records[0]["via"], &records[1]["via"], &records[2]["via"]], ["icn", "icn", "udp"]);
    records.iter().for_each(fills_the_link);
}

#[test]
fn flows_of_requests_end_start_and_stop_as_the_scenario_says_in_both_directions() {
    let scenario = format!(
        "name = 'icn'\nseconds = 3\ncontestants = ['cubic@icn']\n{PATH}\
         [[flows]]\nworkload = {{ bytes = '100kB' }}\ndirection = 'up'\n\
         [[flows]]\nstart = '1s'\nstop = '2s'\n\
         [[flows]]\nworkload = {{ rate = '1 Mbit/s' }}\n"
    );
    let Some(records) = records("flows_of_requests_end_start_and_stop", &scenario) else { return };
    let flow = |index: usize| &records[0]["flows"][index];
    // 72 units take 42 ms on the wire, and the first request a round trip of 20 ms.
    assert_eq!(flow(0)["completions"], 1, "{}", records[0]);
    assert!((60.0..2500.0).contains(&number(flow(0), "/fct_ms/p50")), "{}", records[0]);
    assert_eq!(flow(0)["direction"], "up");
    assert_eq!((number(flow(1), "/start_s"), number(flow(1), "/end_s")), (1.0, 2.0), "{}", records[0]);
    assert!(number(flow(1), "/goodput_mbps") > 1.0, "{}", records[0]);
    let steady = number(flow(2), "/goodput_mbps");
    assert!((0.5..=1.01).contains(&steady), "an application that wants 1 Mbit/s: {}", records[0]);
}
