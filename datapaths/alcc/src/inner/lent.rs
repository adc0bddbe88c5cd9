//! A socket that is the program's: it may be closed unseen, have another number, or be another process's.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::{Inner, State};
use crate::flow::Flow;
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

    /// Steers the socket. A close that is not seen may meanwhile make the program's number another socket's: that keeps nothing of what
    /// was set, and this one is lost.
    pub(crate) fn steer(&self, state: &mut State, change: impl FnOnce(&mut Flow, &OwnedFd)) {
        let fd = self.fd();
        change(&mut state.flow, &fd);
        if self.is_lost(state) {
            state.flow.take_back(&fd);
        }
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

    /// Events are received by another descriptor than before. The kernel knows them by number.
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
            self.steer(&mut state, Flow::watch);
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

    /// Changes the program's own options, of those that the engine uses.
    pub(crate) fn set_program(&self, change: impl FnOnce(&mut Program)) {
        let mut state = self.lock();
        let mut program = state.flow.link.program;
        change(&mut program);
        if !state.gone && !self.is_lost(&mut state) {
            state.flow.set_program(&self.fd(), program);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::mem::ManuallyDrop;
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    use paceline_linux::sockopt::{MaxPacingRate, getsockopt};

    use super::*;
    use crate::descriptors::vacate;
    use crate::stamps::Reader;
    use crate::{Engine, Mode, Options};

    #[test]
    fn another_socket_at_the_programs_number_keeps_nothing_of_ours() {
        let controller = "fixed:window=2".parse().unwrap();
        let engine = Engine::start(Options { mode: Mode::Inline, controller, ..Options::default() }).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0);
        let ((ours, _peer), (mut other, _unread)) = (connect(), connect());
        other.set_nonblocking(true).unwrap();
        while !other.write(&[0; 1 << 16]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {}
        let other = OwnedFd::from(other);
        let rate = || getsockopt(&other, MaxPacingRate).unwrap();
        let own = rate();
        // It stays open: the number is the program's.
        let lent = Lent::new(ManuallyDrop::new(ours.into()));
        let inner = &engine.adopt_lent(lent, Mode::Inline).unwrap().inner;
        let mut state = inner.lock();
        inner.steer(&mut state, |flow, fd| {
            flow.watch(fd);
            // Later than its first look is due.
            thread::sleep(Duration::from_millis(50));
            vacate(fd, &other);
            flow.timer(fd, &mut Reader::new(), || true);
            assert_ne!(rate(), own, "the look was meant for the other");
        });
        assert_eq!(rate(), own);
        assert!(state.gone);
    }
}
