//! Options of the kernel's that the engine uses for itself: the program's own values bound ours, and hold again afterwards.

use std::os::fd::OwnedFd;

use paceline_linux::sockopt::{MaxPacingRate, NotSentLowat, getsockopt, setsockopt};

/// What the program has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// `SO_MAX_PACING_RATE` in bytes a second; the largest number stands for no limit.
    pub(crate) pacing: u64,
    /// `TCP_NOTSENT_LOWAT` in bytes; zero leaves it to `net.ipv4.tcp_notsent_lowat`.
    pub(crate) not_sent: u32,
}

impl Default for Program {
    /// It has set nothing.
    fn default() -> Self {
        Self { pacing: u64::MAX, not_sent: 0 }
    }
}

impl Program {
    /// Before the engine sets any of it. A kernel that does not know an option has no limit.
    pub(crate) fn of(fd: &OwnedFd) -> Self {
        let none = Self::default();
        Self {
            pacing: getsockopt(fd, MaxPacingRate).unwrap_or(none.pacing),
            not_sent: getsockopt(fd, NotSentLowat).unwrap_or(none.not_sent),
        }
    }

    /// `TCP_NOTSENT_LOWAT` where the engine wants `ours`.
    pub(crate) fn not_sent(&self, ours: u64) -> u32 {
        let ours = u32::try_from(ours).unwrap_or(u32::MAX);
        if self.not_sent == 0 { ours } else { ours.min(self.not_sent) }
    }

    /// The engine lets go: the socket is as the program has it, for all who hold it.
    pub(crate) fn restore(&self, fd: &OwnedFd) {
        // Where one is refused, it was when it was set.
        let _ = setsockopt(fd, MaxPacingRate, &self.pacing);
        let _ = setsockopt(fd, NotSentLowat, &self.not_sent);
    }
}
