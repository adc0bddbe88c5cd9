//! Descriptors of our own: kept high, where programs do not look, and closed in forked children.
//!
//! Served inline, a program has none of ours. Queues need some, and programs expect the lowest free number for what they open, close
//! ranges of descriptors they know nothing of, and count on what `select` can hold. So ours lie above the soft limit, which the kernel
//! looks at only when a number is given out: it is raised for that moment. Where it cannot be, ours lie in the upper quarter below it, and leave half of that to the program.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::rlimit;

use crate::inside;
use crate::next;
use crate::state;
use crate::table::{Kind, NUMBERS};

/// Held while the limit is not what the program set.
static LIMIT: Mutex<()> = Mutex::new(());

thread_local! {
    /// Of the thread that forks.
    static FORKING: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A fork is about to be made: its child must find the program's limit, and no other thread waiting for it.
pub(crate) fn before_fork() {
    FORKING.set(Some(limit_is_the_programs()));
}

/// It was made, in either process.
pub(crate) fn after_fork() {
    FORKING.take();
}

/// While it lives, the limit of descriptors is the program's.
pub(crate) fn limit_is_the_programs() -> MutexGuard<'static, ()> {
    LIMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A duplicate, at a number of ours.
fn lift(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let _alone = limit_is_the_programs();
    let mut limit = rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: room for one value.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let set = |limit: &rlimit| next::setrlimit(libc::RLIMIT_NOFILE, limit) == 0;
    let soft = limit.rlim_cur.min(NUMBERS);
    let raised = rlimit { rlim_cur: limit.rlim_max, ..limit };
    let is_raised = limit.rlim_max.min(NUMBERS) > soft && set(&raised);
    let (least, end) = if is_raised { (soft, NUMBERS) } else { (soft - soft / 4, soft - soft / 8) };
    let copy = next::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least as usize);
    let error = io::Error::last_os_error();
    if is_raised {
        set(&limit);
    }
    if copy < 0 {
        return Err(error);
    }
    // SAFETY: the kernel has just made it for us.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    if copy.as_raw_fd() as u64 >= end {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok(copy)
}

/// An empty set of `epoll`.
pub(crate) fn set() -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor.
    let made = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    let low = unsafe { OwnedFd::from_raw_fd(made) };
    duplicate(low.as_fd())
}

/// A duplicate of ours, which the program cannot close.
pub(crate) fn duplicate(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    if inside::is_apart() {
        return fd.try_clone_to_owned();
    }
    let copy = lift(fd)?;
    if let Some(state) = state::any() {
        state.table.set(copy.as_raw_fd(), Kind::Own);
    }
    Ok(copy)
}
