//! Where packets of a network namespace come out and go in.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use crate::frame::Frame;
use paceline_linux::clock::Clock;
use paceline_linux::namespace::Namespace;
use rustix::io::Errno;

mod offload;
pub mod packet;
pub mod tun;

pub use packet::PacketSocket;
pub use tun::Tun;

/// One end of an emulated path: IP packets that a namespace sends are read here, those written here are received there.
pub trait Port: Send {
    /// Becomes readable when packets wait.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes what waits, without blocking, and appends its packets to `frames`, each no longer than the wire carries. True
    /// when nothing was left behind.
    ///
    /// # Errors
    /// What the kernel says when the port is of no use any more.
    fn read(&mut self, clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool>;

    /// Sends packets that leave together, those of a flow in their order, without blocking, and says how many the kernel refused
    /// (full, or interface down). `frames` stays as it is.
    ///
    /// # Errors
    /// What the kernel says when the port is of no use any more.
    fn write(&mut self, frames: &[Frame]) -> io::Result<u64>;

    /// Packets that the kernel dropped at the port since it was opened, most likely because they were not read in time.
    fn overflowed(&self) -> u64;
}

/// What an interface's own counters say, wherever it is.
struct Interface {
    namespace: Namespace,
    name: String,
}

impl Interface {
    /// The interface `name` of the calling thread's namespace.
    fn here(name: &str) -> io::Result<Self> {
        let namespace = Namespace::current().map_err(io::Error::other)?;
        Ok(Self { namespace, name: name.to_owned() })
    }

    /// Packets that it dropped, both ways; none when it is gone.
    fn dropped(&self) -> u64 {
        let table = self.namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"));
        table.ok().and_then(Result::ok).map_or(0, |table| dropped(&table, &self.name))
    }
}

/// The sum of an interface's two columns "drop" in the text of `/proc/net/dev` (proc(5)).
fn dropped(table: &str, name: &str) -> u64 {
    let counters = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let numbers = counters.unwrap_or_default().split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
    numbers.enumerate().filter(|(column, _)| matches!(column, 3 | 11)).map(|(_, number)| number).sum()
}

/// Whether an error says that a packet cannot pass now, rather than that the port is broken.
fn refusal(error: &io::Error) -> bool {
    let transient = [Errno::AGAIN, Errno::INTR, Errno::NOBUFS, Errno::NETDOWN, Errno::IO, Errno::MSGSIZE];
    Errno::from_io_error(error).is_some_and(|errno| transient.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_kernels_table() {
        let table = "Inter-|   Receive            |  Transmit\n face |bytes    packets errs drop fifo frame \n\
            near1: 1 2 3 100 5 6 7 8 9 10 11 200 13 14 15 16\n  near: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dropped(table, "near"), 16);
        assert_eq!(dropped(table, "near1"), 300);
        assert_eq!(dropped(table, "far"), 0);
    }
}
