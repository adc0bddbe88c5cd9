//! The programs of scenarios/programs.toml: two short races of each, the second where the first has been, beside others of its kind so that
//! all of them take less than a minute. One that is not installed is skipped, and says so. `scripts/setup programs` installs them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use super::{PATH, number, records_of, run_in, skipped};

/// A program, as a race beside others has it.
struct Shipped {
    contestant: &'static str,
    /// Keys of its flow.
    flow: &'static str,
    /// How its version begins.
    version: &'static str,
    protocol: &'static str,
}

const IPERF3: Shipped = bulk("iperf3@program", "iperf 3.", "tcp");
/// Its control connection is TCP.
const IPERF3_UDP: Shipped = bulk("iperf3-udp:rate=1M@program", "iperf 3.", "tcp+udp");
const HTTP: Shipped = bulk("http@program", "Python 3.", "tcp");
const NGINX: Shipped = bulk("nginx@program", "nginx version: ", "tcp");
const NGTCP2: Shipped = bulk("ngtcp2@program", "ngtcp2", "quic");
const AIOQUIC: Shipped = bulk("aioquic@program", "aioquic 1.", "quic");
const SRT_FILE: Shipped = Shipped {
    flow: "workload = { bytes = '300kB' }\n",
    ..bulk("srt-file@program", "Built with SRT Library version: 1.", "udp")
};
const TS_UDP: Shipped = bulk("ts-udp:rate=1M@program", "ffmpeg version ", "udp");
const TS_SRT: Shipped = bulk("ts-srt:rate=1M@program", "ffmpeg version ", "udp");

const fn bulk(contestant: &'static str, version: &'static str, protocol: &'static str) -> Shipped {
    Shipped { contestant, flow: "", version, protocol }
}

/// Those that race beside each other: each once, whichever of their tests asks first.
static OVER_TCP: LazyLock<Raced> = LazyLock::new(|| Raced::these(&[IPERF3, IPERF3_UDP, HTTP, NGINX], ""));
static OVER_QUIC: LazyLock<Raced> = LazyLock::new(|| Raced::these(&[NGTCP2, AIOQUIC], ""));
static OF_MEDIA: LazyLock<Raced> = LazyLock::new(|| Raced::these(&[SRT_FILE, TS_UDP, TS_SRT], ""));

fn shipped_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/programs.toml").canonicalize().unwrap()
}

/// Where programs are found: those of this machine, and below them the Python that `scripts/setup programs` makes for aioquic.
fn places() -> OsString {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/aioquic/bin");
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let all = [own].into_iter().chain(std::env::split_paths(&usual));
    std::env::join_paths(all).unwrap()
}

/// Why a program cannot run here: what its own command for its version says.
fn missing(program: &Shipped) -> Option<String> {
    let name = program.contestant.split(['@', ':']).next().unwrap();
    let file: toml::Table = fs::read_to_string(shipped_file()).unwrap().parse().unwrap();
    let table = &file["programs"][name];
    let version = table["version"].as_str().unwrap();
    let env = table.get("env").and_then(toml::Value::as_table).into_iter().flatten();
    let env = env.map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
    let output = Command::new("sh").args(["-c", version]).env("PATH", places()).envs(env).stdin(Stdio::null()).output();
    let output = output.unwrap();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Some(format!("{name} is not installed: {}", errors.lines().last().unwrap_or(version)));
    }
    // The first of its processes is root, and becomes it again.
    let groups = fs::read_to_string("/proc/self/setgroups").unwrap_or_default();
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    (name == "nginx" && !(root && groups.starts_with("allow"))).then(|| "nginx needs root".to_owned())
}

/// What came of a race of programs.
struct Raced {
    /// Why each of those that could not run did not.
    missing: Vec<(&'static str, String)>,
    records: Vec<Value>,
    /// Of all, where the machine allows no race.
    refused: Option<String>,
    /// What programs wrote.
    kept: tempfile::TempDir,
}

impl Raced {
    /// Those of them that are there, with more flows or cross traffic.
    fn these(programs: &[Shipped], more: &str) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let absent = |program: &Shipped| missing(program).map(|why| (program.contestant, why));
        let missing: Vec<(&str, String)> = programs.iter().filter_map(absent).collect();
        let there = |program: &&Shipped| missing.iter().all(|(name, _)| *name != program.contestant);
        let there: Vec<&Shipped> = programs.iter().filter(there).collect();
        let mut raced = Self { missing, records: Vec::new(), refused: None, kept };
        let Some(first) = there.first() else { return raced };
        let mut scenario = format!(
            "name = 'shipped'\nseconds = 3\nruns = 2\nprograms_from = '{}'\ncontestants = ['{}']\n{PATH}",
            shipped_file().display(),
            first.contestant
        );
        for program in &there {
            // The first is the contestant.
            let who = if program.contestant == first.contestant { "each" } else { program.contestant };
            let flow = format!("[[flows]]\ncontestant = '{who}'\n{}", program.flow);
            scenario.push_str(&flow);
        }
        scenario.push_str(more);
        let kept = raced.kept.path().to_str().unwrap();
        let output = run_in(Some(&places()), &scenario, &["--json", "-", "--run-programs", "--keep", kept]);
        match records_of(&output) {
            Ok(records) => raced.records = records,
            Err(refused) => raced.refused = Some(refused),
        }
        raced
    }

