//! Marks are counted inside s2n-quic, and gaps are kept.

use std::sync::{Arc, Mutex};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Nanos, Pacing, Time};
use paceline_quic::{Factory, MTU};

use crate::virtual_time::{CLOSE, LASTING, RATE, START, replays};
use crate::world::{Passed, Way, over_udp_seen};
use crate::{STACKS, Tested, at};

const MARKING: Way = Way::Marking(RATE, Nanos::from_millis(1));

fn s2n() -> &'static Tested {
    STACKS.iter().find(|tested| tested.named("s2n-quic")).unwrap()
}

/// A flow whose controller has no pace but its own.
fn run(factory: Factory, way: Way, lasting: u64) -> Passed {
    s2n().run(factory.unpaced(), way, Nanos::from_millis(lasting))
}

/// The mean of DCTCP's share of marked packets, once the flow is judged; and bytes that it heard were marked.
#[derive(Default)]
struct Alpha {
    sum: f64,
    seen: u32,
    marked: u64,
}

impl Observer for Alpha {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let Event::Acked(ack) = event else { return };
        self.marked += ack.ce_bytes;
        if ack.now >= at(START) {
            controller.describe(&mut |name, value| self.sum += if name == "alpha" { value } else { 0.0 });
            self.seen += 1;
        }
    }
}

#[test]
fn dctcp_sees_as_many_marks_as_over_datagrams() {
    let span = at(START)..at(LASTING);
    let seen: [Arc<Mutex<Alpha>>; 2] = Default::default();
    let inside = Arc::clone(&seen[0]);
    let factory = s2n().factory("dctcp").observed(move |_| Some(Box::new(Arc::clone(&inside))));
    let passed = run(factory, MARKING, LASTING);
    let (marked, stack) = (passed.marked, passed.figures(span.clone()));
    let observer = Box::new(Arc::clone(&seen[1]));
    let udp = over_udp_seen("dctcp", MARKING, Nanos::from_millis(LASTING), Some(observer)).figures(span);
    CLOSE.check("dctcp", &stack, &udp);
    let heard = (seen[0].lock().unwrap().marked / u64::from(MTU)) as i64;
    println!("{marked} marks, {heard} heard");
    // s2n-quic tells of none in the first round trip.
    assert!(heard <= marked && heard >= marked - 200, "{marked} marks, {heard} heard");
    let [stack, udp] = seen.map(|alpha| {
        let alpha = alpha.lock().unwrap();
        alpha.sum / f64::from(alpha.seen)
    });
    println!("alpha {stack}, over datagrams {udp}");
    // Inside s2n-quic a reduced window counts at once, without proportional rate reduction.
    assert!(udp > 0.0 && (stack - udp).abs() <= 0.05, "alpha {stack}, over datagrams {udp}");
}

/// Packets that were to leave a gap after the last, and by how much they came later; negative: earlier.
#[derive(Default)]
struct Gaps {
    last: Option<(Time, Nanos)>,
    errors: Vec<i64>,
}

impl Observer for Gaps {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let gap = match controller.pacing() {
            Pacing::Gap(gap) if gap != Nanos::MAX => Some(gap),
            _ => None,
        };
        match event {
            Event::Sent(sent, _) => {
                if let Some((at, gap)) = self.last {
                    self.errors.push((sent.now - at).as_nanos() as i64 - gap.as_nanos() as i64);
                }
                self.last = gap.map(|gap| (sent.now, gap));
            }
            _ if self.last.map(|(_, gap)| gap) != gap => self.last = None,
            _ => {}
        }
    }
}

#[test]
fn packets_of_a_chirp_leave_at_their_gaps_to_the_microsecond() {
    // A mark is a loss to CUBIC, and ends its start-up.
    for (spec, way) in [("cubic:start=chirp", Way::Constant(RATE)), ("dctcp:start=chirp", MARKING)] {
        let gaps: Arc<Mutex<Gaps>> = Arc::default();
        let inside = Arc::clone(&gaps);
        let factory = s2n().factory(spec).observed(move |_| Some(Box::new(Arc::clone(&inside))));
        run(factory, way, 1500);
        let mut errors = gaps.lock().unwrap().errors.clone();
        errors.sort_unstable();
        println!("{spec}: {} gaps, errors {:?} to {:?} ns", errors.len(), errors.first(), errors.last());
        assert!(errors.len() > 50, "{spec}: {} gaps", errors.len());
        let wrong: Vec<_> = errors.iter().filter(|error| !(0..=1000).contains(*error)).collect();
        assert!(wrong.len() * 100 <= errors.len(), "{spec}: {} of {}: {wrong:?}", wrong.len(), errors.len());
    }
}

#[test]
fn marks_and_chirps_replay_bit_by_bit() {
    replays(s2n(), "dctcp:start=chirp", MARKING);
}
