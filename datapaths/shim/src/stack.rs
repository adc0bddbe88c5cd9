//! A stack of our own. A thread of the program may have little (16 kB are allowed, and fibers have less), and what is below it may be
//! another's: what takes more than a few kB is done here.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::inside::Inside;

/// What is done so takes a twentieth of it (our choice: it costs memory only as far as it is used).
const SIZE: usize = 512 << 10;
/// Below it, so that no more is ever taken. Linux's largest page.
const GUARD: usize = 64 << 10;

/// A stack, unmapped in the end.
struct Stack(*mut u8);

impl Stack {
    fn new() -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: asks for memory anywhere.
        let place = unsafe { libc::mmap(ptr::null_mut(), GUARD + SIZE, libc::PROT_NONE, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return None;
        }
        let stack = Self(place.cast());
        // SAFETY: within what was just mapped.
        let usable = unsafe { libc::mprotect(stack.0.add(GUARD).cast(), SIZE, libc::PROT_READ | libc::PROT_WRITE) };
        (usable == 0).then_some(stack)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and left by now.
        unsafe { libc::munmap(self.0.cast(), GUARD + SIZE) };
    }
}

/// Does `work` in our own code and, where there is memory for one, on a stack of our own.
pub(crate) fn apart<R>(work: impl FnOnce() -> R) -> R {
    let _inside = Inside::enter();
    match Stack::new() {
        // SAFETY: the memory above the guard is a stack and nothing else, no signal handler and no cancellation can leave it meanwhile,
        // and a panic ends the program.
        Some(stack) => unsafe { psm::on_stack(stack.0.add(GUARD), SIZE, work) },
        None => work(),
    }
}

/// Whether a signal handler runs, as far as the stack tells: what is below a frame without unwinding information is not seen. A
/// handler may have interrupted whatever takes a lock.
pub(crate) fn in_handler() -> bool {
    extern "C" fn look(frame: *mut c_void, found: *mut c_void) -> c_int {
        let mut interrupted = 0;
        // SAFETY: the unwinder's own frame, and room for one value.
        unsafe { _Unwind_GetIPInfo(frame, &mut interrupted) };
        if interrupted == 0 {
            return GO_ON;
        }
        // SAFETY: the flag below.
        unsafe { *found.cast::<bool>() = true };
        STOP
    }
    let mut found = false;
    // SAFETY: `look` keeps nothing of what it is given, and the flag outlives the call.
    unsafe { _Unwind_Backtrace(look, (&raw mut found).cast()) };
    found
}

/// `_URC_NO_REASON` and `_URC_END_OF_STACK` of the C++ ABI for Itanium, which all architectures share.
const GO_ON: c_int = 0;
const STOP: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(look: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    /// Says whether the frame was interrupted, which is so for the one that a handler returns to.
    fn _Unwind_GetIPInfo(frame: *mut c_void, interrupted: *mut c_int) -> usize;
}
