//! What a forked child waits for: bytes that its parent had queued when it forked.
//!
//! The parent keeps its queues and sends them; a child that writes to one of these sockets must write after that. A pipe
//! joins the two: the parent says by a byte that its queues have been empty once. The end of the pipe without it means that the
//! parent has died, and what it had queued with it.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use paceline_alcc::Socket;

use crate::inside;
use crate::next;
use crate::own;

/// The child's side.
pub(crate) struct Pending {
    end: OwnedFd,
}

/// Made before a fork, for the sockets whose queues hold something.
pub(crate) struct Fork {
    sockets: Vec<Arc<Socket>>,
    read: OwnedFd,
    write: OwnedFd,
}

impl Fork {
    /// `None` if no queue holds anything.
    pub(crate) fn prepare(sockets: Vec<Arc<Socket>>) -> io::Result<Option<Self>> {
        if sockets.is_empty() {
            return Ok(None);
        }
        let mut ends = [0; 2];
        // SAFETY: room for two.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made them for us.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Ok(Some(Self { sockets, read: own::duplicate(read.as_fd())?, write: own::duplicate(write.as_fd())? }))
    }

    /// In the child.
    pub(crate) fn child(self) -> Arc<Pending> {
        std::mem::forget(self.sockets);
        Arc::new(Pending { end: self.read })
    }

    /// In the parent: a thread, since queues may take long to empty.
    pub(crate) fn parent(self, limit: Duration) {
        let Self { sockets, read, write } = self;
        drop(read);
        // Without a thread the child does not wait.
        inside::spawn("paceline-fork", move || {
            let mut whole = true;
            for socket in sockets {
                whole &= socket.drain(limit);
            }
            if whole {
                next::write(write.as_raw_fd(), [0_u8].as_ptr().cast(), 1);
            }
            drop(write);
        });
    }
}

impl Pending {
    /// Its descriptor.
    pub(crate) fn number(&self) -> c_int {
        self.end.as_raw_fd()
    }

    /// Waits until the parent has sent what it had queued; says whether it has.
    pub(crate) fn wait(&self) -> bool {
        loop {
            let mut set = libc::pollfd { fd: self.end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            match next::ppoll(&mut set, 1, ptr::null(), ptr::null()) {
                -1 if next::errno() == libc::EINTR => {}
                -1 => return false,
                // The byte stays, for other sockets that wait for the same.
                _ => return set.revents & libc::POLLIN != 0 && self.has_byte(),
            }
        }
    }

    /// Whether there is a byte.
    fn has_byte(&self) -> bool {
        let mut count: c_int = 0;
        next::ioctl(self.end.as_raw_fd(), libc::FIONREAD, (&raw mut count) as usize) == 0 && count > 0
    }
}
