//! A tap that measures: what comes through, for a look while it runs, and how long packets waited, for the end.

use std::any::Any;
use std::sync::Arc;

use paceline_cc::Distribution;
use paceline_experiment::{DumbbellWay, Live};

use crate::emulator::{EmulatorReport, EmulatorTap, Passage};

/// Counts in the emulator's thread.
#[derive(Debug)]
pub struct Meter {
    /// Down and up, as in all that follows.
    live: Arc<[Live; 2]>,
    /// How long packets waited at the link.
    waited: [Distribution; 2],
}

/// Digits of the quantiles.
const DIGITS: u8 = 3;

fn index(passage: &Passage<'_>) -> usize {
    usize::from(passage.direction == DumbbellWay::Up)
}

impl EmulatorTap for Meter {
    fn left(&mut self, passage: &Passage<'_>) {
        let way = index(passage);
        self.live[way].arrived(passage.bytes.len() as u64, passage.delay.queue);
        self.waited[way].record(passage.delay.queue);
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        self.live[index(passage)].dropped();
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self { live: Arc::default(), waited: none() }
    }
}

impl Meter {
    /// What comes through, down and up.
    pub fn live(&self) -> Arc<[Live; 2]> {
        Arc::clone(&self.live)
    }

    /// Takes how long packets waited out of a report whose last tap is a meter; without one they are empty.
    pub fn waited(report: &mut EmulatorReport) -> [Distribution; 2] {
        let meter = report.taps.pop().and_then(|tap| (tap as Box<dyn Any>).downcast::<Self>().ok());
        meter.map_or_else(none, |meter| meter.waited)
    }
}

fn none() -> [Distribution; 2] {
    [(); 2].map(|()| Distribution::new(DIGITS))
}
