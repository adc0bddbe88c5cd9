//! What comes through the path while it runs: a line now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_cc::Nanos;
use paceline_emulator::meter::Meter;
use paceline_experiment::{Glance, Live};

use crate::complaint;

/// A meter, and what says something of it every so often.
pub(super) fn new(every: Option<Nanos>) -> (Meter, Rounds) {
    let meter = Meter::default();
    let live = meter.live();
    let every = every.map(|every| Duration::from_nanos(every.as_nanos()));
    (meter, Rounds { live, every, begun: Instant::now(), said: Duration::ZERO })
}

/// Lines while it runs.
pub(super) struct Rounds {
    live: Arc<[Live; 2]>,
    every: Option<Duration>,
    begun: Instant,
    /// Until when something has been said.
    said: Duration,
}

impl Rounds {
    /// Says something when it is time.
    pub(super) fn pass(&mut self) {
        let now = self.begun.elapsed();
        let Some(every) = self.every.filter(|every| now >= self.said + *every) else { return };
        let took = (now - self.said).as_secs_f64();
        let ways = [0, 1].map(|way| self.live[way].glance());
        let (from, to) = (self.said.as_secs_f64(), now.as_secs_f64());
        complaint::print(&format!(
            "{from:.1} - {to:.1} s  down {}; up {}",
            glance(&ways[0], took),
            glance(&ways[1], took)
        ));
        // A busy host skips rounds.
        self.said = if now >= self.said + 2 * every { now } else { self.said + every };
    }
}

fn glance(glance: &Glance, took: f64) -> String {
    let mbps = glance.bytes as f64 * 8e-6 / took.max(1e-9);
    let (mean, most) = (glance.queue.as_millis_f64(), glance.queue_most.as_millis_f64());
    format!("{mbps:.2} Mbit/s, queue {mean:.1} ms (at most {most:.1}), {} dropped", glance.dropped)
}
