//! CUBIC with records of its path, in the running kernel: the test writes the records itself.
#![cfg(target_os = "linux")]

mod path;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use paceline_cc::{Cause, Nanos, Time};
use paceline_kernel::Records;
use paceline_linux::clock::monotonic;
use paceline_linux::tcp::TcpInfo;
use paceline_telemetry::PathRecord;
use path::{Link, Outcome, beside, carry, load};

/// The path of the paper's figures: 20 Mbit/s, 20 ms and a queue of 60 packets, which drains in 36 ms.
const PATH: Link = Link { mbps: 20.0, rtt_ms: 20, queue: "droptail:packets=60", loss: 0.0 };
const LOSSY: Link = Link { loss: 0.1, ..PATH };
const SPAN: Duration = Duration::from_secs(6);
/// Between two records.
const STEP: Duration = Duration::from_millis(2);

/// What the bottleneck says while its queue is half empty and the medium loses packets.
fn medium() -> PathRecord {
    PathRecord {
        rseq: 0,
        at: Time::ZERO,
        // As long as it may be: a busy machine keeps the writer waiting.
        fresh_for: Nanos::from_millis(500),
        verdict: Cause::Medium,
        avail_pkts: Some(30),
        limit_pkts: Some(60),
        rate_pps: Some(1500),
        flows: Some(1),
        loss_ppm: 100_000,
        drain: Some(Nanos::from_millis(36)),
        reports: 10,
    }
}

/// Carries a flow over `link` for `span`, of which `record` is known for as long as `known`, renewed all the time.
fn told(controller: &str, link: &Link, record: PathRecord, known: Duration, span: Duration) -> Outcome {
    let records = Records::open().unwrap();
    // Sockets of an earlier load keep theirs for a while.
    assert!(records.maps() > 0, "{controller} has a map");
    let (sender, cookie) = mpsc::channel();
    let over = &AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(move || {
            let Ok(cookie) = cookie.recv() else { return };
            let start = monotonic();
            for rseq in 1.. {
                let at = monotonic();
                if over.load(Ordering::Relaxed) || Duration::from_nanos(at.since(start).as_nanos()) > known {
                    break;
                }
                records.write(cookie, &PathRecord { rseq, at, ..record }).unwrap();
                thread::sleep(STEP);
            }
            if over.load(Ordering::Relaxed) {
                records.remove(cookie).unwrap();
            }
        });
        let prepare = move |socket: &socket2::Socket| sender.send(socket.cookie().unwrap()).unwrap();
        let outcome = carry(controller, link, span, Duration::ZERO, prepare);
        over.store(true, Ordering::Relaxed);
        outcome
    });
    report(controller, &outcome, span);
    outcome
}

fn untold(controller: &str, link: &Link) -> Outcome {
    let outcome = carry(controller, link, SPAN, Duration::ZERO, |_| ());
    report(controller, &outcome, SPAN);
    outcome
}

fn median(windows: impl Iterator<Item = u32>) -> u32 {
    let mut windows: Vec<u32> = windows.collect();
    windows.sort_unstable();
    windows[windows.len() / 2]
}

fn window(outcome: &Outcome) -> u32 {
    median(outcome.looks.iter().map(|look| look.cwnd))
}

fn report(controller: &str, outcome: &Outcome, span: Duration) {
    let resent = outcome.looks.last().map(|look| look.retransmits);
    let _ = writeln!(
        std::io::stderr(),
        "{controller}: {:.2} Mbit/s, window {}, resent {resent:?}",
        outcome.mbps(span),
        window(outcome)
    );
}

/// How often the threshold fell to less than four fifths: congestion was seen.
fn cuts(outcome: &Outcome) -> usize {
    let threshold = |look: &TcpInfo| u64::from(look.threshold().unwrap_or(u32::MAX));
    outcome.looks.windows(2).filter(|pair| 5 * threshold(&pair[1]) < 4 * threshold(&pair[0])).count()
}

/// The best of up to three flows over `link`, as it is told of its medium: its Mbit/s and window, once both are more than this.
fn best_of_three(controller: &str, link: &Link, mbps: f64, packets: u32) -> (f64, u32) {
    let mut best = (0.0_f64, 0);
    for _ in 0..3 {
        let outcome = told(controller, link, medium(), SPAN, SPAN);
        best = (best.0.max(outcome.mbps(SPAN)), best.1.max(window(&outcome)));
        if best.0 > mbps && best.1 > packets {
            break;
        }
    }
    best
}

#[test]
fn losses_of_the_medium_cost_little() {
    let test = "losses_of_the_medium_cost_little";
    let Some(_held) = load(test, &["pl_cubic", "pl_cubic_l1", "pl_cubic_l1g"]) else { return };
    let plain = untold("pl_cubic", &LOSSY);
    let (cubic, small) = (plain.mbps(SPAN), window(&plain));
    beside([("pl_cubic_l1", 2.0), ("pl_cubic_l1g", 3.0)], |(name, share)| {
        // A row of losses may cost a run of L1 its window, at timeouts.
        let best = best_of_three(name, &LOSSY, share * cubic, small);
        assert!(best.0 > share * cubic && best.1 > small, "{name}: {best:?}, CUBIC {cubic} Mbit/s, {small}");
    });
    beside(["pl_cubic_l1", "pl_cubic_l1g"], |name| {
        // Nothing known: CUBIC. One loss more or less that is repaired without a timeout halves or doubles what a run carries.
        let alone = (0..3).map(|_| untold(name, &LOSSY).mbps(SPAN)).find(|&mbps| mbps < 2.0 * cubic);
        assert!(alone.is_some(), "{name}, CUBIC {cubic} Mbit/s");
    });
}

