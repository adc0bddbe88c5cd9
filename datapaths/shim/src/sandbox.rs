//! A filter of system calls that was there before the program (seccomp(2): systemd's `SystemCallFilter=`, bubblewrap, minijail). It may end
//! a process at calls that the program never makes, and this library does.
//!
//! Nothing tells what a filter does but the call itself. So where there is one a child makes each of our calls first, with arguments that
//! do nothing: one at which it is ended is left out, or all is left to the kernel.

use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory;
use crate::next;

/// What this library does without a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    /// The thread that answers others shares the program's table of descriptors.
    Apart,
    /// Buffers are taken as they are.
    Checks,
    /// Nothing.
    Nothing,
}

/// A call by its number, with arguments by which nothing is changed but in the child that asks.
struct Call(c_long, [c_long; 5], Without);

const NONE: [c_long; 5] = [-1; 5];

/// Of this library, of `paceline_alcc` and of the C library's threads; without those that every program makes before it begins.
const CALLS: &[Call] = &[
    // First: a child that is ended leaves no core behind.
    Call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as c_long, 0, 0, 0, 0], Without::Nothing),
    Call(libc::SYS_unshare, [libc::CLONE_FILES as c_long, 0, 0, 0, 0], Without::Apart),
    Call(libc::SYS_close_range, [c_long::MAX, 0, 0, 0, 0], Without::Apart),
    Call(libc::SYS_process_vm_readv, [0; 5], Without::Checks),
    Call(libc::SYS_process_vm_writev, [0; 5], Without::Checks),
    Call(libc::SYS_clone3, [0; 5], Without::Nothing),
    Call(libc::SYS_clone, [libc::CLONE_THREAD as c_long, 0, 0, 0, 0], Without::Nothing),
    Call(libc::SYS_set_robust_list, [0; 5], Without::Nothing),
    Call(libc::SYS_rt_sigprocmask, NONE, Without::Nothing),
    Call(libc::SYS_rt_sigaction, NONE, Without::Nothing),
    Call(libc::SYS_sigaltstack, NONE, Without::Nothing),
    Call(libc::SYS_sched_yield, NONE, Without::Nothing),
    Call(libc::SYS_sched_getaffinity, NONE, Without::Nothing),
    Call(libc::SYS_futex, NONE, Without::Nothing),
    Call(libc::SYS_gettid, NONE, Without::Nothing),
    Call(libc::SYS_getpid, NONE, Without::Nothing),
    Call(libc::SYS_getuid, NONE, Without::Nothing),
    Call(libc::SYS_uname, NONE, Without::Nothing),
    Call(libc::SYS_getrandom, NONE, Without::Nothing),
    Call(libc::SYS_nanosleep, NONE, Without::Nothing),
    Call(libc::SYS_clock_nanosleep, NONE, Without::Nothing),
    Call(libc::SYS_clock_gettime, NONE, Without::Nothing),
    Call(libc::SYS_mmap, NONE, Without::Nothing),
    Call(libc::SYS_munmap, NONE, Without::Nothing),
    Call(libc::SYS_mprotect, NONE, Without::Nothing),
    Call(libc::SYS_madvise, NONE, Without::Nothing),
    Call(libc::SYS_epoll_create1, NONE, Without::Nothing),
    Call(libc::SYS_epoll_ctl, NONE, Without::Nothing),
    Call(libc::SYS_epoll_pwait, NONE, Without::Nothing),
    Call(libc::SYS_eventfd2, NONE, Without::Nothing),
    Call(libc::SYS_timerfd_create, NONE, Without::Nothing),
    Call(libc::SYS_timerfd_settime, NONE, Without::Nothing),
    Call(libc::SYS_ppoll, NONE, Without::Nothing),
    Call(libc::SYS_pipe2, NONE, Without::Nothing),
    Call(libc::SYS_fcntl, NONE, Without::Nothing),
    Call(libc::SYS_prlimit64, NONE, Without::Nothing),
    Call(libc::SYS_dup3, NONE, Without::Nothing),
    Call(libc::SYS_ioctl, NONE, Without::Nothing),
    Call(libc::SYS_lseek, NONE, Without::Nothing),
    Call(libc::SYS_pread64, NONE, Without::Nothing),
    Call(libc::SYS_fstat, NONE, Without::Nothing),
    Call(libc::SYS_statx, NONE, Without::Nothing),
    Call(libc::SYS_getdents64, NONE, Without::Nothing),
    Call(libc::SYS_readlinkat, NONE, Without::Nothing),
    Call(libc::SYS_mkdirat, NONE, Without::Nothing),
    Call(libc::SYS_unlinkat, NONE, Without::Nothing),
    Call(libc::SYS_renameat, NONE, Without::Nothing),
    Call(libc::SYS_socket, [libc::AF_UNIX as c_long, libc::SOCK_STREAM as c_long, 0, 0, 0], Without::Nothing),
    Call(libc::SYS_bind, NONE, Without::Nothing),
    Call(libc::SYS_listen, NONE, Without::Nothing),
    Call(libc::SYS_accept4, NONE, Without::Nothing),
    Call(libc::SYS_connect, NONE, Without::Nothing),
    Call(libc::SYS_shutdown, NONE, Without::Nothing),
    Call(libc::SYS_getsockname, NONE, Without::Nothing),
    Call(libc::SYS_getpeername, NONE, Without::Nothing),
    Call(libc::SYS_getsockopt, NONE, Without::Nothing),
    Call(libc::SYS_setsockopt, NONE, Without::Nothing),
    Call(libc::SYS_sendto, NONE, Without::Nothing),
    Call(libc::SYS_recvfrom, NONE, Without::Nothing),
    Call(libc::SYS_sendmsg, NONE, Without::Nothing),
    Call(libc::SYS_recvmsg, NONE, Without::Nothing),
];

