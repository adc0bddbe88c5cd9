//! Files from one end to the other, whatever the path does to packets.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use paceline_cc::{Nanos, Remembered};
use paceline_linux::clock::Clock;
use paceline_remembered::{PathStore, Place};
use paceline_udp::transfer::{Content, ContentPlace, TransferError, TransferPlan, Transferred, give, take};
use paceline_udp::wire::control::SessionJob;
use paceline_udp::{Offload, SessionKey, Trouble, connect};

use super::relay::{Mischief, Relay};
use super::{LIMIT, accept, hello, listener};

const PATIENCE: Nanos = Nanos::from_secs(20);
const SECOND: Nanos = Nanos::from_secs(1);

fn content(bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

struct Case {
    job: SessionJob,
    controller: &'static str,
    key: Option<SessionKey>,
    mischief: Mischief,
    bytes: usize,
    offload: Offload,
}

/// Moves a file; answers what each end says, sender first, and what arrived.
fn run(case: Case) -> ([Result<Transferred, TransferError>; 2], Vec<u8>) {
    let Case { job, controller, key, mischief, bytes, offload } = case;
    let clock = Clock::new();
    let listener = listener(key.as_ref(), clock);
    let relay = Relay::new(listener.address(), mischief);
    let length = bytes as u64;
    let server = accept(listener, clock, Some(length), Nanos::ZERO);
    let asked = hello(job, Some(length), controller);
    let plan = TransferPlan::of(&asked, PATIENCE).unwrap();
    let (near, _) = connect(relay.address(), key.as_ref(), asked, offload, clock, LIMIT).unwrap();
    let far = server.join().unwrap().remove(0).channel;
    let (from, to) = if job == SessionJob::Store { (near, far) } else { (far, near) };
    let source = Content::File(file(&content(bytes)), length);
    let mut target = tempfile::tempfile().unwrap();
    let place = target.try_clone().unwrap();
    let receiving = plan.clone();
    let other = thread::spawn(move || {
        let mut kept = false;
        let keep = || {
            kept = true;
            Ok(())
        };
        let place = ContentPlace { file: Arc::new(place), bytes: length, keep: Box::new(keep) };
        let taken = take(to, clock, &receiving, Some(place), SECOND, &mut |_| {});
        assert_eq!(kept, taken.is_ok());
        taken
    });
    let mut delivered = 0;
    let given = give(from, clock, &plan, source, None, SECOND, &mut |interval| delivered += interval.bytes);
    if given.is_ok() {
        assert_eq!(delivered, length);
    }
    let taken = other.join().unwrap();
    let mut arrived = Vec::new();
    target.rewind().unwrap();
    target.read_to_end(&mut arrived).unwrap();
    ([given, taken], arrived)
}

const BOTH: Offload = Offload { send: true, receive: true };

#[test]
fn a_file_arrives_whole_and_checked_both_ways() {
    for (job, key) in [
        (SessionJob::Store, None),
        (SessionJob::Fetch, Some(SessionKey::new([1; 32]))),
        (SessionJob::Store, Some(SessionKey::new([1; 32]))),
    ] {
        for (bytes, offload) in [(0, BOTH), (1, Offload::NONE), (700_001, BOTH)] {
            let case =
                Case { job, controller: "copa", key: key.clone(), mischief: Mischief::default(), bytes, offload };
            let ([given, taken], arrived) = run(case);
            let (given, taken) = (given.unwrap(), taken.unwrap());
            assert!(given.verified && taken.verified && given.bytes == bytes as u64 && taken.bytes == bytes as u64);
            assert!(arrived == content(bytes), "{job:?} {bytes}");
        }
    }
}

#[test]
fn a_file_survives_a_path_that_drops_doubles_swaps_and_changes() {
    for controller in ["cubic", "copa", "sprout"] {
        let mischief = Mischief { drop: 40, double: 20, change: 20, swap: 20 };
        let key = Some(SessionKey::new([1; 32]));
        let case = Case { job: SessionJob::Fetch, controller, key, mischief, bytes: 200_000, offload: Offload::NONE };
        let ([given, taken], arrived) = run(case);
        let (given, taken) = (given.unwrap(), taken.unwrap());
        assert!(arrived == content(200_000) && given.verified && taken.verified, "{controller}");
        let strays = taken.receiver.unwrap().strays;
        assert!(strays.forged > 0 && strays.replayed > 0 && strays.malformed == 0, "{controller}: {strays:?}");
    }
}

/// Sends filler bytes by `start=resume` with a store, over loopback; what the sending end says.
fn remembering(store: &PathStore) -> Transferred {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let server = accept(listener, clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Discard, Some(2_000_000), "cubic:start=resume");
    let plan = TransferPlan { store: Some(store.clone()), ..TransferPlan::of(&asked, PATIENCE).unwrap() };
    let (near, _) = connect(address, None, asked, BOTH, clock, LIMIT).unwrap();
    let far = server.join().unwrap().remove(0).channel;
    let receiving = plan.clone();
    let other = thread::spawn(move || take(far, clock, &receiving, None, SECOND, &mut |_| {}));
    let given = give(near, clock, &plan, Content::Zeros(Some(2_000_000)), None, SECOND, &mut |_| {}).unwrap();
    other.join().unwrap().unwrap();
    given
}

#[test]
fn what_a_sender_learns_is_in_the_store_and_a_damaged_one_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = PathStore::new(folder.path().join("remembered"));
    let place = Place::new([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
    let lent = Remembered::new(1_000_000, Nanos::from_micros(100), Nanos::ZERO);
    store.keep(place, &lent, SystemTime::now()).unwrap();
    let given = remembering(&store);
    assert!(given.forgot.is_none());
    let learnt = given.sender.unwrap().remembered;
    let kept = store.lend(place, SystemTime::now()).unwrap();
    assert_eq!(kept.map(|kept| kept.window), learnt.map(|learnt| learnt.window));
    std::fs::write(store.path(), "something else").unwrap();
    let given = remembering(&store);
    assert_eq!(given.bytes, 2_000_000);
    assert!(given.forgot.unwrap().to_string().contains("the file stays as it is"));
    assert_eq!(std::fs::read(store.path()).unwrap(), b"something else");
}

#[test]
fn an_end_without_room_fails_both() {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let server = accept(listener, clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Store, Some(50_000), "reno");
    let plan = TransferPlan::of(&asked, PATIENCE).unwrap();
    let (near, _) = connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    let far = server.join().unwrap().remove(0).channel;
    let receiving = plan.clone();
    let other = thread::spawn(move || {
        // It was promised less than what comes.
        let place =
            ContentPlace { file: Arc::new(tempfile::tempfile().unwrap()), bytes: 10_000, keep: Box::new(|| Ok(())) };
        take(far, clock, &receiving, Some(place), SECOND, &mut |_| {})
    });
    let source = Content::File(file(&content(50_000)), 50_000);
    let given = give(near, clock, &plan, source, None, SECOND, &mut |_| {});
    assert!(matches!(given, Err(TransferError::PeerFailed)), "{given:?}");
    let taken = other.join().unwrap().unwrap_err().to_string();
    assert!(taken.contains("more than it said"), "{taken}");
}

#[test]
fn a_sender_hears_that_the_name_was_taken_meanwhile() {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let server = accept(listener, clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Store, Some(50_000), "reno");
    let plan = TransferPlan::of(&asked, PATIENCE).unwrap();
    let (near, _) = connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    let far = server.join().unwrap().remove(0).channel;
    let receiving = plan.clone();
    let other = thread::spawn(move || {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let place = ContentPlace { file, bytes: 50_000, keep: Box::new(|| Err(TransferError::Taken)) };
        take(far, clock, &receiving, Some(place), SECOND, &mut |_| {})
    });
    let source = Content::File(file(&content(50_000)), 50_000);
    let given = give(near, clock, &plan, source, None, SECOND, &mut |_| {});
    assert!(matches!(given, Err(TransferError::Taken)), "{given:?}");
    assert!(matches!(other.join().unwrap(), Err(TransferError::Taken)));
}

#[test]
fn a_file_that_shrinks_meanwhile_is_told_of() {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let server = accept(listener, clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Discard, None, "reno");
    let plan = TransferPlan::of(&asked, PATIENCE).unwrap();
    let (near, _) = connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    let far = server.join().unwrap().remove(0).channel;
    let receiving = plan.clone();
    let other = thread::spawn(move || take(far, clock, &receiving, None, SECOND, &mut |_| {}));
    let source = Content::File(file(&content(10_000)), 20_000);
    let given = give(near, clock, &plan, source, None, SECOND, &mut |_| {}).unwrap_err().to_string();
    assert!(given.contains("shorter"), "{given}");
    assert!(matches!(other.join().unwrap(), Err(TransferError::PeerFailed)));
}

#[test]
fn a_peer_that_vanishes_is_given_up() {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let server = accept(listener, clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Discard, None, "copa");
    let plan = TransferPlan::of(&asked, Nanos::from_millis(300)).unwrap();
    let (near, _) = connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    let far = server.join().unwrap().remove(0).channel;
    // It is there and says nothing.
    let given = give(near, clock, &plan, Content::Zeros(None), None, SECOND, &mut |_| {}).unwrap_err();
    assert!(matches!(given, TransferError::Trouble(Trouble::Silent { .. })), "{given:?}");
    assert!(given.to_string().contains("silent"));
    // And the other one has received nothing but that.
    let taken = take(far, clock, &plan, None, SECOND, &mut |_| {}).unwrap_err();
    assert!(matches!(taken, TransferError::PeerFailed | TransferError::Trouble(_)), "{taken:?}");
}
