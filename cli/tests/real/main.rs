//! Short races in the real world. What this machine does not allow is skipped, and says so. Bounds are wide: a busy machine
//! is slow, but it loses no bytes and counts right.
#![cfg(target_os = "linux")]

mod conform;
mod icn;
mod links;
mod logs;
mod media;
mod nodes;
mod programs;
#[cfg(feature = "quic")]
mod quic;
mod shipped;
mod telemetry;

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// One at a time: real time is shared.
static TURN: Mutex<()> = Mutex::new(());

/// More than any race here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const PATH: &str = "[down]\nrate = '20 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bytes=100kB'\n[up]\nrate = '20 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bytes=100kB'\n";

/// Runs a race to its end.
fn run(scenario: &str, args: &[&str]) -> Output {
    run_in(None, scenario, args)
}

/// As [`run`], with programs from these places.
fn run_in(places: Option<&OsStr>, scenario: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    command(places, &[&["race", file.to_str().unwrap(), "--real"], args].concat(), PATIENCE)
}

/// Runs paceline to its end, which it reaches within this time.
fn command(places: Option<&OsStr>, args: &[&str], within: Duration) -> Output {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(args)
        .envs(places.map(|places| ("PATH", places)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > within {
            let _ = child.kill();
            panic!("it did not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Says that a test is skipped. Not by a macro, whose output is not shown for tests that pass.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {}", why.trim());
}

/// The records of a race; none when this machine does not allow it, which is said.
fn records(test: &str, scenario: &str) -> Option<Vec<Value>> {
    records_with(test, scenario, &[])
}

/// As [`records`], with more options.
fn records_with(test: &str, scenario: &str, args: &[&str]) -> Option<Vec<Value>> {
    let records = records_of(&run(scenario, &[&["--json", "-"], args].concat()));
    records.map_err(|refused| skipped(test, &refused)).ok()
}

/// The records of a race that wrote them to its standard output; the error when this machine does not allow it.
fn records_of(output: &Output) -> Result<Vec<Value>, String> {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2)
        && (errors.contains("network namespaces") || errors.contains("gives no interface"))
    {
        return Err(errors);
    }
    // 3: a busy machine released packets late.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is not a number in {value}"))
}

#[test]
fn both_datapaths_fill_a_link_and_delays_are_those_of_the_path() {
    let scenario = format!("name = 'bulk'\nseconds = 3\ncontestants = ['cubic@tcp', 'copa@udp']\n{PATH}");
    let Some(records) = records("both_datapaths_fill_a_link", &scenario) else { return };
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record["world"], "real");
        // 20 Mbit/s at most, and a good part of it.
        let used = number(record, "/utilization");
        assert!((0.4..=1.01).contains(&used), "{record}");
        // 10 ms and 0.6 ms on the wire, whatever the host does.
        let least = number(record, "/delay_ms/min");
        assert!((10.5..11.5).contains(&least), "{record}");
        // 100 kB wait for 40 ms at most.
        assert!(number(record, "/queue_ms/max") <= 41.0, "{record}");
        assert!(number(record, "/rtt_ms/p50") >= 20.0, "{record}");
        assert!(number(record, "/cpu_s") > 0.0 && number(record, "/release_error_us/max") > 0.0, "{record}");
        assert!(record["trusted"].is_boolean() && record["late"].is_u64(), "{record}");
        assert!(number(record, "/goodput_mbps") <= number(record, "/throughput_mbps"), "{record}");
    }
    // 2 x 50 kB of buffer: CUBIC overflows it.
    assert!(number(&records[0], "/retransmits") > 0.0 && number(&records[0], "/loss") > 0.0, "{}", records[0]);
}

