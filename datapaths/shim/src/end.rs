//! The ends of a program, and of this library in it. What is queued leaves first, for as long as the other end takes it.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use crate::inside::{self, Inside};
use crate::next;
use crate::state;

/// How often it is looked whether the last thread of the program has ended. 20 ms (our choice: it is not noticed, and it costs
/// nothing measurable).
const LOOK: Duration = Duration::from_millis(20);

/// The program's main thread has ended by `pthread_exit`.
static MAIN_LEFT: AtomicBool = AtomicBool::new(false);
/// Kernel number of the thread that ends the program as soon as the queues are empty; 0 while none does.
static ENDING: AtomicI32 = AtomicI32::new(0);

/// Sends what is queued before the process ends. What is written later is sent at once.
pub(crate) fn finish() {
    let Some(state) = state::own() else { return };
    let inside = Inside::enter();
    inside.let_end();
    ENDING.store(inside::thread_number(), Ordering::Relaxed);
    if !state.ending.swap(true, Ordering::Relaxed) {
        state.sum_up();
    }
    state.finish();
    state.hide();
}

/// Where the program leaves `SIGTERM` at its default, it ends the program after what is queued has left. A second one ends it
/// at once.
pub(crate) fn drain_on_term() {
    if is_default(&disposition(libc::SIGTERM)) {
        set_disposition(libc::SIGTERM, &ours());
    }
}

/// What `SIGTERM` does while the program has it at its default and there are queues.
pub(crate) fn ours() -> libc::sigaction {
    // SAFETY: all zeros are a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = on_term as *const () as usize;
    // Deferred, a second one would wait for the queues as well.
    action.sa_flags = libc::SA_RESTART | libc::SA_NODEFER;
    action
}

/// Whether a handler, as `sigaction(2)` names it, is ours.
pub(crate) fn is_ours(handler: usize) -> bool {
    handler == on_term as *const () as usize
}

fn is_default(action: &libc::sigaction) -> bool {
    action.sa_sigaction == libc::SIG_DFL
}

/// Whether a signal ends the process without the program's doing.
pub(crate) fn ends_process(signal: c_int) -> bool {
    let action = disposition(signal);
    is_default(&action) || is_ours(action.sa_sigaction)
}

fn disposition(signal: c_int) -> libc::sigaction {
    // SAFETY: all zeros are a value; the call only writes to it.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    next::sigaction(signal, ptr::null(), &mut action);
    action
}

fn set_disposition(signal: c_int, action: &libc::sigaction) {
    next::sigaction(signal, action, ptr::null_mut());
}

extern "C" fn on_term(signal: c_int) {
    if ENDING.load(Ordering::Relaxed) == 0 {
        finish();
    }
    // SAFETY: all zeros are a value: the default.
    set_disposition(signal, &unsafe { mem::zeroed() });
    // SAFETY: plain system calls; the signal is blocked until the set says otherwise.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::kill(libc::getpid(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
    }
}

/// Without queues the process would be gone: threads that go on to write while another ends it stop here.
pub(crate) fn stop_others() {
    loop {
        let ending = ENDING.load(Ordering::Relaxed);
        if ending == 0 || ending == inside::thread_number() {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// In a forked child: it goes on.
pub(crate) fn goes_on() {
    ENDING.store(0, Ordering::Relaxed);
    MAIN_LEFT.store(false, Ordering::Relaxed);
}

/// The main thread ends by `pthread_exit`. The C library ends the process with its last thread, and ours never end.
pub(crate) fn main_leaves() {
    let Some(state) = state::own() else { return };
    // SAFETY: always succeeds.
    if unsafe { libc::gettid() == libc::getpid() } && !MAIN_LEFT.swap(true, Ordering::Relaxed) {
        let _inside = Inside::enter();
        if state.has_threads() {
            watch_threads();
        }
    }
}

/// Threads of ours have begun.
pub(crate) fn threads_began() {
    if MAIN_LEFT.load(Ordering::Relaxed) {
        watch_threads();
    }
}

/// Ends the process, as the C library does, when no thread but ours is left.
fn watch_threads() {
    inside::spawn("paceline-last", || {
        while program_has_threads() {
            thread::sleep(LOOK);
        }
        inside::leave();
        // SAFETY: what the C library does at the end of the last thread.
        unsafe { libc::exit(0) };
    });
}

fn program_has_threads() -> bool {
    // SAFETY: always succeeds. The main thread is listed until the process ends.
    inside::program_threads().is_none_or(|mut threads| threads.any(|thread| thread != unsafe { libc::getpid() }))
}
