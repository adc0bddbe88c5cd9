//! Whether a thread is in this library's own code, where calls of the C library are not the application's.

use std::cell::Cell;
use std::mem;
use std::ptr;

use crate::next;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, hooks called by this thread pass. What the application sees of `errno` does not change.
pub(crate) struct Inside {
    before: bool,
    errno: i32,
}

impl Inside {
    pub(crate) fn enter() -> Self {
        Self { before: INSIDE.replace(true), errno: next::errno() }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
        next::set_errno(self.errno);
    }
}

/// Whether this thread is in our own code.
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Makes every call of this thread our own: for the engine's.
pub(crate) fn stay() {
    INSIDE.set(true);
}

/// While it lives, no signal handler of the application runs on this thread. For what holds locks and is called often: a
/// handler may end the program, which then waits for what is queued.
pub(crate) struct Undisturbed {
    before: libc::sigset_t,
}

impl Undisturbed {
    pub(crate) fn begin() -> Self {
        // SAFETY: all zeros are a value; the calls fill them in.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (mem::zeroed(), mem::zeroed()) };
        // SAFETY: both have room for one value.
        unsafe {
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        }
        Self { before }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        // SAFETY: the mask is the one from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}
