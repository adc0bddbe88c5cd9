//! A rate inside noq is one.

use std::sync::{Arc, Mutex};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Nanos, Pacing, Rate, Time};
use paceline_quic::MTU;

use crate::world::Way;
use crate::{STACKS, at};

/// How long a flow runs, in ms.
const LASTING: u64 = 20_000;
/// Over which a rate is one, in ms.
const SPAN: u64 = 100;

/// What the controller answered.
#[derive(Default)]
struct Answered {
    /// The rate from a moment on.
    rates: Vec<(Time, Rate)>,
    /// When the window stood in the way.
    full: Vec<Time>,
}

impl Observer for Answered {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let now = match event {
            Event::Sent(sent, _) => {
                if sent.in_flight + 2 * u64::from(MTU) > controller.window() {
                    self.full.push(sent.now);
                }
                sent.now
            }
            Event::Acked(ack) => ack.now,
            _ => return,
        };
        if let Pacing::Rate(rate) = controller.pacing() {
            self.rates.push((now, rate));
        }
    }
}

impl Answered {
    /// Bytes that the rates allow in a span.
    fn allowed(&self, from: Time, to: Time) -> f64 {
        let known = self.rates.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let mut steps = self.rates[known..].iter().take_while(|(at, _)| *at < to).peekable();
        let mut allowed = 0.0;
        while let Some((at, rate)) = steps.next() {
            let end = steps.peek().map_or(to, |(next, _)| *next).max(from);
            allowed += rate.as_bytes_per_sec() as f64 * (end - (*at).max(from)).as_secs_f64();
        }
        allowed
    }
}

fn leaves_at_the_answered_rate(way: Way, least: usize) {
    let noq = STACKS.iter().find(|tested| tested.named("noq")).unwrap();
    let answered: Arc<Mutex<Answered>> = Arc::default();
    let observer = Arc::clone(&answered);
    let factory = noq.factory("bbr").observed(move |_| Some(Box::new(Arc::clone(&observer))));
    let left = noq.run(factory, way, Nanos::from_millis(LASTING)).left;
    let most = left.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap();
    assert!(most <= 10, "{most} packets at once");

    let answered = answered.lock().unwrap();
    let mut judged = 0;
    let mut worst = 0.0_f64;
    for span in 10..LASTING / SPAN {
        let (from, to) = (at(span * SPAN), at((span + 1) * SPAN));
        if answered.full.iter().any(|at| *at + Nanos::from_millis(SPAN) >= from && *at < to) {
            continue;
        }
        let sent: u64 = left.iter().filter(|(at, _)| *at >= from && *at < to).map(|(_, bytes)| bytes).sum();
        let allowed = answered.allowed(from, to);
        // The packet at the edge.
        let off = ((sent as f64 - allowed).abs() - f64::from(MTU)).max(0.0) / allowed;
        assert!(off <= 0.03, "from {from}: {sent} bytes left, and {allowed} were allowed");
        worst = worst.max(off);
        judged += 1;
    }
    println!("{way:?}: at most {most} packets at once; {judged} spans of {SPAN} ms, {worst} off at most");
    assert!(judged > least, "only {judged} spans were limited by the rate alone");
}

#[test]
fn bbr_leaves_at_the_answered_rate_and_never_in_large_bursts() {
    leaves_at_the_answered_rate(Way::Constant(24), 100);
}

#[test]
fn bbr_leaves_at_the_answered_rate_on_a_cellular_path() {
    leaves_at_the_answered_rate(Way::Cellular(0), 30);
}
