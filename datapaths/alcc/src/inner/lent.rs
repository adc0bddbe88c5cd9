//! A socket that is the program's: it may be closed unseen, have another number, or be another process's.

use std::sync::atomic::Ordering;

use super::{Inner, State};
use crate::held::{Given, Lent};
use crate::link::Program;

impl Inner {
    /// The program's number does not mean the socket any more: it was closed, by whatever call, and its connection has ended as the
    /// kernel ends it. Then the engine forgets it.
    pub(crate) fn is_lost(&self, state: &mut State) -> bool {
        if self.held.is_there() {
            return false;
        }
        state.flow.link.die();
        self.wake_waiting(state);
        self.forget(state);
        self.lost.store(true, Ordering::Release);
        true
    }

    /// The program is about to close its number, and has another.
    pub(crate) fn rename(&self, name: Lent) -> bool {
        // The next to advance it finds it whole.
        let _state = self.lock();
        let before = self.held.name();
        if !self.held.rename(name) {
            return false;
        }
        self.hear_by(before.as_deref(), self.held.name().as_deref());
        true
    }

    /// The program is about to close its last number: bytes that wait leave by the engine's own descriptor.
    pub(crate) fn unname(&self) {
        let held = self.held.own_number().map(|_| self.fd());
        self.hear_by(self.held.name().as_deref(), held.as_deref());
    }

    /// Events are heard by another descriptor than before. The kernel knows them by number.
    fn hear_by(&self, before: Option<&Given>, now: Option<&Given>) {
        let Some(events) = self.hears.filter(|_| !self.inline.load(Ordering::Acquire)) else { return };
        if let Some(before) = before {
            self.shared.hear_nothing(before);
        }
        if let Some(now) = now {
            // Without them the looks go on.
            let _ = self.shared.hear(self.id, now, events);
        }
    }

    /// The program writes to the kernel.
    pub(crate) fn watch(&self) {
        let mut state = self.lock();
        if !state.gone && !self.is_lost(&mut state) {
            state.flow.watch(&self.fd());
            self.advance(&mut state);
        }
    }

    /// Until the program writes again, the socket is as the program has it.
    pub(crate) fn let_go(&self) {
        let mut state = self.lock();
        if !state.gone && !self.is_lost(&mut state) {
            state.flow.let_go(&self.fd());
            self.watched.store(state.flow.is_watched(), Ordering::Release);
            self.advance(&mut state);
        }
    }

    /// The program's own options, of those that the engine uses.
    pub(crate) fn program(&self) -> Program {
        self.lock().flow.link.program
    }

    /// Changes them.
    pub(crate) fn set_program(&self, change: impl FnOnce(&mut Program)) {
        let mut state = self.lock();
        let mut program = state.flow.link.program;
        change(&mut program);
        if !state.gone && !self.is_lost(&mut state) {
            state.flow.set_program(&self.fd(), program);
        }
    }
}