#[test]
fn a_controller_above_tcp_keeps_the_queue_short() {
    // A buffer of 300 ms, which CUBIC fills.
    let path = "[down]\nrate = '10 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bytes=375kB'\n[up]\ndelay = '10ms'\n";
    let scenario = format!("name = 'above'\nseconds = 3\ncontestants = ['copa@alcc', 'cubic@tcp']\n{path}");
    let Some(records) = records("a_controller_above_tcp", &scenario) else { return };
    let [above, plain] = &records[..] else { panic!("{} records", records.len()) };
    assert_eq!((above["world"].as_str(), above["via"].as_str()), (Some("real"), Some("alcc")), "{above}");
    // A machine that others use may take most of it away, but nothing adds to the link's rate.
    assert!((0.2..=1.01).contains(&number(above, "/utilization")), "{above}");
    assert!(number(above, "/delay_ms/min") >= 10.0, "{above}");
    // Copa's own is some milliseconds.
    let (own, cubic) = (number(above, "/queue_ms/p50"), number(plain, "/queue_ms/p50"));
    assert!(own < 100.0 && own < cubic, "Copa's queue {own} ms, CUBIC's {cubic} ms");
    let limited = number(&above["flows"][0], "/limited_below");
    assert!((0.0..=1.0).contains(&limited), "{above}");
}

#[test]
fn flows_inside_a_tunnel_run_and_an_unknown_tunnel_is_refused() {
    let flows = "[[flows]]\n[[flows]]\ncontestant = 'cubic@tcp'\n[[cross]]\nrate = '1 Mbit/s'\n";
    let scenario = |tunnel: &str| {
        format!(
            "name = 'tunnel'\nseconds = 3\ntunnel = '{tunnel}'\ncontestants = ['copa@alcc', 'copa@udp']\n{PATH}{flows}"
        )
    };
    let Some(records) = records("flows_inside_a_tunnel", &scenario("cubic")) else { return };
    for record in &records {
        // The tunnel's own headers and the cross traffic take their part; a machine that lets its ends wait, most of it.
        assert!((0.2..=20.0).contains(&number(record, "/throughput_mbps")), "{record}");
        for flow in record["flows"].as_array().unwrap() {
            assert!(number(flow, "/goodput_mbps") > 0.0, "{record}");
        }
        assert!(number(record, "/delay_ms/min") >= 10.0, "{record}");
    }
    let output = run(&scenario("none"), &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("tunnel: this kernel's TCP has no 'none', it has "), "{errors}");
}

#[test]
fn flows_end_start_and_stop_as_the_scenario_says_in_both_directions() {
    let scenario = format!(
        "name = 'flows'\nseconds = 3\ncontestants = ['reno@tcp', 'copa@udp']\n{PATH}\
         [[flows]]\nworkload = {{ bytes = '100kB' }}\ndirection = 'up'\n\
         [[flows]]\nstart = '1s'\nstop = '2s'\n\
         [[flows]]\nworkload = {{ rate = '1 Mbit/s' }}\n\
         [[flows]]\nworkload = {{ poisson = {{ mean_gap = '100ms', alpha = 1.2, min = '4kB', max = '20kB' }} }}\n\
         [[flows]]\nworkload = {{ on_off = {{ on = '200ms', off = '200ms' }} }}\ndirection = 'up'\n\
         [[cross]]\nrate = '1 Mbit/s'\npoisson = true\n"
    );
    let Some(records) = records("flows_end_start_and_stop", &scenario) else { return };
    for record in &records {
        let flow = |index: usize| &record["flows"][index];
        // 100 kB take 40 ms on the wire, 20 ms there and back, and a start-up of some round trips.
        assert_eq!(flow(0)["completions"], 1, "{record}");
        assert!((50.0..2500.0).contains(&number(flow(0), "/fct_ms/p50")), "{record}");
        assert_eq!(number(flow(1), "/start_s"), 1.0, "{record}");
        assert!((2.0..2.2).contains(&number(flow(1), "/end_s")), "{record}");
        assert!((0.5..1.3).contains(&number(flow(2), "/goodput_mbps")), "{record}");
        // 30 arrive on average.
        assert!((5.0..60.0).contains(&number(flow(3), "/completions")), "{record}");
        // Half of the time.
        assert!((1.0..16.0).contains(&number(flow(4), "/throughput_mbps")), "{record}");
        let names: Vec<&str> = (0..5).filter_map(|index| flow(index)["direction"].as_str()).collect();
        assert_eq!(names, ["up", "down", "down", "down", "up"]);
    }
}

