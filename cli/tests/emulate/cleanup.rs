//! Nothing is left behind by `kill -9`.

use std::thread;
use std::time::Duration;

use paceline_linux::interface::{Interfaces, LOOPBACK};
use paceline_linux::namespace::Namespace;

use crate::bench::{eventually, gone, mark, needs_root, paceline, with_mark};

const CYCLES: u64 = 100;
/// Every other cycle is killed this many milliseconds after its start, and one more each time.
const EARLIEST: u64 = 1;

#[test]
fn a_hundred_kills_leave_no_process_and_no_interface() {
    if needs_root("a_hundred_kills_leave_no_process_and_no_interface") {
        return;
    }
    let mark = mark();
    let script = format!("setsid sleep {mark} & echo ready; exec sleep {mark}");
    // Stands for the machine, so that nothing else makes interfaces there.
    let machine = Namespace::create().unwrap();
    let interfaces = || machine.enter(|| Interfaces::open().and_then(|open| open.names())).unwrap().unwrap();
    for cycle in 0..CYCLES {
        let run = paceline().args(["emulate", "--delay", "1ms", "--rate", "12Mbit/s", "--", "sh", "-c", &script]);
        let mut running = machine.enter(|| run.start()).unwrap();
        if cycle % 2 == 0 {
            assert_eq!(running.line(), "ready");
            assert!(interfaces().iter().any(|name| name.starts_with("paceline")));
        } else {
            thread::sleep(Duration::from_millis(EARLIEST + cycle));
        }
        running.signal("KILL");
        running.wait();
    }
    assert!(gone(&mark, Duration::from_secs(20)), "still there: {:?}", with_mark(&mark));
    assert!(eventually(Duration::from_secs(20), || interfaces() == [LOOPBACK]), "still there: {:?}", interfaces());
}