#[test]
fn a_twentieth_less_is_more_than_three_tenths_less() {
    let test = "a_twentieth_less_is_more_than_three_tenths_less";
    let link = Link { loss: 0.02, ..PATH };
    let Some(_held) = load(test, &["pl_cubic", "pl_cubic_l2"]) else { return };
    let cubic = untold("pl_cubic", &link).mbps(SPAN);
    let (best, _) = best_of_three("pl_cubic_l2", &link, 1.2 * cubic, 0);
    assert!(best > 1.2 * cubic, "{best} and {cubic} Mbit/s");
}

#[test]
fn when_records_end_it_is_cubic() {
    let test = "when_records_end_it_is_cubic";
    let Some(_held) = load(test, &["pl_cubic_l1g"]) else { return };
    // The looks begin after a second.
    let outcome = told("pl_cubic_l1g", &LOSSY, medium(), Duration::from_secs(3), SPAN);
    let looks = &outcome.looks;
    let quarter = looks.len() / 4;
    let (before, after) = (&looks[..quarter], &looks[looks.len() - quarter..]);
    let windows = |looks: &[TcpInfo]| median(looks.iter().map(|look| look.cwnd));
    let _ = writeln!(std::io::stderr(), "windows: {} before, {} after", windows(before), windows(after));
    assert!(windows(after) < windows(before));
    assert!(looks.last().unwrap().delivered > looks[looks.len() - quarter].delivered, "it goes on");
}

#[test]
fn forged_records_do_not_end_congestion_control() {
    let test = "forged_records_do_not_end_congestion_control";
    let Some(_held) = load(test, &["pl_cubic_l1"]) else { return };
    // Every loss is an overflow. G1 sees the queue; where the record hides it, G3 counts. On a short path with little room recoveries
    // are short, so that the 129th in a row comes after some seconds.
    let link = Link { rtt_ms: 4, queue: "droptail:packets=20", ..PATH };
    let hides = PathRecord { drain: Some(Nanos::from_secs(100)), avail_pkts: Some(10), ..medium() };
    let shows = PathRecord { drain: Some(Nanos::from_millis(2)), ..hides };
    let resent = |outcome: &Outcome| outcome.looks.last().unwrap().retransmits;
    // It is as many round trips on a busy host, and more time.
    let spared = || {
        [3, 6, 9]
            .into_iter()
            .map(|spans| (spans, told("pl_cubic_l1", &link, hides, spans * SPAN, spans * SPAN)))
            .find(|(_, outcome)| cuts(outcome) >= 1)
            .expect("G3")
    };
    let ((spans, spared), guarded) = thread::scope(|scope| {
        let guarded = scope.spawn(|| told("pl_cubic_l1", &link, shows, SPAN, SPAN));
        (spared(), guarded.join().unwrap())
    });
    let _ = writeln!(std::io::stderr(), "cuts: {} by G3, {} by G1", cuts(&spared), cuts(&guarded));
    // Slow start overflows in both; afterwards only those that spare lose again and again.
    let sent_after = |outcome: &Outcome| resent(outcome) - outcome.looks[0].retransmits;
    assert!(3 * spans * sent_after(&guarded) < sent_after(&spared), "G1");
}

#[test]
fn equation_one_waits_for_room() {
    let test = "equation_one_waits_for_room";
    let names = ["pl_cubic_eq1", "pl_cubic_eq2", "pl_cubic_eq3"];
    let Some(_held) = load(test, &names) else { return };
    beside(names, |name| {
        // A fifth of 60 leaves no room: the initial window, of which the path could take nine, gives way by 5 % in three round trips.
        let (drain, span) = (Some(Nanos::from_millis(20)), Duration::from_secs(3));
        let full = PathRecord { avail_pkts: Some(12), drain, ..medium() };
        let waiting = told(name, &PATH, full, span, span);
        assert!(window(&waiting) == 8, "{name}: {}", window(&waiting));
        // Of a queue that would take longer than a round trip does it is not believed.
        let lies = PathRecord { drain: Some(Nanos::from_millis(100)), ..full };
        let doubting = told(name, &PATH, lies, span, span);
        assert!(window(&doubting) > 15, "{name}: {}", window(&doubting));
        let room = told(name, &PATH, PathRecord { avail_pkts: Some(60), ..full }, span, span);
        // 12 are a fifth of the room; how far it goes beyond depends on how soon HyStart ends slow start.
        assert!(window(&room) > 15, "{name}: {}", window(&room));
    });
}
