//! How an engine reaches a socket: by a descriptor of its own, or by the program's number for it.
//!
//! A connection ends when its last descriptor is closed. A duplicate that an engine holds would keep it open past the program's
//! own last one, however that was closed. So a preloaded library [lends](Lent) the program's number: the engine asks before it does
//! anything that the number still means this socket, and holds nothing. Only while bytes wait in a queue of ours is there a duplicate,
//! since they must be sent after the program's close; it goes with the last of them.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::{Nanos, Time};
use rustix::net::sockopt::socket_cookie;

use crate::clock;
use crate::descriptors::duplicate;

/// How often it is asked whether the program still has a socket whose bytes wait with us (our choice: what a peer waits longer
/// for an end that is not to come by itself).
const ASKED: Nanos = Nanos::from_millis(500);

/// The program's own descriptor of a socket, which it may close at any time, by whatever call.
pub struct Lent(ManuallyDrop<OwnedFd>);

impl Lent {
    /// A descriptor of the program's; it is never closed by this.
    pub fn new(fd: ManuallyDrop<OwnedFd>) -> Self {
        Self(fd)
    }
}

/// A socket that an engine is given.
pub(crate) enum Given {
    Own(OwnedFd),
    Lent(Lent),
}

impl Deref for Given {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        match self {
            Self::Own(fd) => fd,
            Self::Lent(lent) => &lent.0,
        }
    }
}

impl AsFd for Given {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

/// How an engine reaches a socket at present.
pub(crate) struct Held {
    /// The number that the kernel gives a socket, unique while the machine runs; `None` for one that is the engine's alone.
    cookie: Option<u64>,
    now: Mutex<Now>,
}

struct Now {
    fd: Arc<Given>,
    /// The program's number, while a duplicate stands in for it.
    name: Option<Arc<Given>>,
    asked: Time,
}

impl Held {
    /// As it is given.
    ///
    /// # Errors
    /// The kernel's: it says no cookie.
    pub(crate) fn new(given: Given) -> rustix::io::Result<Self> {
        let cookie = match &given {
            Given::Own(_) => None,
            Given::Lent(lent) => Some(socket_cookie(&*lent.0)?),
        };
        Ok(Self { cookie, now: Mutex::new(Now { fd: Arc::new(given), name: None, asked: Time::ZERO }) })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor of the socket, while [`Held::is_there`].
    pub(crate) fn fd(&self) -> Arc<Given> {
        self.now().fd.clone()
    }

    /// The program's number, if it still means this socket.
    pub(crate) fn name(&self) -> Option<Arc<Given>> {
        let now = self.now();
        let name = now.name.as_ref().unwrap_or(&now.fd).clone();
        drop(now);
        (self.is_lent() && self.means_it(&name)).then_some(name)
    }

    /// The number of a descriptor that the engine must close.
    pub(crate) fn own_number(&self) -> Option<RawFd> {
        match &*self.now().fd {
            Given::Own(fd) => Some(fd.as_raw_fd()),
            Given::Lent(_) => None,
        }
    }

    /// It belongs to the program, which may close it unseen.
    pub(crate) fn is_lent(&self) -> bool {
        self.cookie.is_some()
    }

    /// The descriptor means this socket.
    pub(crate) fn is_there(&self) -> bool {
        let fd = self.fd();
        matches!(*fd, Given::Own(_)) || self.means_it(&fd)
    }

    fn means_it(&self, fd: &Given) -> bool {
        socket_cookie(fd).ok() == self.cookie
    }

    /// The program has this number for it, if it has; says whether it has.
    pub(crate) fn rename(&self, name: Lent) -> bool {
        let name = Given::Lent(name);
        if !self.means_it(&name) {
            return false;
        }
        let mut now = self.now();
        match &*now.fd {
            Given::Own(_) => now.name = Some(Arc::new(name)),
            Given::Lent(_) => now.fd = Arc::new(name),
        }
        true
    }

    /// Bytes wait with us: from now on a duplicate reaches the socket. Without room for one the program's number goes on.
    pub(crate) fn hold(&self) {
        let mut now = self.now();
        if matches!(*now.fd, Given::Own(_)) {
            return;
        }
        let Ok(copy) = duplicate(&*now.fd).map(Given::Own) else { return };
        if self.means_it(&copy) {
            now.name = Some(std::mem::replace(&mut now.fd, Arc::new(copy)));
            now.asked = clock::now();
        }
    }

    /// No bytes wait with us any more.
    pub(crate) fn release(&self) {
        let mut now = self.now();
        if let Some(name) = now.name.take() {
            now.fd = name;
        }
    }

    /// While a duplicate is held: the program has no descriptor of the socket any more, as far as is known. Asked rarely.
    pub(crate) fn is_orphan(&self) -> bool {
        let mut now = self.now();
        let at = clock::now();
        if now.name.is_none() || at - now.asked < ASKED {
            return false;
        }
        now.asked = at;
        now.name.as_deref().is_some_and(|name| !self.means_it(name))
    }
}
