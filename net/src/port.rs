//! Where packets of a network namespace come out and go in.

use std::io;
use std::os::fd::BorrowedFd;

use crate::clock::Clock;
use crate::frame::Frame;

mod offload;
pub mod packet;
pub mod tun;

pub use packet::PacketSocket;
pub use tun::Tun;

/// One end of an emulated path: IP packets that a namespace sends are read here, those written here are received there.
pub trait Port: Send {
    /// Becomes readable when packets wait.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes what waits, without blocking, and appends it to `frames`, each no longer than the wire carries. True when
    /// nothing was left behind.
    ///
    /// # Errors
    /// What the kernel says when the port is of no use any more.
    fn read(&mut self, clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool>;

    /// Hands over packets in their order, without blocking, and says how many the kernel refused (full, or interface
    /// down). `frames` stays as it is.
    ///
    /// # Errors
    /// What the kernel says when the port is of no use any more.
    fn write(&mut self, frames: &[Frame]) -> io::Result<u64>;

    /// Packets that the kernel dropped since the port was opened because they were not read in time.
    fn overflowed(&self) -> u64;
}

/// Whether an error says that a packet cannot pass now, rather than that the port is broken.
fn refusal(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let transient = [Errno::EAGAIN, Errno::EINTR, Errno::ENOBUFS, Errno::ENETDOWN, Errno::EIO, Errno::EMSGSIZE];
    error.raw_os_error().is_some_and(|code| transient.contains(&Errno::from_raw(code)))
}
