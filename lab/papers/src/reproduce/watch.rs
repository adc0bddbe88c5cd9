//! When the start-ups of a run ended and why, and what was dropped: a tap for runs whose beginnings are looked at.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Nanos, Time};
use paceline_experiment::tap::{Fate, Layer, Moment, Subject};
use paceline_experiment::{SharedTap, Tap};
use paceline_path::DropReason;

/// What ended a start-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Packets had been lost by then.
    Loss,
    /// A mark.
    Mark,
    /// Its own decision.
    Decision,
}

/// The end of a start-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct End {
    /// Seconds from the start of the run.
    pub(super) at: f64,
    /// The window that it leaves, bytes.
    pub(super) window: u64,
    pub(super) exit: Exit,
}

/// What is known of a flow's beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// `None`: it had not ended.
    pub(super) end: Option<End>,
    /// Longest time without a packet that left, from the first loss to the end, seconds.
    pub(super) silence: f64,
}

/// A packet that was dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    /// Whose: flows count in the order in which they start.
    pub(super) flow: u32,
    /// Seconds from the start of the run.
    pub(super) at: f64,
    /// A queue had no room for it, or did not want it: not the medium.
    pub(super) congestion: bool,
}

/// What was seen of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// By flow, in the order in which they started.
    pub(super) beginnings: Vec<Beginning>,
    pub(super) drops: Vec<Dropped>,
}

/// Sees the flows of a run.
#[derive(Default)]
pub(super) struct Watch {
    flows: Vec<Arc<Mutex<Progress>>>,
    drops: Vec<Dropped>,
}

impl Watch {
    /// One that a run takes, and that is read afterwards.
    pub(super) fn shared() -> Arc<Mutex<Self>> {
        Arc::default()
    }

    /// As a run takes it.
    pub(super) fn tap(watch: &Arc<Mutex<Self>>) -> SharedTap {
        watch.clone()
    }

    /// What it saw.
    pub(super) fn seen(watch: &Mutex<Self>) -> Seen {
        let watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        let flow = |flow: &Arc<Mutex<Progress>>| flow.lock().unwrap_or_else(PoisonError::into_inner).beginning;
        Seen { beginnings: watch.flows.iter().map(flow).collect(), drops: watch.drops.clone() }
    }
}

impl Tap for Watch {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        if of.layer != Layer::Packets {
            return None;
        }
        let progress = Arc::new(Mutex::new(Progress::new(of.moment)));
        let at = of.flow as usize;
        self.flows.resize_with((at + 1).max(self.flows.len()), Arc::default);
        self.flows[at] = progress.clone();
        Some(Box::new(progress))
    }

    fn on_dropped(&mut self, flow: u32, fate: &Fate<'_>) {
        self.drops.push(Dropped { flow, at: fate.at.as_secs_f64(), congestion: fate.reason != DropReason::Lost });
    }
}

/// How far a flow's start-up is.
#[derive(Default)]
struct Progress {
    moment: Moment,
    beginning: Beginning,
    began: bool,
    lost: bool,
    left: Option<Time>,
}

impl Progress {
    fn new(moment: Moment) -> Self {
        Self { moment, ..Self::default() }
    }
}

impl Observer for Progress {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        if self.beginning.end.is_some() {
            return;
        }
        let mut marked = false;
        match event {
            Event::Sent(sent, _) => {
                let silent = self.left.replace(sent.now).map_or(Nanos::ZERO, |left| sent.now.since(left));
                if self.lost {
                    self.beginning.silence = self.beginning.silence.max(silent.as_secs_f64());
                }
            }
            Event::Lost(_) | Event::Timeout(_) => self.lost = true,
            Event::Acked(ack) => marked = ack.echo,
            _ => {}
        }
        if is_starting(controller) {
            self.began = true;
        } else if self.began {
            let exit = match (self.lost, marked) {
                (true, _) => Exit::Loss,
                (false, true) => Exit::Mark,
                (false, false) => Exit::Decision,
            };
            let at = self.moment.in_world(event.now()).as_secs_f64();
            self.beginning.end = Some(End { at, window: controller.permit().window, exit });
        }
    }
}

/// A window controller that is below its slow-start threshold, chirps or repairs what its start-up did, or a BBR that has not found the
/// bandwidth.
fn is_starting(controller: &dyn Controller) -> bool {
    let mut is = false;
    controller.describe(&mut |name, value| {
        is |= match name {
            "starting" | "chirping" | "repairs" => value == 1.0,
            "full_reached" => value == 0.0,
            _ => false,
        };
    });
    is
}
