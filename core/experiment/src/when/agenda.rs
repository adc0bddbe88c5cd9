//! What triggers have decided, until it is done.

use paceline_cc::{Nanos, Time};
use paceline_path::PathChange;

use super::{Change, Fired, When};

/// Who makes the changes of a [`When`].
pub trait Changer {
    /// It acts now.
    fn on_when(&mut self, when: &When);

    /// Makes a change, and answers what was in force; `None` where nothing takes it.
    fn apply(&mut self, change: &Change) -> Option<Change>;
}

/// The changes that are decided and have not been made, and what returns after those that have.
#[derive(Debug, Default)]
pub struct Agenda {
    pending: Vec<Pending>,
    /// Who changed what last, by key.
    owners: Vec<(Key, u64)>,
    acts: u64,
    fired: Vec<Fired>,
}

#[derive(Debug)]
struct Pending {
    at: Time,
    /// Number of the trigger.
    number: u32,
    act: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The changes of this trigger.
    Do(When),
    /// What was in force before them, by key.
    Return(Vec<(Key, Change)>),
}

/// What a change is of: of two changes of one key the later one stays.
#[derive(Clone, Copy, Debug, PartialEq)]
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

impl Agenda {
    /// This trigger acts because of that.
    pub fn decide(&mut self, fired: Fired, when: &When) {
        self.fired.push(fired);
        self.acts += 1;
        let (at, number) = (fired.at + when.delay, when.number);
        self.pending.push(Pending { at, number, act: self.acts, what: What::Do(when.clone()) });
    }

    /// When something is to be done; [`Time::NEVER`] where nothing is.
    #[inline]
    pub fn next(&self) -> Time {
        self.pending.iter().map(|pending| pending.at).min().unwrap_or(Time::NEVER)
    }

    /// Does what is due at `now`.
    pub fn act(&mut self, now: Time, world: &mut dyn Changer) {
        while let Some(Pending { number, act, what, .. }) = self.take_due(now) {
            match what {
                What::Do(when) => {
                    world.on_when(&when);
                    let before = when.set.iter().filter_map(|change| self.apply(change, act, world)).collect();
                    if let Some(lasts) = when.lasts {
                        let at = now + lasts.max(Nanos::from_nanos(1));
                        self.pending.push(Pending { at, number, act, what: What::Return(before) });
                    }
                }
                What::Return(before) => {
                    for (key, change) in before {
                        if self.owners.contains(&(key, act)) {
                            self.apply(&change, act, world);
                        }
                    }
                }
            }
        }
    }

    /// What has acted, in the order in which it was decided.
    pub fn fired(&self) -> &[Fired] {
        &self.fired
    }

    /// One change; answers what was in force.
    fn apply(&mut self, change: &Change, act: u64, world: &mut dyn Changer) -> Option<(Key, Change)> {
        let before = world.apply(change)?;
        let key = Key::of(&before);
        self.owners.retain(|(other, _)| *other != key);
        self.owners.push((key, act));
        Some((key, before))
    }

    /// Takes out what is to be done first of what is due.
    fn take_due(&mut self, now: Time) -> Option<Pending> {
        let due = self.pending.iter().enumerate().filter(|(_, pending)| pending.at <= now);
        let first = due.min_by_key(|(_, pending)| (pending.at, pending.number, pending.act))?.0;
        Some(self.pending.remove(first))
    }
}
