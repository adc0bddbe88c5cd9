//! What comes through the path: while it runs, a line now and then, and at its end how long packets waited.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_cc::{Distribution, Nanos};
use paceline_emulator::emulator::{EmulatorReport, Passage, Tap};
use paceline_experiment::{Direction, Glance, Live};

use crate::complaint;

/// Counts in the emulator's thread.
pub(super) struct Meter {
    /// Down and up.
    live: Arc<[Live; 2]>,
    waited: Waited,
}

/// How long packets waited at the link, downwards and upwards.
pub(super) type Waited = [Distribution; 2];

/// Digits of its quantiles.
const DIGITS: u8 = 3;

fn index(passage: &Passage<'_>) -> usize {
    usize::from(passage.direction == Direction::Up)
}

impl Tap for Meter {
    fn left(&mut self, passage: &Passage<'_>) {
        let way = index(passage);
        self.live[way].arrived(passage.bytes.len() as u64, passage.delay.queue);
        self.waited[way].record(passage.delay.queue);
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        self.live[index(passage)].dropped();
    }
}

/// A meter, and what says something of it every so often.
pub(super) fn new(every: Option<Nanos>) -> (Meter, Rounds) {
    let live: Arc<[Live; 2]> = Arc::default();
    let meter = Meter { live: Arc::clone(&live), waited: [(); 2].map(|()| Distribution::new(DIGITS)) };
    let every = every.map(|every| Duration::from_nanos(every.as_nanos()));
    (meter, Rounds { live, every, begun: Instant::now(), said: Duration::ZERO })
}

/// Takes the meter's distributions out of a report.
pub(super) fn waited(report: &mut EmulatorReport) -> Waited {
    let meter = report.taps.pop().and_then(|tap| (tap as Box<dyn Any>).downcast::<Meter>().ok());
    meter.map_or_else(|| [(); 2].map(|()| Distribution::new(DIGITS)), |meter| meter.waited)
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
