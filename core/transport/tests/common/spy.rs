//! A controller with a given window that writes down each call.

use std::sync::{Arc, Mutex, MutexGuard};

use paceline_cc::{
    Ack, Acked, BadFeedback, Controller, Ecn, Loss, Nanos, Nature, Pacing, Permit, Phase, RateSample, Recovery,
    Restart, Sent, Stamp, Time, Timeout,
};

use super::MSS;

/// What an acknowledgement said.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) now: Time,
    pub(crate) packets: Vec<Acked>,
    pub(crate) rate: Option<RateSample>,
    pub(crate) rtt: Option<Nanos>,
    pub(crate) srtt: Nanos,
    pub(crate) min_rtt: Nanos,
    pub(crate) in_flight: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) ce_bytes: u64,
    pub(crate) echo: bool,
    pub(crate) phase: Phase,
    pub(crate) window_limited: bool,
}

/// How the spy behaves, and its notes.
pub(crate) struct Notes {
    /// Window in packets, and the factor that a loss, a mark or a timeout multiplies it by.
    pub(crate) window: f64,
    pub(crate) beta: f64,
    pub(crate) recovery: Recovery,
    pub(crate) ecn: Ecn,
    /// The slow-start threshold in packets.
    pub(crate) threshold: u64,
    /// No mark is answered.
    pub(crate) holds: bool,
    pub(crate) heartbeat: Option<Nanos>,
    /// The answer after the n-th packet.
    pub(crate) pacing: fn(u64) -> Pacing,
    pub(crate) sent: Vec<Sent>,
    pub(crate) acks: Vec<Heard>,
    /// Time, packets, and whether it began an episode.
    pub(crate) losses: Vec<(Time, usize, bool)>,
    pub(crate) timeouts: Vec<(Time, u32)>,
    pub(crate) spurious: Vec<Time>,
    /// How long the flow was silent, and its retransmission timeout.
    pub(crate) restarts: Vec<(Nanos, Nanos)>,
    pub(crate) dry: usize,
    pub(crate) blobs: Vec<Vec<u8>>,
    pub(crate) before: f64,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            window: 20.0,
            beta: 1.0,
            recovery: Recovery::Prr,
            ecn: Ecn::Off,
            threshold: u64::MAX / MSS,
            holds: false,
            heartbeat: None,
            pacing: |_| Pacing::Free,
            sent: Vec::new(),
            acks: Vec::new(),
            losses: Vec::new(),
            timeouts: Vec::new(),
            spurious: Vec::new(),
            restarts: Vec::new(),
            dry: 0,
            blobs: Vec::new(),
            before: 0.0,
        }
    }
}

impl Notes {
    fn reduce(&mut self) {
        self.before = self.window;
        self.window = (self.window * self.beta).max(1.0);
    }
}

/// The controller's end and the test's end.
#[derive(Clone, Default)]
pub(crate) struct Spy(Arc<Mutex<Notes>>);

impl Spy {
    pub(crate) fn new(notes: Notes) -> Self {
        Self(Arc::new(Mutex::new(notes)))
    }

    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.try_lock().expect("the notes are not in use elsewhere")
    }

    pub(crate) fn controller(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Controller for Spy {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let mut notes = self.notes();
        notes.sent.push(*sent);
        let count = notes.sent.len() as u64;
        Stamp::new(count, count)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let mut notes = self.notes();
        if ack.echo && !notes.holds {
            notes.reduce();
        }
        notes.acks.push(Heard {
            now: ack.now,
            packets: ack.packets.to_vec(),
            rate: ack.rate,
            rtt: ack.rtt,
            srtt: ack.srtt,
            min_rtt: ack.min_rtt,
            in_flight: ack.in_flight,
            lost_bytes: ack.lost_bytes,
            ce_bytes: ack.ce_bytes,
            echo: ack.echo,
            phase: ack.phase,
            window_limited: ack.window_limited,
        });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let mut notes = self.notes();
        if loss.new_episode {
            notes.reduce();
        }
        notes.losses.push((loss.now, loss.packets.len(), loss.new_episode));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let mut notes = self.notes();
        if timeout.count == 1 {
            notes.reduce();
        }
        notes.timeouts.push((timeout.now, timeout.count));
    }

    fn on_spurious(&mut self, now: Time) {
        let mut notes = self.notes();
        notes.window = notes.before;
        notes.spurious.push(now);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.notes().restarts.push((restart.idle, restart.rto));
    }

    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {
        self.notes().dry += 1;
    }

    fn on_feedback(&mut self, _now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        if blob.is_empty() {
            return Err(BadFeedback::new(0, "empty"));
        }
        self.notes().blobs.push(blob.to_vec());
        Ok(())
    }

    fn nature(&self) -> Nature {
        let notes = self.notes();
        let mut nature = Nature::PLAIN;
        nature.ecn = notes.ecn;
        nature.heartbeat = notes.heartbeat;
        nature
    }

    fn permit(&self) -> Permit {
        let notes = self.notes();
        let mut permit = Permit::up_to((notes.window * MSS as f64) as u64);
        permit.pacing = (notes.pacing)(notes.sent.len() as u64);
        permit.threshold = notes.threshold * MSS;
        permit.recovery = notes.recovery;
        permit.holds_against_marks = notes.holds;
        permit
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.notes().window);
    }
}
