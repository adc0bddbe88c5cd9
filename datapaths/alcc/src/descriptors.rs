//! Where the descriptors of engines lie.
//!
//! In a program that knows nothing of us they are best kept out of its way: it may expect the lowest free number for what
//! it opens, or close numbers that it takes for unused.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

static DUPLICATE: OnceLock<fn(BorrowedFd<'_>) -> io::Result<OwnedFd>> = OnceLock::new();

/// From now on the descriptors of engines are those that `duplicate` makes of the kernel's, at numbers of its choice. Sockets
/// that engines are given are left where they are. Only the first call counts.
pub fn made_by(duplicate: fn(BorrowedFd<'_>) -> io::Result<OwnedFd>) {
    let _ = DUPLICATE.set(duplicate);
}

/// A duplicate, where it is out of the way.
pub(crate) fn duplicate(fd: &impl AsFd) -> io::Result<OwnedFd> {
    match DUPLICATE.get() {
        Some(duplicate) => duplicate(fd.as_fd()),
        None => fd.as_fd().try_clone_to_owned(),
    }
}

/// Moves a descriptor out of the way.
pub(crate) fn lift(fd: OwnedFd) -> io::Result<OwnedFd> {
    match DUPLICATE.get() {
        Some(duplicate) => duplicate(fd.as_fd()),
        None => Ok(fd),
    }
}

/// What `fd` means is closed, though another thread holds it still: from now on it means what `other` does.
#[expect(unsafe_code, reason = "the safe call wants the only holder")]
pub(crate) fn vacate(fd: &OwnedFd, other: &OwnedFd) {
    // SAFETY: both are open, and the number stays so, as its owner expects.
    let _ = unsafe { libc::dup3(other.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) };
}
