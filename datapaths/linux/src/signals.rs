//! Signals of a process, taken by a descriptor instead of a handler: nothing runs in the middle of something else.
//!
//! What takes them blocks them first, in the thread that asks and in those that it starts later: they wait to be read, and
//! do nothing of their own accord. A program that is started inherits that; see [`release`].
//!
//! Source: signalfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::signal::{self, SigSet, SigmaskHow};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use crate::clock;

/// Signals that are read here.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which.
    pub signal: Signal,
    /// A process sent it; those of the terminal come from the kernel.
    pub by_process: bool,
}

impl Signals {
    /// Takes `signals` from now on. To be called before any thread is started.
    ///
    /// # Errors
    /// What the system says.
    pub fn take(signals: &[Signal]) -> io::Result<Self> {
        let set = set_of(signals);
        set.thread_block()?;
        Ok(Self(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits for a signal.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> io::Result<Taken> {
        loop {
            if let Some(taken) = self.next()? {
                return Ok(taken);
            }
            clock::wait(&mut [PollFd::new(&self.0, PollFlags::IN)], None)?;
        }
    }

    /// Signals that other processes sent since the last call.
    pub fn sent(&self) -> Vec<Signal> {
        let waiting = std::iter::from_fn(|| self.next().ok().flatten());
        waiting.filter(|taken| taken.by_process).map(|taken| taken.signal).collect()
    }

    /// Forgets those that wait.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear(&self) -> io::Result<()> {
        while self.next()?.is_some() {}
        Ok(())
    }

    fn next(&self) -> io::Result<Option<Taken>> {
        match self.0.read_signal() {
            Ok(info) => Ok(info.and_then(|info| {
                let signal = Signal::from_named_raw(info.ssi_signo.cast_signed())?;
                Some(Taken { signal, by_process: info.ssi_code <= 0 })
            })),
            Err(Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Gives up what [`Signals::take`] took, before another program takes the place of this one. Those that wait arrive now.
pub fn release(signals: &[Signal]) {
    // It is refused for no set of signals.
    let _ = set_of(signals).thread_unblock();
}

/// Gives up all signals, whatever was taken in this thread and in those that started it: what is started next begins as from a shell.
pub fn release_all() {
    // It is refused for no set of signals.
    let _ = SigSet::empty().thread_set_mask();
}

/// Ends every other process of a process namespace, of which this process is the first.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] where it is not the first: it would end the whole machine.
pub fn kill_others() -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    match signal::kill(Pid::from_raw(-1), signal::Signal::SIGKILL) {
        // There are no others.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Runs `start`, which starts threads: no signal reaches them, from their first moment on.
///
/// # Errors
/// What the system says.
pub fn kept_from<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let started = start();
    before.thread_set_mask()?;
    Ok(started)
}

fn set_of(signals: &[Signal]) -> SigSet {
    signals.iter().filter_map(|signal| signal::Signal::try_from(signal.as_raw()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_waits_until_it_is_read() {
        let signals = Signals::take(&[Signal::USR1, Signal::USR2]).unwrap();
        assert_eq!(signals.sent(), []);
        // It is for this thread alone.
        signal::raise(signal::Signal::SIGUSR1).unwrap();
        assert_eq!(signals.wait().unwrap(), Taken { signal: Signal::USR1, by_process: true });
        signal::raise(signal::Signal::SIGUSR2).unwrap();
        assert_eq!(signals.sent(), [Signal::USR2]);
        release(&[Signal::USR1]);
        let blocked = SigSet::thread_get_mask().unwrap();
        let is = [signal::Signal::SIGUSR1, signal::Signal::SIGUSR2].map(|signal| blocked.contains(signal));
        assert_eq!(is, [false, true]);
    }

    #[test]
    fn only_a_first_process_ends_all_others() {
        assert_eq!(kill_others().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_thread_is_kept_from_signals_and_the_one_that_starts_it_is_not() {
        let mask = || SigSet::thread_get_mask().unwrap();
        let before = mask();
        let thread = kept_from(|| std::thread::spawn(mask)).unwrap();
        assert!(thread.join().unwrap().contains(signal::Signal::SIGTERM));
        assert_eq!(mask(), before);
    }
}