#[test]
fn a_flow_with_a_delay_of_its_own_has_it_both_ways() {
    let flows = "[[flows]]\nextra_delay = '15ms'\nworkload = { rate = '1 Mbit/s' }\n\
                 [[flows]]\ndirection = 'up'\nextra_delay = '5ms'\nworkload = { rate = '1 Mbit/s' }\n\
                 [[flows]]\nworkload = { rate = '1 Mbit/s' }\n";
    let scenario = format!("name = 'extra'\nseconds = 2\ncontestants = ['copa@udp', 'reno@tcp']\n{PATH}{flows}");
    let Some(records) = records("a_flow_with_a_delay_of_its_own", &scenario) else { return };
    for record in &records {
        for (index, extra) in [(0, 15.0), (1, 5.0), (2, 0.0)] {
            let flow = &record["flows"][index];
            // Nothing waits long: 10 ms, its own, and 0.6 ms on the wire.
            let least = number(flow, "/delay_ms/min");
            assert!((10.0 + extra..11.5 + extra).contains(&least), "{index}: {record}");
            assert!(number(flow, "/rtt_ms/p50") >= 20.0 + 2.0 * extra, "{index}: {record}");
            assert!(number(flow, "/goodput_mbps") > 0.5, "{index}: {record}");
        }
        assert!(record.get("links").is_none(), "{record}");
    }
}

#[test]
fn the_report_and_the_table_tell_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let scenario = format!("name = 'bulk'\nseconds = 2\ncontestants = ['copa@udp']\n{PATH}");
    let output = run(&scenario, &["--report", report.to_str().unwrap()]);
    let doubtful = match output.status.code() {
        Some(0) => false,
        Some(3) => true,
        other => return assert_eq!(other, Some(2)),
    };
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("% core") && table.contains("Packets were released late by p50"), "{table}");
    let page = std::fs::read_to_string(report.join("report.html")).unwrap();
    assert!(page.contains("real time") && page.contains("CPU, % of a core"));
    let verdict = if doubtful { "NOT to be trusted: 1 of 1 runs" } else { "Trusted: at most 1 %" };
    assert!(table.contains(verdict) && page.contains(verdict), "{table}");
    assert!(table.contains(if doubtful { "0 of 1" } else { "1 of 1" }), "{table}");
}

#[test]
fn what_the_real_world_has_not_is_refused_in_one_line() {
    let in_kernel = cfg!(feature = "ebpf");
    for (contestant, more, what) in [
        ("copa@alcc/verus", "", "copa@alcc/verus: this kernel's TCP has no verus"),
        ("copa@tcp", "", if in_kernel { "" } else { "this kernel's TCP has no copa" }),
        ("sprout@quic", "", "sprout needs its receiver half at the other end, and QUIC"),
        (
            "copa@quic",
            "[[flows]]\narrivals = true\n",
            if cfg!(feature = "quic") { "arrivals" } else { "--features quic" },
        ),
        ("reno:start=hystart@tcp", "", if in_kernel { "" } else { "takes no start=hystart" }),
        ("reno@tcp", "[[flows]]\narrivals = true\n", "does not report when packets arrived"),
        ("reno@tcp", "[[cross]]\nrate = '1 Mbit/s'\npacket = '9kB'\n", "packet = 9000 is not between 28 and 1500"),
    ] {
        // With eBPF the kernel has it.
        if what.is_empty() {
            continue;
        }
        let scenario = format!("name = 'no'\ncontestants = ['{contestant}']\n{PATH}{more}");
        let output = run(&scenario, &[]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
        assert!(errors.contains("network namespaces") || errors.contains(what), "{errors}");
    }
}

/// The flow of a record used [`PATH`] as one that is alone there.
fn fills_the_link(record: &Value) {
    let used = number(record, "/utilization");
    assert!((0.4..=1.01).contains(&used), "{record}");
    let least = number(record, "/delay_ms/min");
    assert!((10.0..11.5).contains(&least), "{record}");
    assert!(number(record, "/queue_ms/max") <= 41.0, "{record}");
    assert!(number(record, "/rtt_ms/p50") >= 20.0 && number(record, "/cpu_s") > 0.0, "{record}");
    let goodput = number(record, "/goodput_mbps");
    assert!(goodput > 0.0 && goodput <= number(record, "/throughput_mbps"), "{record}");
}
