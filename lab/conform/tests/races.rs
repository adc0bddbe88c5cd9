//! Captures of races in real time. What this machine does not allow is skipped, and says so.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write;

use paceline_conform::capture;
use paceline_conform::suite::Score;
use paceline_lab::race::{Settings, race};
use paceline_lab::real;
use paceline_lab::run::World;
use paceline_lab::scenario::{Options, Source};

/// Seconds of a run.
const SECONDS: f64 = 4.0;

#[test]
fn a_capture_of_all_links_is_one_at_each_sender() {
    if let Err(reason) = real::acquire() {
        let _ = writeln!(std::io::stderr(), "skipped: a_capture_of_all_links_is_one_at_each_sender: {reason}");
        return;
    }
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/parking-lot.toml");
    let (contestants, runs, seconds) = (Some("reno@tcp".to_owned()), Some(2), Some(SECONDS));
    let options = Options { contestants, runs, seconds, real: true, ..Options::default() };
    let source = Source::read(scenario.as_ref(), options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pcap = folder.path().join("pcap");
    let settings = Settings { world: World::Real, pcap: Some(pcap.clone()), ..Settings::default() };
    let raced = race(&source, &settings).unwrap();
    assert!(raced.failures.is_empty() && raced.runs.len() == 2);
    // Of the first run alone.
    let names: Vec<_> = std::fs::read_dir(&pcap).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["reno@tcp.pcapng"]);
    let read = |flow| capture::read("c", File::open(pcap.join("reno@tcp.pcapng")).unwrap(), flow).unwrap();
    let largest = read(None);
    // On a busy machine a link that is late is written behind one that is not; what reads sorts.
    let notes: Vec<&String> = largest.notes.iter().filter(|note| !note.contains("order of time")).collect();
    assert!(notes.is_empty(), "{notes:?}");
    // Of its ends the receiver's port says which flow it is.
    let ends = largest.name.rsplit(' ').next().unwrap();
    let port: usize = ends.rsplit(':').next().unwrap().parse().unwrap();
    let flow = &raced.runs[0].record.flows[port - 20_000];
    // 30 ms each way, and 0.6 ms on each wire of 20 Mbit/s; a queue of PIE.
    let least = largest.points.iter().filter_map(|point| point.rtt_ms).fold(f64::MAX, f64::min);
    assert!((60.0..70.0).contains(&least), "{least}");
    assert_eq!(largest.mss, 1448.0);
    // What was acknowledged is what was delivered, but for what the end left under way.
    let delivered = largest.points.last().unwrap().delivered * largest.mss * 8e-6 / (flow.end_s - flow.start_s);
    let goodput = flow.goodput_mbps.unwrap();
    assert!((delivered / goodput - 1.0).abs() < 0.1, "{delivered} {goodput}");
    // Nothing is lost before the first link, so that what is sent again was dropped behind it.
    let again = flow.retransmits.unwrap();
    assert!(largest.losses.len() as u64 <= again + 2, "{} {again}", largest.losses.len());
    assert_eq!(read(Some(ends.parse().unwrap())).points, largest.points);
    let score = Score::of_one("reno", largest);
    assert!(score.judged.iter().any(|one| one.rule.id == "reno-halving"));
}
