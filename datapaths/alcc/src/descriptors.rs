//! Where the descriptors of engines lie.
//!
//! In a program that knows nothing of us they are best kept out of its way: it may expect the lowest free number for what
//! it opens, or close numbers that it takes for unused.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
