//! The reading end of a configured kernel flow.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use paceline_cc::{Nanos, Time};
use paceline_sim::Flow;

use super::Ledger;
use crate::clock::Clock;
use crate::udp::run::thread_cpu;

/// What one read takes at most.
const CHUNK: usize = 256 * 1024;
/// How often to look whether the run has failed elsewhere.
const LOOK: Nanos = Nanos::from_millis(100);

/// The receiver of a configured flow; its listener belongs to its namespace.
pub(crate) struct Receiving {
    pub(crate) flow: Flow,
    pub(crate) listener: TcpListener,
    pub(crate) clock: Clock,
    pub(crate) until: Time,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) abort: Arc<AtomicBool>,
}

/// What it leaves behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceivingOutcome {
    pub(crate) bytes_ready: u64,
    /// Flows that ended: their bytes, and how long they took.
    pub(crate) completions: Vec<(u64, Nanos)>,
    /// When the last of them ended.
    pub(crate) completed: Time,
    pub(crate) cpu: Nanos,
}

struct Connection {
    stream: TcpStream,
    /// The sender's port.
    port: u16,
    bytes: u64,
}

impl Receiving {
    /// Reads until the run ends.
    ///
    /// # Errors
    /// One line: what the kernel refused.
    pub(crate) fn run(self) -> Result<ReceivingOutcome, String> {
        let failed = |error: io::Error| format!("{}@tcp: receiver: {error}", self.flow.controller);
        self.listener.set_nonblocking(true).map_err(failed)?;
        let end = match self.flow.stop {
            Some(stop) if !matches!(self.flow.workload, paceline_sim::Workload::Poisson { .. }) => stop.min(self.until),
            _ => self.until,
        };
        let mut outcome = ReceivingOutcome::default();
        let mut connections: Vec<Connection> = Vec::new();
        let mut buffer = vec![0; CHUNK];
        while self.clock.now() < end && !self.abort.load(Ordering::Relaxed) {
            self.accept(&mut connections).map_err(failed)?;
            connections.retain_mut(|connection| self.read(connection, &mut buffer, &mut outcome));
            let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            fds.extend(connections.iter().map(|one| PollFd::new(one.stream.as_fd(), PollFlags::POLLIN)));
            let left = Duration::from_nanos(end.since(self.clock.now()).min(LOOK).as_nanos());
            match nix::poll::ppoll(&mut fds, Some(nix::sys::time::TimeSpec::from_duration(left)), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        outcome.cpu = thread_cpu();
        Ok(outcome)
    }

    fn accept(&self, connections: &mut Vec<Connection>) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    stream.set_nonblocking(true)?;
                    connections.push(Connection { stream, port: peer.port(), bytes: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // A connection that was gone before it was taken.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what has arrived; false when the connection is over.
    fn read(&self, connection: &mut Connection, buffer: &mut [u8], outcome: &mut ReceivingOutcome) -> bool {
        loop {
            match connection.stream.read(buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    connection.bytes += count as u64;
                    outcome.bytes_ready += count as u64;
                    self.note(connection, outcome);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Notes that a flow has ended.
    fn note(&self, connection: &Connection, outcome: &mut ReceivingOutcome) {
        let mut ledger = self.ledger.lock();
        let Some(entry) = ledger.get_mut(&connection.port) else { return };
        let Some(goal) = entry.goal.filter(|goal| connection.bytes >= *goal && !entry.delivered) else { return };
        entry.delivered = true;
        outcome.completed = self.clock.now();
        outcome.completions.push((goal, outcome.completed.since(entry.began)));
    }
}
