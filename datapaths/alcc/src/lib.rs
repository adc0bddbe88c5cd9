//! A congestion controller above an ordinary TCP socket, on Linux: no change to the peer, to the kernel or to the bytes on
//! the wire.
//!
//! Source: Zaki et al., "ALCC: Migrating Congestion Control to the Application Layer in Cellular Networks". An application
//! that hands TCP less than TCP would take controls what is in flight: the window in force is the smaller of the
//! controller's and TCP's. What differs from the paper: no kernel module (the socket's own error queue reports when bytes
//! were acknowledged), one thread for all sockets instead of three a socket, and offsets of 64 bits.
//!
//! [`Engine::start`] starts that thread, [`Engine::adopt`] gives it a connected socket, and [`Socket::send`] is how the
//! application writes from then on. Reading stays with the application.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

mod burst;
mod clock;
pub mod descriptors;
mod ends;
pub mod engine;
pub mod export;
pub mod figures;
pub mod filter;
mod flow;
pub mod frame;
mod framed;
mod group;
mod held;
mod here;
mod inline;
mod inner;
mod layer;
mod link;
pub mod options;
mod queue;
mod queued;
pub mod rtts;
mod shared;
pub mod socket;
mod stamps;
pub mod stats;
pub mod threads;
pub mod transfer;
mod writes;

pub use engine::{Engine, Observe};
pub use figures::SocketStats;
pub use held::Lent;
pub use here::acks_here;
pub use layer::{Framing, Layer};
pub use options::{Acks, Lower, Mode, OptionProblem, Options, OptionsError};
pub use rtts::Rtts;
pub use shared::Hooks;
pub use socket::Socket;
pub use stats::{LimitedBy, Totals};

/// The number of a system call's failure that an error of this crate stands for; `EIO` for others.
pub fn errno(error: &std::io::Error) -> i32 {
    use std::io::ErrorKind;
    error.raw_os_error().unwrap_or_else(|| match error.kind() {
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::Interrupted => libc::EINTR,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    })
}
