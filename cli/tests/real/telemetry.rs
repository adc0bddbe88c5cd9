//! Telemetry in real races: real headers, and verdicts that the emulator knows the truth of.

#[cfg(not(feature = "ebpf"))]
use super::run;
#[cfg(feature = "ebpf")]
use super::{number, records, records_with};

const CHAIN: &str = include_str!("../../../scenarios/telemetry.toml");

#[cfg(not(feature = "ebpf"))]
#[test]
fn a_build_without_ebpf_says_how_to_get_one() {
    let output = run(CHAIN, &["--contestants", "cubic@tcp"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("telemetry") && said.contains("--features ebpf") && said.trim().lines().count() == 1,
        "{said}"
    );
}

#[cfg(feature = "ebpf")]
#[test]
fn losses_of_the_medium_and_of_a_queue_are_named_and_reports_come_back() {
    let test = "losses_of_the_medium_and_of_a_queue_are_named_and_reports_come_back";
    let short = ["--contestants", "cubic@tcp", "--runs", "1", "--seconds", "6", "--set", "telemetry.profile=C3"];
    let lossy = [&short[..], &["--set", "links.radio2.loss=0.02"]].concat();
    let Some(lossy) = records_with(test, CHAIN, &lossy) else { return };
    let figure = |path: &str| number(&lossy[0], &format!("/telemetry/{path}"));
    assert!(figure("reports") > 50.0 && figure("refused") == 0.0, "{}", lossy[0]["telemetry"]);
    let all = figure("medium/medium") + figure("medium/overflow") + figure("medium/unknown");
    // Some hundred packets a second, of which one in fifty is lost.
    assert!(all >= 10.0 && figure("medium/medium") >= 0.8 * all, "{}", lossy[0]["telemetry"]);

    let full =
        [&short[..], &["--set", "links.radio2.loss=0", "--set", "links.radio2.queue=droptail:packets=20"]].concat();
    let full = records_with(test, CHAIN, &full).expect("the first race ran");
    let figure = |path: &str| number(&full[0], &format!("/telemetry/{path}"));
    assert_eq!(figure("medium/medium") + figure("medium/overflow") + figure("medium/unknown"), 0.0);
    assert!(figure("overflow/overflow") >= 1.0 && figure("overflow/medium") == 0.0, "{}", full[0]["telemetry"]);
}

#[cfg(feature = "ebpf")]
#[test]
fn a_module_in_the_kernel_acts_on_what_the_hops_report() {
    let test = "a_module_in_the_kernel_acts_on_what_the_hops_report";
    let scenario = CHAIN
        .replace("loss = 0.05", "loss = 0.1")
        .replace("runs = 10", "runs = 1")
        .replace("seconds = 20", "seconds = 8");
    let scenario = scenario.replace("[\"cubic@tcp\"]", "[\"cubic@tcp\", \"cubic-l1g@tcp\"]");
    let Some(records) = records(test, &scenario) else { return };
    let rate = |index: usize| number(&records[index], "/throughput_mbps");
    assert_eq!(records[1]["driven_by"], "module");
    // On an idle machine eight times as much and more.
    assert!(rate(1) > 2.0 * rate(0), "CUBIC {}, with telemetry {}", rate(0), rate(1));
}

#[cfg(feature = "ebpf")]
#[test]
fn datagrams_and_quic_are_informed_of_the_hops() {
    let test = "datagrams_and_quic_are_informed_of_the_hops";
    let who = if cfg!(feature = "quic") { "cubic@udp,hops@udp,hops@quic" } else { "cubic@udp,hops@udp" };
    let short = ["--contestants", who, "--runs", "1", "--seconds", "6", "--set", "links.radio2.loss=0.1"];
    let Some(records) = records_with(test, CHAIN, &short) else { return };
    for record in &records {
        let figure = |path: &str| number(record, &format!("/telemetry/{path}"));
        assert!(figure("reports") > 50.0 && figure("refused") == 0.0, "{record}");
        let all = figure("medium/medium") + figure("medium/overflow") + figure("medium/unknown");
        assert!(all >= 10.0 && figure("medium/medium") >= 0.8 * all, "{record}");
    }
    let rate = |index: usize| number(&records[index], "/throughput_mbps");
    // On an idle machine ten times as much.
    assert!((1..records.len()).all(|index| rate(index) > 2.0 * rate(0)), "{records:?}");
}
