//! What controllers trigger: who is watched, what waits to change, and the changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Bytes, Controller, Nanos, Time};
use paceline_experiment::{Application, Change, Does, Fired, Flow, Layer, Trigger, Workload};
use paceline_path::PathChange;

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
    /// What is decided and has not been done.
    pending: Vec<Pending>,
    /// Who changed what last, by key.
    owners: Vec<(Key, u64)>,
    acts: u64,
    pub(super) fired: Vec<Fired>,
}

struct Watched {
    /// Index of the configured flow.
    flow: u32,
    trigger: Trigger,
    /// Its controller has had an event since it was looked at.
    stirred: Arc<AtomicBool>,
}

struct Pending {
    at: Time,
    /// Number of the trigger.
    number: u32,
    act: u64,
    what: What,
}

enum What {
    /// The changes of the trigger at this place.
    Do(usize),
    /// What was in force before them, by key.
    Return(Vec<(Key, Change)>),
}

/// What a change is of: of two changes of one key the later one stays.
#[derive(Clone, Copy, PartialEq)]
enum Key {
    Rate(u32),
    Delay(u32),
    Loss(u32),
    Reorder(u32),
    PolicerRate(u32),
    Outage(u32),
    Application(u32),
}

impl Key {
    fn of(change: &Change) -> Self {
        match change {
            Change::Application { flow, .. } => Self::Application(*flow),
            Change::Path { hop, change } => match change {
                PathChange::Rate(_) | PathChange::RateBy(_) => Self::Rate(*hop),
                PathChange::Delay(_) => Self::Delay(*hop),
                PathChange::Loss(_) => Self::Loss(*hop),
                PathChange::Reorder(_) => Self::Reorder(*hop),
                PathChange::PolicerRate(_) => Self::PolicerRate(*hop),
                PathChange::Outage(_) => Self::Outage(*hop),
            },
        }
    }
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
        if self.pending.is_empty() { Time::NEVER } else { self.first() }
    }

    fn first(&self) -> Time {
        self.pending.iter().map(|pending| pending.at).min().unwrap_or(Time::NEVER)
    }

    /// A controller that is watched has had an event.
    #[inline]
    pub(super) fn is_stirred(&self) -> bool {
        self.watched.iter().any(|one| one.stirred.load(Ordering::Relaxed))
    }

    /// Takes out what is to be done first of what is due.
    fn take_due(&mut self, now: Time) -> Option<Pending> {
        let due = self.pending.iter().enumerate().filter(|(_, pending)| pending.at <= now);
        let first = due.min_by_key(|(_, pending)| (pending.at, pending.number, pending.act))?.0;
        Some(self.pending.remove(first))
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
                let at = now + trigger.when().delay;
                self.whens.fired.push(fired);
                self.whens.acts += 1;
                let act = self.whens.acts;
                self.whens.pending.push(Pending { at, number: fired.when, act, what: What::Do(place) });
            }
        }
        self.change();
    }

    /// Does what is due.
    pub(super) fn change(&mut self) {
        while let Some(Pending { number, act, what, .. }) = self.whens.take_due(self.now) {
            match what {
                What::Do(place) => {
                    let when = self.whens.watched[place].trigger.when().clone();
                    if let Some(tap) = &mut self.tap {
                        tap.on_when(self.now, &when);
                    }
                    let before = when.set.iter().filter_map(|change| self.apply(change, act)).collect();
                    if let Some(lasts) = when.lasts {
                        let at = self.now + lasts.max(Nanos::from_nanos(1));
                        self.whens.pending.push(Pending { at, number, act, what: What::Return(before) });
                    }
                }
                What::Return(before) => {
                    for (key, change) in before {
                        if self.whens.owners.contains(&(key, act)) {
                            self.apply(&change, act);
                        }
                    }
                }
            }
        }
    }

    /// One change; answers what was in force.
    fn apply(&mut self, change: &Change, act: u64) -> Option<(Key, Change)> {
        let before = match change {
            Change::Path { hop, change } => {
                let before = self.hops.change(*hop, self.now, *change)?;
                Change::Path { hop: *hop, change: before }
            }
            Change::Application { flow, does } => {
                let before = self.set_application(*flow, does)?;
                Change::Application { flow: *flow, does: before }
            }
        };
        let key = Key::of(&before);
        self.whens.owners.retain(|(other, _)| *other != key);
        self.whens.owners.push((key, act));
        Some((key, before))
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