    /// The flows of a program, of each run; none where it did not run, which is said.
    fn flows(&self, test: &str, program: &Shipped) -> Vec<Value> {
        let why = self.missing.iter().find(|(name, _)| *name == program.contestant).map(|(_, why)| why);
        if let Some(why) = why.or(self.refused.as_ref()) {
            skipped(test, why);
            return Vec::new();
        }
        let name = program.contestant.trim_end_matches("@program");
        let of = |record: &Value| {
            record["flows"].as_array().unwrap().iter().find(|flow| flow["controller"] == name).cloned()
        };
        let flows: Vec<Value> = self.records.iter().filter_map(of).collect();
        assert_eq!(flows.len(), 2, "{:#?}", self.records);
        flows
    }

    /// Processes that still work in a folder of the race.
    fn left(&self) -> Vec<PathBuf> {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
        let within = |process: &PathBuf| {
            fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(self.kept.path()))
        };
        processes.filter(within).collect()
    }
}

/// The program did its part in each run, however fast that was. Its flows, to be looked at further.
fn did_its_part(test: &str, raced: &Raced, program: &Shipped) -> Vec<Value> {
    let flows = raced.flows(test, program);
    for flow in &flows {
        let own = &flow["program"];
        let version = own["version"].as_str().unwrap_or_default();
        assert!(version.starts_with(program.version), "{version}: {flow}");
        assert_eq!(own["protocol"], program.protocol, "{flow}");
        assert!(number(own, "/connections") >= 1.0 && number(own, "/first_data_s") > 0.0, "{flow}");
        // The wire's 0.6 ms are those of a full packet.
        assert!(number(flow, "/throughput_mbps") > 0.0 && number(flow, "/delay_ms/min") >= 10.0, "{flow}");
        assert!(number(own, "/sender/cpu_s") > 0.0 && number(own, "/receiver/cpu_s") > 0.0, "{flow}");
        let is_tcp = program.protocol == "tcp";
        for key in ["retransmits", "goodput_mbps"] {
            assert_eq!(flow[key].is_number(), is_tcp, "{key}: {flow}");
        }
        assert_eq!(flow["rtt_ms"].is_object(), program.protocol.contains("tcp"), "{flow}");
        assert!(flow["timeouts"].is_null(), "{flow}");
    }
    assert_eq!(raced.left(), Vec::<PathBuf>::new());
    flows
}

/// One side ended by itself, and well: then what it writes at its end is there.
fn ended_well(flow: &Value, side: &str) -> bool {
    flow["program"][side]["status"] == 0
}

#[test]
fn iperf3_races_over_tcp() {
    let flows = did_its_part("iperf3_races_over_tcp", &OVER_TCP, &IPERF3);
    for flow in flows.iter().filter(|flow| ended_well(flow, "sender")) {
        assert!(
            number(flow, "/program/figures/received") > 0.0 && number(flow, "/program/figures/resent") >= 0.0,
            "{flow}"
        );
        // Its control connection and one for data.
        assert_eq!(number(flow, "/program/connections"), 2.0, "{flow}");
    }
}

#[test]
fn iperf3_races_over_udp() {
    for flow in did_its_part("iperf3_races_over_udp", &OVER_TCP, &IPERF3_UDP) {
        assert!(number(&flow, "/throughput_mbps") < 2.0, "{flow}");
    }
}

#[test]
fn pythons_server_races() {
    did_its_part("pythons_server_races", &OVER_TCP, &HTTP);
}

#[test]
fn nginx_races() {
    did_its_part("nginx_races", &OVER_TCP, &NGINX);
}

#[test]
fn ngtcp2_races() {
    for flow in did_its_part("ngtcp2_races", &OVER_QUIC, &NGTCP2) {
        assert!(flow["program"]["qlog"].as_array().is_some_and(|logs| !logs.is_empty()), "{flow}");
    }
}

#[test]
fn aioquic_races() {
    for flow in did_its_part("aioquic_races", &OVER_QUIC, &AIOQUIC) {
        let logs = flow["program"]["qlog"].as_array().map_or(0, Vec::len);
        assert_eq!(logs == 1, ended_well(&flow, "sender"), "{flow}");
    }
}

#[test]
fn a_file_goes_over_srt() {
    for flow in did_its_part("a_file_goes_over_srt", &OF_MEDIA, &SRT_FILE) {
        if ended_well(&flow, "sender") {
            assert!(number(&flow, "/fct_ms/p50") > 120.0, "300 kB take that at 20 Mbit/s: {flow}");
        }
    }
}

#[test]
fn video_without_a_controller_races() {
    did_its_part("video_without_a_controller_races", &OF_MEDIA, &TS_UDP);
}

#[test]
fn video_over_srt_races() {
    did_its_part("video_over_srt_races", &OF_MEDIA, &TS_SRT);
}

#[test]
fn programs_race_beside_copa_and_cross_traffic() {
    let test = "programs_race_beside_copa_and_cross_traffic";
    let cross = "[[flows]]\ncontestant = 'copa@udp'\n[[cross]]\nrate = '2 Mbit/s'\npoisson = true\n";
    let raced = Raced::these(&[IPERF3, HTTP], cross);
    for program in [IPERF3, HTTP] {
        did_its_part(test, &raced, &program);
    }
    for record in &raced.records {
        let flows = record["flows"].as_array().unwrap();
        let copa = flows.iter().find(|flow| flow["controller"] == "copa").unwrap();
        assert!(number(copa, "/goodput_mbps") > 0.0 && copa.get("program").is_none(), "{record}");
        // What four share.
        let all: f64 = flows.iter().map(|flow| number(flow, "/throughput_mbps")).sum();
        assert!(all <= 20.2, "{record}");
    }
}
