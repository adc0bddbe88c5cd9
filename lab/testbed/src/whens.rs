//! What controllers trigger: their states are seen in the threads of their flows, and paths are changed in the emulator's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Time};
use paceline_emulator::PathChanger;
use paceline_experiment::{Agenda, Change, Changer, Fired, Flow, Layer, Moment, SharedTap, Subject, Trigger, When};
use paceline_path::PathChange;
use rustix::event::{EventfdFlags, eventfd};

use crate::numbers::Numbers;

/// The triggers of a race.
pub(crate) struct Whens {
    watched: Vec<Watched>,
    board: Arc<Board>,
}

/// A flow whose controller is watched.
struct Watched {
    number: u32,
    layer: Layer,
    when: Vec<When>,
}

/// What the flows' threads tell the emulator's.
struct Board {
    agenda: Mutex<Agenda>,
    /// Rung when the agenda has something new.
    bell: OwnedFd,
}

impl Board {
    fn agenda(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, fired: Fired, when: &When) {
        self.agenda().decide(fired, when);
        // Only a full counter is refused, and that rings as well.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Whens {
    /// Those of these flows; `None` where no controller triggers anything.
    ///
    /// # Errors
    /// When the system gives no descriptor.
    pub(crate) fn new(flows: &[Flow]) -> io::Result<Option<Arc<Self>>> {
        let numbers = Numbers::new(flows);
        let watched = |(index, flow): (usize, &Flow)| {
            // The one that decides: above TCP the upper one.
            let layer = if flow.via.row().above { Layer::Above } else { Layer::Packets };
            Watched { number: numbers.first(index), layer, when: flow.when.clone() }
        };
        let watched: Vec<Watched> =
            flows.iter().enumerate().filter(|(_, flow)| !flow.when.is_empty()).map(watched).collect();
        if watched.is_empty() {
            return Ok(None);
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Some(Arc::new(Self { watched, board: Arc::new(Board { agenda: Mutex::default(), bell }) })))
    }

    /// Who watches this controller, where it triggers something.
    pub(crate) fn observer(&self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let found = self.watched.iter().find(|one| (one.number, one.layer) == (of.flow, of.layer))?;
        let triggers = found.when.iter().cloned().map(Trigger::new).collect();
        Some(Box::new(Watching { triggers, moment: of.moment, board: self.board.clone() }))
    }

    /// Who changes the paths, and says so to `tap`.
    pub(crate) fn changer(&self, tap: Option<SharedTap>) -> Box<dyn PathChanger> {
        Box::new(Changes { board: self.board.clone(), tap })
    }

    /// What has acted.
    pub(crate) fn fired(&self) -> Vec<Fired> {
        self.board.agenda().fired().to_vec()
    }
}

/// Looks at a controller after each of its events.
struct Watching {
    triggers: Vec<Trigger>,
    moment: Moment,
    board: Arc<Board>,
}

impl Observer for Watching {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let now = self.moment.in_world(event.now());
        for trigger in self.triggers.iter_mut().filter(|trigger| !trigger.is_spent()) {
            if let Some(fired) = trigger.see(now, controller) {
                self.board.decide(fired, trigger.when());
            }
        }
    }
}

struct Changes {
    board: Arc<Board>,
    tap: Option<SharedTap>,
}

impl PathChanger for Changes {
    fn next(&self) -> Time {
        self.board.agenda().next()
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.board.bell.as_fd()
    }

    fn change(&mut self, now: Time, make: &mut dyn FnMut(u32, PathChange) -> Option<PathChange>) {
        // An empty counter is refused: nothing is new.
        let _ = rustix::io::read(&self.board.bell, &mut [0; 8]);
        self.board.agenda().act(now, &mut Made { now, make, tap: self.tap.as_ref() });
    }
}

/// The world as it can be changed at one moment.
struct Made<'a> {
    now: Time,
    make: &'a mut dyn FnMut(u32, PathChange) -> Option<PathChange>,
    tap: Option<&'a SharedTap>,
}

impl Changer for Made<'_> {
    fn on_when(&mut self, when: &When) {
        if let Some(tap) = self.tap {
            tap.lock().unwrap_or_else(PoisonError::into_inner).on_when(self.now, when);
        }
    }

    fn apply(&mut self, change: &Change) -> Option<Change> {
        match change {
            Change::Path { hop, change } => Some(Change::Path { hop: *hop, change: (self.make)(*hop, *change)? }),
            // Refused before the race.
            Change::Application { .. } => None,
        }
    }
}
