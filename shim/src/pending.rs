//! What a forked child waits for: bytes that its parent had queued when it forked.
//!
//! The parent keeps its queues and sends them; a child that writes to one of these sockets must write after that. A pipe
//! joins the two: the parent's end is closed when its queues have been empty once.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
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
        Ok(Some(Self { sockets, read: own::duplicate(read.as_raw_fd())?, write: own::duplicate(write.as_raw_fd())? }))
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
            for socket in sockets {
                socket.drain(limit);
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

    /// Waits until the parent has sent what it had queued, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut set = libc::pollfd { fd: self.end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        while next::ppoll(&mut set, 1, &limit, ptr::null()) < 0 && next::errno() == libc::EINTR {}
    }
}
