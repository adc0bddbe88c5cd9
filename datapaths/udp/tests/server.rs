//! A server of files and a recording, each with its client in one process.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use paceline_cc::{Nanos, Rate};
use paceline_linux::clock::Clock;
use paceline_path::Trace;
use paceline_udp::client::{Order, OrderError};
use paceline_udp::record::{RecordEnd, RecordServer, Terms, ask, fetch};
use paceline_udp::server::{FileServer, FileSession, Offer, ServeError};
use paceline_udp::transfer::{Content, Transferred, give};
use paceline_udp::wire::control::SessionJob;
use paceline_udp::{HandshakeError, Offload, connect};

use super::LIMIT;

const SECOND: Nanos = Nanos::from_secs(1);

fn order(job: SessionJob, bytes: Option<u64>, name: &str) -> Order {
    Order { job, controller: "cubic".parse().unwrap(), mtu: 1500, ack_every: 1, bytes, name: name.to_owned() }
}

#[test]
fn a_file_is_kept_under_its_name_and_once() {
    let lab = tempfile::tempdir().unwrap();
    let (file, kept) = (lab.path().join("file"), lab.path().join("kept"));
    fs::write(&file, "0123456789".repeat(10_000)).unwrap();
    let offer = Offer { dir: Some(kept.clone()), patience: LIMIT, ..Offer::default() };
    let mut server = FileServer::bind("127.0.0.1:0".parse().unwrap(), offer).unwrap();
    let address = server.address();
    let session = Arc::new(|session: FileSession| session.run(SECOND, &mut |_| {}).map(|done| done.verified));
    let (stop, mut begun) = (Arc::new(AtomicBool::new(false)), Vec::new());
    let ended = Arc::clone(&stop);
    let serving = thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            begun.extend(server.accept(Nanos::from_millis(50), &session, &mut |none| panic!("{none}")).unwrap());
        }
        begun
    });
    let send = || -> Result<Transferred, HandshakeError> {
        let clock = Clock::new();
        let (hello, plan) = order(SessionJob::Store, Some(100_000), "movie").hello(address, false, LIMIT).unwrap();
        let (channel, _) = connect(address, None, hello, Offload::NONE, clock, LIMIT)?;
        let content = Content::File(fs::File::open(&file).unwrap(), 100_000);
        Ok(give(channel, clock, &plan, content, None, SECOND, &mut |_| {}).unwrap())
    };
    assert!(send().unwrap().verified);
    assert!(fs::read(kept.join("movie")).unwrap() == fs::read(&file).unwrap());
    let refused = send().unwrap_err().to_string();
    assert!(refused.ends_with("refuses: movie is there already"), "{refused}");
    stop.store(true, Ordering::Relaxed);
    let verified = serving.join().unwrap().into_iter().map(|begun| begun.join().unwrap().unwrap().unwrap());
    assert_eq!(verified.collect::<Vec<_>>(), [true]);
}

#[test]
fn a_server_needs_its_file_and_an_order_its_controller() {
    let offer = Offer { file: Some("nowhere".into()), ..Offer::default() };
    let none = FileServer::bind("127.0.0.1:0".parse().unwrap(), offer).err().unwrap();
    assert!(matches!(none, ServeError::NotAFile(_)) && none.to_string() == "nowhere: not a file");
    let peer = "127.0.0.1:1".parse().unwrap();
    let small = Order { mtu: 100, ..order(SessionJob::Discard, None, "") };
    assert!(matches!(small.hello(peer, false, LIMIT), Err(OrderError::Plan(_))));
}

#[test]
fn both_ends_of_a_recording_have_their_traces() {
    let most = Rate::from_mbps(4.0);
    let mut server = RecordServer::bind("127.0.0.1:0".parse().unwrap(), None, most, LIMIT).unwrap();
    let address = server.address();
    let serving = thread::spawn(move || {
        let mut ends = Vec::new();
        for _ in 0..60 {
            for session in server.accept(SECOND).unwrap() {
                ends.push(session.unwrap().run().unwrap());
            }
            if matches!(ends.last(), Some(RecordEnd::Fetched { .. })) {
                break;
            }
        }
        ends
    });
    let terms = Terms::new(1, 0, most, true, true).unwrap();
    let recorded = ask(address, None, &terms, LIMIT).unwrap();
    let other = fetch(address, None, &terms, recorded.other, LIMIT).unwrap();
    let traces = [recorded.trace, other].map(|trace| Trace::read("trace", trace.as_slice()).unwrap());
    assert!(traces.iter().all(|trace| trace.mean_rate() <= most.mul_f64(1.5)), "{traces:?}");
    let ends = serving.join().unwrap();
    assert!(matches!(ends.as_slice(), [RecordEnd::Recorded { seconds: 1, .. }, RecordEnd::Fetched { .. }]), "{ends:?}");
}
