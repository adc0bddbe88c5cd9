//! What a flow in real time leaves behind.

use paceline_cc::{Distribution, Nanos, Time};
use paceline_experiment::media::StreamOutcome;
use paceline_experiment::{ProgramOutcome, Recorder};
use paceline_transport::SenderStats;

/// What one configured flow leaves behind, over either datapath.
pub(super) struct Ended {
    pub(super) index: usize,
    pub(super) stats: Vec<SenderStats>,
    pub(super) rtt: Distribution,
    pub(super) bytes_ready: u64,
    pub(super) completions: Vec<(u64, Nanos)>,
    pub(super) end: Time,
    pub(super) cpu: Nanos,
    pub(super) frames: Vec<StreamOutcome>,
    /// Of a program that is not ours.
    pub(super) program: Option<ProgramOutcome>,
}

impl Ended {
    pub(super) fn record(&self, recorder: &mut Recorder) {
        recorder.rtts(self.index, &self.rtt);
        recorder.frames(self.index, self.frames.clone());
        for (bytes, took) in &self.completions {
            recorder.completed(self.index, *bytes, *took);
        }
        for (number, stats) in self.stats.iter().enumerate() {
            let ready = if number == 0 { self.bytes_ready } else { 0 };
            recorder.retired(self.index, self.end, stats, ready);
        }
    }
}
