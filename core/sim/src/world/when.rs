//! What controllers trigger: who is watched, what waits to change, and the changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Bytes, Controller, Time};
use paceline_experiment::{Agenda, Application, Change, Changer, Does, Fired, Flow, Layer, Trigger, When, Workload};

use super::World;
use crate::families::Pause;
use crate::timers::Target;

/// What never runs out: less is written by no application (our choice: half of what a number holds).
const ENDLESS: u64 = u64::MAX / 2;

/// The triggers of a world.
#[derive(Default)]
pub(super) struct Whens {
    /// In the order of their numbers.
    watched: Vec<Watched>,
    agenda: Agenda,
}

struct Watched {
    /// Index of the configured flow.
    flow: u32,
    trigger: Trigger,
    /// Its controller has had an event since it was looked at.
    stirred: Arc<AtomicBool>,
}

/// Notes that a controller has had an event.
struct Stir(Arc<AtomicBool>);

impl Observer for Stir {
    fn on_event(&mut self, _event: &Event<'_>, _controller: &dyn Controller) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Whens {
    pub(super) fn new(flows: &[Flow]) -> Self {
        let of = |(index, flow): (u32, &Flow)| {
            let stirred = Arc::new(AtomicBool::new(false));
            let watched = move |when| Watched { flow: index, trigger: Trigger::new(when), stirred: stirred.clone() };
            flow.when.clone().into_iter().map(watched)
        };
        let mut watched: Vec<Watched> = (0..).zip(flows).flat_map(of).collect();
        watched.sort_by_key(|one| one.trigger.when().number);
        Self { watched, ..Self::default() }
    }

    /// Who watches this one of a flow's controllers: the one that decides, above TCP the upper one.
    pub(super) fn observer(&self, index: u32, flow: &Flow, layer: Layer) -> Option<Box<dyn Observer>> {
        let decides = if flow.via.row().above { Layer::Above } else { Layer::Packets };
        let watched = self.watched.iter().find(|one| one.flow == index && layer == decides)?;
        Some(Box::new(Stir(watched.stirred.clone())))
    }

    /// When something that is decided is to be done.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.agenda.next()
    }

    /// What has acted.
    pub(super) fn fired(&self) -> &[Fired] {
        self.agenda.fired()
    }

    /// A controller that is watched has had an event.
    #[inline]
    pub(super) fn is_stirred(&self) -> bool {
        self.watched.iter().any(|one| one.stirred.load(Ordering::Relaxed))
    }
}

impl World<'_> {
    /// Looks at the controllers that have had events, as they are at the end of this moment.
    pub(super) fn look(&mut self) {
        let now = self.now;
        let stirred: Vec<bool> = self.whens.watched.iter().map(|one| one.stirred.load(Ordering::Relaxed)).collect();
        for (place, _) in stirred.iter().enumerate().filter(|(_, stirred)| **stirred) {
            let Watched { flow, trigger, stirred } = &mut self.whens.watched[place];
            stirred.store(false, Ordering::Relaxed);
            let number = self.families[*flow as usize].number;
            let Some(live) = number.and_then(|number| self.live.get(number)) else { continue };
            if trigger.is_spent() {
                continue;
            }
            if let Some(fired) = trigger.see(now, live.ends.steering().controller()) {
                self.whens.agenda.decide(fired, trigger.when());
            }
        }
        self.change();
    }

    /// Does what is due.
    pub(super) fn change(&mut self) {
        let mut agenda = std::mem::take(&mut self.whens.agenda);
        agenda.act(self.now, self);
        self.whens.agenda = agenda;
    }

    /// What the application of a running flow does from now on; answers what it did.
    fn set_application(&mut self, index: u32, does: &Does) -> Option<Does> {
        let now = self.now;
        let family = &mut self.families[index as usize];
        let number = family.number?;
        let live = self.live.get_mut(number)?;
        let before = if family.pause.is_some() { Does::Pause } else { Does::Write(family.flow.workload.clone()) };
        match does {
            Does::Pause if family.pause.is_some() => {}
            Does::Pause => {
                let unsent = live.ends.steering_mut().cut();
                family.pause = Some(Pause { unsent, wait: family.turn.since(now) });
                family.turn = Time::NEVER;
            }
            Does::Resume => {
                if let Some(Pause { unsent, wait }) = family.pause.take() {
                    live.ends.write(if unsent > ENDLESS { u64::MAX } else { unsent });
                    if family.application.is_some() {
                        family.turn = now + wait;
                        self.timers.set(family.turn, Target::Application(number));
                    }
                }
            }
            Does::Write(workload) if family.pause.is_some() && *workload == family.flow.workload => {
                return self.set_application(index, &Does::Resume).map(|_| before);
            }
            Does::Write(workload) => {
                let held = family.pause.take().map_or(0, |pause| pause.unsent);
                let unsent = live.ends.steering_mut().cut().saturating_add(held);
                if unsent <= ENDLESS {
                    live.ends.write(unsent);
                }
                live.goal = match (live.goal, workload) {
                    (Some(goal), Workload::Bytes(Bytes(bytes))) => Some(goal.saturating_add(*bytes)),
                    _ => None,
                };
                match workload {
                    Workload::Bulk => live.ends.write(u64::MAX),
                    Workload::Bytes(Bytes(bytes)) => live.ends.write(*bytes),
                    Workload::Rate(_) | Workload::OnOff(_) | Workload::Poisson(_) => {}
                    Workload::Media(_) | Workload::MediaRate(_) => {}
                }
                family.application = Application::new(workload, family.flow.mss, self.seed, index as usize);
                family.flow.workload = workload.clone();
                family.turn = if family.application.is_some() { now } else { Time::NEVER };
                self.timers.set(family.turn, Target::Application(number));
            }
        }
        self.release(number);
        Some(before)
    }
}

impl Changer for World<'_> {
    fn on_when(&mut self, when: &When) {
        if let Some(tap) = &mut self.tap {
            tap.on_when(self.now, when);
        }
    }

    fn apply(&mut self, change: &Change) -> Option<Change> {
        Some(match change {
            Change::Path { hop, change } => {
                Change::Path { hop: *hop, change: self.hops.change(*hop, self.now, *change)? }
            }
            Change::Application { flow, does } => {
                Change::Application { flow: *flow, does: self.set_application(*flow, does)? }
            }
        })
    }
}
