//! Where the descriptors of engines lie.
//!
//! In a program that knows nothing of us they are best kept out of its way: it may expect the lowest free number for what
//! it opens, or close numbers that it takes for unused.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

static FLOOR: AtomicI32 = AtomicI32::new(0);

/// From now on the descriptors of engines and of what shows them to others have this number or a higher one. It must be
/// below the limit of open files; sockets are left where they are.
pub fn keep_above(floor: RawFd) {
    FLOOR.store(floor, Ordering::Relaxed);
}

/// Moves a descriptor up.
pub(crate) fn lift(fd: OwnedFd) -> io::Result<OwnedFd> {
    match FLOOR.load(Ordering::Relaxed) {
        floor if floor > 0 => Ok(rustix::io::fcntl_dupfd_cloexec(&fd, floor)?),
        _ => Ok(fd),
    }
}

/// What `fd` means is closed, though somebody may hold it for ever (a call that was left by a jump): from now on it means what `other`
/// does.
#[expect(unsafe_code, reason = "the safe call wants the only holder")]
pub(crate) fn vacate(fd: &OwnedFd, other: &OwnedFd) {
    // SAFETY: both are open, and the number stays so, as its owner expects.
    let _ = unsafe { libc::dup3(other.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) };
}
