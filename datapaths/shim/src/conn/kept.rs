//! What the application set of a socket, and what it reads.

use std::ffi::c_int;

use crate::ask;

/// `struct linger`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Linger {
    pub(crate) on: c_int,
    pub(crate) seconds: c_int,
}

/// Options that the application set and we keep to ourselves, since the engine needs others on the socket: the first three while there
/// is a queue.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) linger: Linger,
    pub(crate) nodelay: c_int,
    pub(crate) cork: c_int,
    /// `SO_MAX_PACING_RATE`.
    pub(crate) pacing: u64,
    /// `TCP_NOTSENT_LOWAT`.
    pub(crate) not_sent: u32,
}

impl Default for Kept {
    /// Of a socket of which nothing was set.
    fn default() -> Self {
        Self { linger: Linger::default(), nodelay: 0, cork: 0, pacing: u64::MAX, not_sent: 0 }
    }
}

impl Linger {
    /// A close waits.
    pub(crate) fn waits(self) -> bool {
        self.on != 0 && self.seconds != 0
    }
}

/// Options that an engine uses for itself are the application's again.
pub(super) fn restore(fd: c_int, kept: &Kept) {
    ask::set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, kept.pacing);
    ask::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, kept.not_sent);
    if kept.linger.waits() {
        ask::set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, kept.linger);
    }
}