/// A table of descriptors of its own is not to be had.
static TOGETHER: AtomicBool = AtomicBool::new(false);

/// Whether a thread of ours may leave the program's table of descriptors.
pub(crate) fn may_be_apart() -> bool {
    !TOGETHER.load(Ordering::Relaxed)
}

/// Before the program begins: whether this library can do its work under what filter there is.
pub(crate) fn leaves_room() -> bool {
    if !is_there() {
        return true;
    }
    let mut first = 0;
    while let Some(at) = ended_at(first) {
        match CALLS.get(at).map_or(Without::Nothing, |call| call.2) {
            Without::Nothing => return false,
            Without::Apart => TOGETHER.store(true, Ordering::Relaxed),
            Without::Checks => memory::refuse(),
        }
        first = at + 1;
    }
    true
}

/// Whether there is a filter, or `/proc` does not tell.
fn is_there() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return true };
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() != "0"))
}

/// A child makes the calls from the one numbered `first` on; answers at which it was ended.
fn ended_at(first: usize) -> Option<usize> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: asks for memory anywhere.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: aligned, and unmapped below.
    let reached = unsafe { &*page.cast::<AtomicUsize>() };
    // Without a signal for its parent, which may ignore its children and knows only those that it made. It has the effect of a fork.
    let child = next::syscall(libc::SYS_clone, 0, 0, 0, 0, 0, 0);
    if child == 0 {
        for (number, Call(call, [a, b, c, d, e], _)) in CALLS.iter().enumerate().skip(first) {
            reached.store(number, Ordering::Relaxed);
            // The kernel refuses the arguments, or they concern this child alone.
            next::syscall(*call, *a, *b, *c, *d, *e, 0);
        }
        next::syscall(libc::SYS_exit_group, 0, 0, 0, 0, 0, 0);
    }
    let mut status: c_int = 0;
    // SAFETY: room for one value.
    let waited =
        child > 0 && unsafe { libc::waitpid(child as libc::pid_t, &mut status, libc::__WALL) } == child as c_int;
    let ended = waited && libc::WIFSIGNALED(status);
    let at = reached.load(Ordering::Relaxed);
    // SAFETY: mapped above, and not used any more.
    unsafe { libc::munmap(page, 4096) };
    ended.then_some(at)
}
