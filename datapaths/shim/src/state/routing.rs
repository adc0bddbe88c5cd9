//! What a descriptor means to a call, and where the bytes go that are written to it.

use std::ffi::c_int;
use std::sync::Arc;

use paceline_alcc::export::Settings;

use super::State;
use crate::ask;
use crate::conn::{Conn, Via};
use crate::inside::Inside;
use crate::set::Set;
use crate::stack;
use crate::table::Kind;

/// How a call that writes goes on.
pub(crate) enum Route {
    /// The kernel's function, as if we were not there.
    Kernel,
    /// The same, and the engine is informed.
    Inline(Arc<Conn>),
    /// Into the queue.
    Queue(Arc<Conn>),
}

impl State {
    /// The TCP socket behind a descriptor.
    pub(crate) fn tcp(&self, fd: c_int) -> Option<Arc<Conn>> {
        match self.table.get(fd) {
            Kind::Tcp(conn) => Some(conn),
            Kind::Unknown => self.classify(fd),
            Kind::Other | Kind::Own | Kind::Set(_) => None,
        }
    }

    fn classify(&self, fd: c_int) -> Option<Arc<Conn>> {
        let _inside = Inside::enter();
        if ask::is_tcp(fd)? {
            let conn = Conn::given(fd);
            self.table.set(fd, Kind::Tcp(conn.clone()));
            Some(conn)
        } else {
            self.table.set(fd, Kind::Other);
            None
        }
    }

    /// The socket if an engine cares for it, or will when it is written to.
    pub(crate) fn cared_for(&self, fd: c_int) -> Option<Arc<Conn>> {
        match self.table.get(fd) {
            Kind::Tcp(conn) if matches!(conn.via(), Via::Queue | Via::Inline) => Some(conn),
            _ => None,
        }
    }

    /// The socket if what the kernel reports of it is not what the application must see.
    pub(crate) fn watched(&self, fd: c_int) -> Option<Arc<Conn>> {
        match self.table.get(fd) {
            Kind::Tcp(conn) if conn.via() == Via::Queue || conn.is_stamped() => Some(conn),
            _ => None,
        }
    }

    /// How bytes written to a descriptor go: `count` by this call, [`usize::MAX`] where that is not known.
    pub(crate) fn route(&self, fd: c_int, count: impl Fn() -> usize) -> Route {
        loop {
            let Some(conn) = self.tcp(fd) else { return Route::Kernel };
            match conn.via() {
                // Without the guard, so that a signal handler that ends the program waits for what is queued.
                Via::Queue if conn.is(fd) && !conn.is_lost() => return Route::Queue(conn),
                Via::Queue => {
                    let _inside = Inside::enter();
                    self.lost(fd);
                }
                // Metrics and logs are to have every connection.
                Via::Undecided if self.config.settings == Settings::default() && conn.is_early(count()) => {
                    return Route::Kernel;
                }
                Via::Undecided => {
                    stack::apart(|| conn.adopt(self, fd));
                    if conn.via() == Via::Undecided {
                        return Route::Kernel;
                    }
                }
                Via::Inline => {
                    conn.writes();
                    if !conn.is_lost() {
                        return Route::Inline(conn);
                    }
                    let _inside = Inside::enter();
                    self.lost(fd);
                }
                Via::Kernel => return Route::Kernel,
            }
        }
    }

    /// The set of `epoll` behind a descriptor, made known when a socket is put into it.
    pub(crate) fn set(&self, fd: c_int, make: bool) -> Option<Arc<Set>> {
        match self.table.get(fd) {
            Kind::Set(set) => {
                set.is_at(fd);
                Some(set)
            }
            _ if make => {
                let set = Set::new(fd, self.config.queues());
                self.table.set(fd, Kind::Set(set.clone()));
                Some(set)
            }
            _ => None,
        }
    }

    /// A descriptor is new: what was known of its number is past.
    pub(crate) fn opened(&self, fd: c_int, kind: Kind) {
        if let Kind::Tcp(conn) = self.table.set(fd, kind) {
            conn.unname(self, fd);
        }
    }

    /// A descriptor no longer means what the table says: it was closed behind our back.
    fn lost(&self, fd: c_int) {
        self.opened(fd, Kind::Unknown);
    }

    /// A descriptor is about to be closed.
    pub(crate) fn closing(&self, fd: c_int) {
        match self.table.take(fd) {
            Kind::Tcp(conn) => conn.unname(self, fd),
            Kind::Own => {
                // The application cannot close what it does not know.
                self.table.set(fd, Kind::Own);
            }
            Kind::Set(set) if set.fd() == fd => {
                let others = self.table.known(0, c_int::MAX).into_iter();
                let same = |kind: &Kind| matches!(kind, Kind::Set(other) if Arc::ptr_eq(other, &set));
                if let Some((other, _)) = others.into_iter().find(|(_, kind)| same(kind)) {
                    set.is_at(other);
                }
            }
            Kind::Unknown | Kind::Other | Kind::Set(_) => {}
        }
    }

    /// A descriptor was duplicated.
    pub(crate) fn duplicated(&self, from: c_int, to: c_int) {
        let _inside = Inside::enter();
        let kind = match self.tcp(from) {
            Some(conn) => {
                conn.named_again(to);
                Kind::Tcp(conn)
            }
            None => match self.table.get(from) {
                Kind::Own => Kind::Unknown,
                kind => kind,
            },
        };
        self.opened(to, kind);
    }
}
