//! A run's own trajectory: every acknowledgement and loss of one flow, as it happens or from an event log.

use std::io::BufRead;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::event_log::{LogError, Reader};
use paceline_cc::observe::{Answers, Event, Observer};
use paceline_cc::{Controller, Loss, Pacing, Phase as Repair, Timeout};
use paceline_experiment::{Layer, Subject, Tap};

use crate::pace::PaceMeter;
use crate::rules;
use crate::trajectory::{FlowPhase, Origin, Trajectory, TrajectoryPoint};
use crate::variables::{LOST, SENT};

/// Least seconds between two points without a change of phase (our choice: below every round trip here).
const SPACING: f64 = 0.001;

/// Watches the flow that starts first; give it to [`paceline_lab::run`] as a tap, then take [`FlowWatch::trajectory`].
pub struct FlowWatch {
    flow: u32,
    seen: Option<Arc<Mutex<Eye>>>,
    name: String,
    origin: Origin,
    variables: Vec<&'static str>,
}

impl FlowWatch {
    /// Of the flow with this number, counted in the order of starts from 0, in a run of this kind.
    pub fn new(name: &str, flow: u32, origin: Origin) -> Self {
        Self { flow, seen: None, name: name.to_owned(), origin, variables: Vec::new() }
    }

    /// With these variables of its controller, and a point for every event.
    #[must_use]
    pub fn with_variables(self, variables: Vec<&'static str>) -> Self {
        Self { variables, ..self }
    }

    /// What was seen; without points when the flow never started.
    pub fn trajectory(&self) -> Trajectory {
        let empty = || Trajectory::new(self.name.as_str(), self.origin, 1448.0);
        self.seen.as_ref().map_or_else(empty, |seen| {
            let mut eye = seen.lock().unwrap_or_else(PoisonError::into_inner);
            eye.finish(empty())
        })
    }
}

impl Tap for FlowWatch {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let top = if of.layer == Layer::Above { true } else { self.seen.is_none() };
        if of.flow != self.flow || !top {
            return None;
        }
        let mss = f64::from(of.env.mss.max(1));
        let eye = Arc::new(Mutex::new(Eye {
            wanted: self.variables.clone(),
            ..Eye::new(Trajectory::new(self.name.as_str(), self.origin, mss))
        }));
        self.seen = Some(Arc::clone(&eye));
        Some(Box::new(eye))
    }
}

/// The trajectory of a flow whose events were recorded (`paceline race --events`).
///
/// # Errors
/// [`LogError`] when it is not an event log, or is damaged or cut off.
pub fn read(name: &str, from: impl BufRead) -> Result<Trajectory, LogError> {
    let reader = Reader::new(name, from)?;
    let mss = f64::from(reader.header().env.mss.max(1));
    let mut eye = Eye::new(Trajectory::new(name, Origin::Events, mss));
    if reader.header().variables.is_some() {
        eye.wanted = rules::all().flat_map(|rule| rule.needs).copied().collect();
    }
    for line in reader {
        let line = line?;
        line.event.with(|event| eye.see(event, &line.answers));
        if let Some(variables) = &line.variables {
            let t = line.event.now().as_secs_f64() - eye.begun.unwrap_or_default();
            for &name in &eye.wanted {
                if let Some(value) = variables.get(name) {
                    eye.trajectory.note(name, t, value);
                }
            }
        }
    }
    let empty = Trajectory::new(name, Origin::Events, mss);
    Ok(eye.finish(empty))
}

#[derive(Debug)]
struct Eye {
    trajectory: Trajectory,
    begun: Option<f64>,
    /// What was last known.
    now: TrajectoryPoint,
    pace: PaceMeter,
    /// Variables that are noted.
    wanted: Vec<&'static str>,
    /// Packets declared lost so far.
    lost: usize,
}

impl Observer for Eye {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        self.see(event, &Answers::of(controller));
        if !self.wanted.is_empty() {
            self.note(event.now().as_secs_f64() - self.begun.unwrap_or_default(), controller);
        }
    }
}

impl Eye {
    fn new(trajectory: Trajectory) -> Self {
        let pace = PaceMeter::new(trajectory.mss as u32);
        Self { trajectory, begun: None, now: TrajectoryPoint::default(), pace, wanted: Vec::new(), lost: 0 }
    }

    /// What was seen; `then` is what it sees next.
    fn finish(&mut self, then: Trajectory) -> Trajectory {
        let pace = std::mem::replace(&mut self.pace, PaceMeter::new(then.mss as u32));
        Trajectory { paces: pace.finish(), ..std::mem::replace(&mut self.trajectory, then) }
    }

    /// The variables that have changed.
    fn note(&mut self, t: f64, controller: &dyn Controller) {
        let Self { trajectory, wanted, .. } = self;
        controller.describe(&mut |name, value| {
            if wanted.contains(&name) {
                trajectory.note(name, t, value);
            }
        });
    }

    /// `event` happened, and this is what the controller answers then.
    fn see(&mut self, event: &Event<'_>, answers: &Answers) {
        let mss = self.trajectory.mss;
        let at = event.now().as_secs_f64();
        let t = at - *self.begun.get_or_insert(at);
        self.pace.see(t, event, answers);
        self.trajectory.begun = at - t;
        match event {
            Event::Sent(sent, _) if self.wanted.contains(&SENT) => self.trajectory.note(SENT, t, sent.seq as f64 / mss),
            Event::Lost(Loss { packets, .. }) | Event::Timeout(Timeout { packets, .. })
                if self.wanted.contains(&LOST) =>
            {
                self.lost += packets.len();
                self.trajectory.note(LOST, t, self.lost as f64);
            }
            _ => {}
        }
        let before = self.now;
        let mut always = false;
        match event {
            Event::Acked(ack) => {
                self.now.in_flight = ack.in_flight as f64 / mss;
                self.now.delivered = ack.delivered as f64 / mss;
                self.now.rtt_ms = ack.rtt.map(paceline_cc::Nanos::as_millis_f64).or(self.now.rtt_ms);
                let repairing = matches!(ack.phase, Repair::Recovery | Repair::Loss);
                self.now.phase = if repairing { FlowPhase::Repairing } else { FlowPhase::Open };
            }
            Event::Lost(loss) => {
                self.now.in_flight = loss.in_flight as f64 / mss;
                self.now.phase = FlowPhase::Repairing;
                self.trajectory.losses.push(t);
                always = loss.new_episode;
            }
            Event::Timeout(timeout) => {
                self.now.in_flight = timeout.in_flight as f64 / mss;
                self.now.phase = FlowPhase::Repairing;
                self.trajectory.losses.push(t);
                always = true;
            }
            Event::Tick(_) | Event::Feedback { .. } | Event::Mss { .. } => {}
            _ => return,
        }
        if always {
            // The window that met the loss.
            self.trajectory.push(TrajectoryPoint { t, ..before });
        }
        self.now.t = t;
        self.now.window = answers.window as f64 / mss;
        self.now.pacing_mbps = match answers.pacing {
            Pacing::Rate(rate) => Some(rate.as_mbps()),
            Pacing::Free | Pacing::Gap(_) => None,
        };
        let last = self.trajectory.points.last().map_or(-1.0, |point| point.t);
        if always || !self.wanted.is_empty() || before.phase != self.now.phase || t - last >= SPACING {
            self.trajectory.push(self.now);
        }
    }
}
