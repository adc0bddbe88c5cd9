//! The adapter for picoquic: over a stand-in that notifies in picoquic's order it uses its path, and what it told the library gives the same
//! answers in Rust.

mod build;

use std::process::Command;

use paceline_cc::{Env, Nanos, Pacing, Spec, Time};
use paceline_fixture::c::{lacks_compiler, succeeded};
use paceline_transport::{FlowLimit, Numbered, NumberedNews, SenderConfig};

use build::{compile, here};

/// Feeds a line of the stand-in to a flow; answers what the flow would have printed, for a line that is an answer.
fn replay(flow: &mut Numbered, line: &str) -> Option<String> {
    let (word, rest) = line.split_once(' ').unwrap();
    let numbers: Vec<u64> = rest.split(' ').map(|number| number.parse().unwrap()).collect();
    let now = Time::from_nanos(numbers[0]);
    match (word, numbers.as_slice()) {
        ("sent", &[_, number, bytes, limit]) => {
            let limit = [FlowLimit::Unknown, FlowLimit::Window, FlowLimit::Application][limit as usize];
            flow.sent(now, number, bytes as u32, u64::MAX, limit).unwrap();
        }
        ("news", &[_, flags, bytes, newest, ce_packets, in_flight, rtt, ref lost @ ..]) => {
            let in_flight = (flags & 4 != 0).then_some(in_flight);
            let rtt = (flags & 8 != 0).then(|| Nanos::from_nanos(rtt));
            let news = NumberedNews::default()
                .with_lost(lost)
                .with_ce_packets(ce_packets as u32)
                .with_in_flight(in_flight)
                .with_rtt(rtt);
            if flags & 1 != 0 {
                flow.acked_bytes(now, bytes, newest, &news);
            } else {
                flow.acked(now, [0_u64; 0], &news);
            }
        }
        ("timeout", [_, lost @ ..]) => flow.lost(now, lost, true),
        ("discard", [_, packets @ ..]) => flow.discarded(packets),
        ("spurious", _) => flow.spurious(now),
        ("run_dry", _) => flow.run_dry(now),
        ("tick", _) => flow.tick(now),
        ("state", _) => {
            let (pacing, pace) = match flow.controller().pacing() {
                Pacing::Free => (0, 0),
                Pacing::Rate(rate) => (1, rate.as_bytes_per_sec()),
                Pacing::Gap(gap) => (2, gap.as_nanos()),
            };
            let (window, in_flight, delivered) = (flow.window(), flow.in_flight(), flow.bytes_delivered());
            return Some(format!("state {window} {pacing} {pace} {in_flight} {delivered}"));
        }
        _ => panic!("{line}"),
    }
    None
}

#[test]
fn the_adapter_for_picoquic_uses_its_path_and_replays() {
    if lacks_compiler("the_adapter_for_picoquic") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile("tests/native/standin.c", &here("include"), folder.path());
    for spec in ["cubic", "copa", "bbr", "prague"] {
        let output = Command::new(&program).args([spec, "10"]).output().unwrap();
        succeeded(&output);
        let said = String::from_utf8(output.stdout).unwrap();
        let (calls, end) = said.trim().rsplit_once('\n').unwrap();
        // As the adapter makes it: its seed is the time of the path's start.
        let env = Env::new(1200).with_seed(0);
        let controller = spec.parse::<Spec>().unwrap().build(&env);
        let mut flow = Numbered::new(&SenderConfig::new(1200), controller);
        let (mut states, mut events) = (0, std::collections::BTreeSet::new());
        for line in calls.lines() {
            events.insert(line.split(' ').next().unwrap());
            if let Some(answer) = replay(&mut flow, line) {
                assert_eq!(answer, line, "{spec}");
                states += 1;
            }
        }
        assert!(states > 5000, "{spec}: {states}");
        for event in ["sent", "news", "timeout", "run_dry", "tick"] {
            assert!(events.contains(event), "{spec}: no {event}");
        }
        let number = |at: usize| end.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
        let (delivered, marked) = (number(1), number(3));
        // Of 10 s at 1.5 MB/s half a second is silence, and some 2 s are an outage and the way back.
        assert!(delivered > 9_000_000, "{spec}: {end}");
        assert!(marked > 0 || spec == "copa" || spec == "bbr", "{spec}: {end}");
        assert_eq!(number(7), flow.rtt().smoothed().map_or(0, Nanos::as_nanos) / 1000, "{spec}: {end}");
    }
    // What cannot work is said.
    let output = Command::new(&program).args(["dctcp:start=chirp", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("paceline: dctcp:start=chirp needs of its host: exact gaps"),
        "{said}"
    );
}
