//! Whether a thread is in this library's own code, where calls of the C library are not the application's.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use dlmalloc::GlobalDlmalloc;
use paceline_alcc::threads;

use crate::end;
use crate::next;
use crate::sandbox;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The thread has a table of descriptors of its own.
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// Kernel numbers of our own threads. More than there are kinds of them (our choice); one that finds no place is taken for
/// the application's.
static OWN: [AtomicI32; 16] = [const { AtomicI32::new(0) }; 16];
/// How many of our own threads were started; some may not have come to [`stay`] yet.
static STARTED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    /// POSIX's, which the libc crate does not have for Linux.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc's and musl's pthread.h.
const CANCEL_DISABLE: c_int = 1;

/// While it lives, hooks called by this thread pass, no handler of the application runs, and the thread is not cancelled: a handler that
/// writes finds all of ours whole, and none of it can be unwound or left by a jump. What the application sees of `errno` does
/// not change.
pub(crate) struct Inside {
    before: bool,
    errno: i32,
    mask: Option<libc::sigset_t>,
    /// Whether the thread might be cancelled before.
    cancel: Option<c_int>,
}

impl Inside {
    pub(crate) fn enter() -> Self {
        let errno = next::errno();
        let outermost = !INSIDE.get();
        // Before the flag is set: a handler that runs in between is outside.
        let mask = outermost.then(block);
        let cancel = outermost.then(|| set_cancel(CANCEL_DISABLE));
        Self { before: INSIDE.replace(true), errno, mask, cancel }
    }
}

/// Answers what it was before.
fn set_cancel(state: c_int) -> c_int {
    let mut before = state;
    // SAFETY: room for one value.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

impl Inside {
    /// Lets signals through whose action is to end the process, by default or by ours: for waits that may be long.
    pub(crate) fn let_end(&self) {
        let Some(before) = &self.mask else { return };
        // SAFETY: all zeros are the empty set; the calls change nothing but it and this thread's mask.
        unsafe {
            let mut through: libc::sigset_t = mem::zeroed();
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGALRM] {
                if libc::sigismember(before, signal) == 0 && end::ends_process(signal) {
                    libc::sigaddset(&mut through, signal);
                }
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &through, ptr::null_mut());
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
        next::set_errno(self.errno);
        if let Some(before) = self.cancel {
            set_cancel(before);
        }
        if let Some(mask) = &self.mask {
            restore(mask);
        }
    }
}

/// The memory of this library: apart from the program's, since a signal handler may write to a connection while its thread is in
/// `malloc`; and no handler runs while its lock is held.
pub(crate) struct Allocator;

/// While memory is asked for outside of our guarded code.
fn guarded() -> Option<Inside> {
    (!INSIDE.get()).then(Inside::enter)
}

// SAFETY: all is left to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _guard = guarded();
        // SAFETY: the caller's promise.
        unsafe { GlobalDlmalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let _guard = guarded();
        // SAFETY: the caller's promise.
        unsafe { GlobalDlmalloc.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _guard = guarded();
        // SAFETY: the caller's promise.
        unsafe { GlobalDlmalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _guard = guarded();
        // SAFETY: the caller's promise.
        unsafe { GlobalDlmalloc.realloc(block, layout, size) }
    }
}

/// Whether this thread is in our own code.
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Makes every call of this thread our own: for the engine's.
pub(crate) fn stay() {
    INSIDE.set(true);
    let number = thread_number();
    for place in &OWN {
        if place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            break;
        }
    }
}

/// As [`stay`], for a thread that opens and closes descriptors while the program runs: it gets a table of its own, so that these
/// never have numbers that the program counts on, and the program closes none of them. Of the program's and of other threads of ours it
/// keeps none open: a connection that it held would never end.
pub(crate) fn stay_apart() {
    stay();
    // SAFETY: the calls concern descriptors of this thread alone once it has its own table.
    let apart = unsafe {
        sandbox::may_be_apart()
            && libc::syscall(libc::SYS_unshare, libc::CLONE_FILES) == 0
            && libc::syscall(libc::SYS_close_range, 0, c_uint::MAX, 0) == 0
    };
    APART.set(apart);
}

/// Whether the descriptors of this thread are not the program's.
pub(crate) fn is_apart() -> bool {
    APART.get()
}

/// Makes the calls of a thread that was ours the application's.
pub(crate) fn leave() {
    INSIDE.set(false);
}

/// Starts a thread of our own. It receives no signals.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let mask = block();
    // Without a thread the work is not done: no thread could wait for it.
    let spawned = threads::builder(name).spawn(move || {
        stay();
        work();
    });
    started(spawned.is_ok().into());
    restore(&mask);
}

/// This many threads of our own were started, which come to [`stay`].
pub(crate) fn started(count: usize) {
    STARTED.fetch_add(count, Ordering::Relaxed);
}

/// Waits until all of them have come, for a second at most (our choice: they do so first).
fn await_stay() {
    let have_come = || {
        let come = OWN.iter().filter(|place| place.load(Ordering::Relaxed) != 0).count();
        come >= STARTED.load(Ordering::Relaxed).min(OWN.len())
    };
    for _ in 0..1000 {
        if have_come() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a thread of this process, by its kernel number, is ours.
pub(crate) fn is_own(thread: i32) -> bool {
    OWN.iter().any(|place| place.load(Ordering::Relaxed) == thread)
}

/// The kernel's numbers of the program's threads; `None` where it does not list them.
pub(crate) fn program_threads() -> Option<impl Iterator<Item = c_int>> {
    await_stay();
    let list = std::fs::read_dir("/proc/self/task").ok()?;
    let threads = list.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(threads.filter(|&thread| !is_own(thread)))
}

/// Whether another thread, or process, has this thread's descriptors, not copies of them: what one closes is closed for both.
pub(crate) fn shares_descriptors(other: libc::pid_t) -> bool {
    /// Linux `linux/kcmp.h`.
    const KCMP_FILES: c_int = 2;
    // SAFETY: compares, changes nothing. Where it is refused they are taken for copies, as nearly always between processes.
    unsafe { libc::syscall(libc::SYS_kcmp, thread_number(), other, KCMP_FILES, 0, 0) == 0 }
}

/// Whether other threads of the program have this thread's descriptors.
pub(crate) fn is_table_shared() -> bool {
    program_threads()
        .is_some_and(|mut threads| threads.any(|thread| thread != thread_number() && shares_descriptors(thread)))
}

/// Waits until our threads have ended, for a second at most (our choice: they have nothing left to do).
pub(crate) fn await_threads() {
    await_stay();
    let runs = |place: &AtomicI32| {
        let number = place.load(Ordering::Relaxed);
        number != 0 && Path::new(&format!("/proc/self/task/{number}")).exists()
    };
    for _ in 0..1000 {
        if !OWN.iter().any(runs) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// In a forked child: none of our threads is there.
pub(crate) fn forget_threads() {
    OWN.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    STARTED.store(0, Ordering::Relaxed);
}

/// The kernel's number of this thread.
pub(crate) fn thread_number() -> i32 {
    // SAFETY: always succeeds.
    unsafe { libc::gettid() }
}

/// Blocks all signals but those that the thread's own instructions raise: these would end the program.
fn block() -> libc::sigset_t {
    // SAFETY: all zeros are a value; the calls fill them in.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (mem::zeroed(), mem::zeroed()) };
    // SAFETY: both have room for one value.
    unsafe {
        libc::sigfillset(&mut all);
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT]
        {
            libc::sigdelset(&mut all, own);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    before
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: the mask is the one from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}
