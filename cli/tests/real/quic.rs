//! Races over QUIC, in builds that have it.

use super::{PATH, fills_the_link, number, records, run};

#[test]
fn copa_over_quic_fills_a_link_as_over_udp() {
    let scenario = format!("name = 'quic'\nseconds = 3\ncontestants = ['copa@quic', 'copa@udp']\n{PATH}");
    let Some(records) = records("copa_over_quic_fills_a_link_as_over_udp", &scenario) else { return };
    assert_eq!([&records[0]["via"], &records[1]["via"]], ["quic", "udp"]);
    records.iter().for_each(fills_the_link);
}

#[test]
fn flows_over_quic_end_start_and_stop_as_the_scenario_says_in_both_directions() {
    let scenario = format!(
        "name = 'quic'\nseconds = 3\ncontestants = ['copa@quic']\n{PATH}\
         [[flows]]\nworkload = {{ bytes = '100kB' }}\ndirection = 'up'\n\
         [[flows]]\nstart = '1s'\nstop = '2s'\n"
    );
    let Some(records) = records("flows_over_quic_end_start_and_stop", &scenario) else { return };
    let flow = |index: usize| &records[0]["flows"][index];
    // 100 kB take 40 ms on the wire; a handshake and some round trips of 20 ms before.
    assert_eq!(flow(0)["completions"], 1, "{}", records[0]);
    assert!((50.0..2500.0).contains(&number(flow(0), "/fct_ms/p50")), "{}", records[0]);
    assert_eq!(flow(0)["direction"], "up");
    assert_eq!((number(flow(1), "/start_s"), number(flow(1), "/end_s")), (1.0, 2.0), "{}", records[0]);
    assert!(number(flow(1), "/goodput_mbps") > 1.0, "{}", records[0]);
}

#[test]
fn what_quic_has_not_is_refused_or_noted_over_quic() {
    for (contestant, flow, status, what) in [
        ("cubic:start=chirp@quic", "", 2, "a controller of quinn sets only a window"),
        ("copa@quic", "workload = { rate = '1 Mbit/s' }", 2, "workload: over QUIC it is 'bulk' or { bytes = ... }"),
        ("copa@quic", "arrivals = true", 2, "QUIC does not report when packets arrived"),
        ("copa@quic", "ack_every = 1", 0, "quinn acknowledges every other packet"),
    ] {
        let scenario = format!("name = 'no'\nseconds = 0.5\ncontestants = ['{contestant}']\n{PATH}[[flows]]\n{flow}\n");
        let output = run(&scenario, &[]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        if !errors.contains("network namespaces") && !errors.contains("gives no interface") {
            // 3: a busy host kept no time.
            let found = output.status.code().map(|code| if code == 3 { 0 } else { code });
            assert_eq!(found, Some(status), "{errors}");
            assert!(errors.contains(what), "{errors}");
        }
    }
}

#[cfg(feature = "quic-s2n")]
#[test]
fn chirps_counted_marks_and_ect1_over_s2n_on_a_link_that_marks() {
    let scenario = format!(
        "name = 's2n'\nseconds = 3\ncontestants = ['copa@quic/s2n', 'dctcp:start=chirp@quic/s2n', 'prague@quic/s2n']\n{PATH}"
    )
    .replace("droptail:bytes=100kB", "dualpi2");
    let Some(records) = records("controllers_over_s2n_on_a_link_that_marks", &scenario) else { return };
    for record in &records {
        assert_eq!(record["via"], "quic/s2n");
        let used = number(record, "/utilization");
        assert!((0.2..=1.01).contains(&used), "{record}");
        assert!(number(record, "/rtt_ms/p50") >= 20.0 && number(record, "/cpu_s") > 0.0, "{record}");
    }
    // The queue for L4S marks, and drops nothing.
    let prague = &records[2];
    assert!(number(prague, "/ecn_marks") > 0.0 && number(prague, "/retransmits") == 0.0, "{prague}");
}

#[cfg(feature = "quic-s2n")]
#[test]
fn what_s2n_has_not_is_refused_over_quic() {
    let scenario =
        format!("name = 'no'\nseconds = 0.5\ncontestants = ['copa@quic/s2n']\n{PATH}[[flows]]\narrivals = true\n");
    let errors = String::from_utf8(run(&scenario, &[]).stderr).unwrap();
    let refused = "copa@quic/s2n: arrivals: QUIC does not report when packets arrived";
    assert!(errors.contains(refused) || errors.contains("network namespaces"), "{errors}");
}
