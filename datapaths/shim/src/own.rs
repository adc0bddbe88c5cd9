//! Descriptors of our own: kept high, where programs do not look, and closed in forked children.
//!
//! Programs expect the lowest free number for what they open, close ranges of descriptors they know nothing of, and put
//! descriptors at numbers of their choice. So ours lie above the limit that the program started with, which is raised for
//! the purpose, or in the upper half where it cannot be.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::next;
use crate::state;
use crate::table::{Kind, Table};

static FLOOR: AtomicI32 = AtomicI32::new(0);
/// No more descriptors than the table has room for.
const MOST: u64 = 1 << 20;

/// The lowest number for a descriptor of ours. The first call raises the limit.
pub(crate) fn floor() -> c_int {
    let known = FLOOR.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: room for one value.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let (soft, hard) = (limit.rlim_cur.min(MOST), limit.rlim_max.min(MOST));
    let floor = if hard >= 2 * soft {
        let raised = libc::rlimit { rlim_cur: hard, rlim_max: limit.rlim_max };
        // SAFETY: reads one value.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0;
        if done { soft } else { soft / 2 }
    } else {
        soft / 2
    };
    let floor = c_int::try_from(floor).unwrap_or(c_int::MAX).max(3);
    FLOOR.store(floor, Ordering::Relaxed);
    floor
}

/// Marks what lies up there as ours, after an engine has begun.
pub(crate) fn mark(table: &Table) {
    let Ok(list) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = list.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<c_int>().ok());
    for fd in numbers.filter(|&fd| fd >= floor()).collect::<Vec<_>>() {
        if matches!(table.get(fd), Kind::Unknown) {
            table.set(fd, Kind::Own);
        }
    }
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
    duplicate(low.as_raw_fd())
}

/// A duplicate of ours.
pub(crate) fn duplicate(fd: c_int) -> io::Result<OwnedFd> {
    let copy = next::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor() as usize);
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(state) = state::any() {
        state.table.set(copy, Kind::Own);
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
