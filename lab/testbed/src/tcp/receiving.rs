//! The reading end of a configured kernel flow.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paceline_alcc::frame::{MAX_HEADER, Reader};
use paceline_cc::{Env, Nanos, Time};
use paceline_experiment::{Flow, Frames};

use super::Ledger;
use crate::race::{FlowError, contestant};
use paceline_linux::clock::{Clock, span, wait};
use paceline_linux::thread::cpu_time;
use rustix::event::{PollFd, PollFlags};

/// What one read takes at most.
pub(crate) const CHUNK: usize = 256 * 1024;
/// How often to look whether the run has failed elsewhere.
const LOOK: Nanos = Nanos::from_millis(100);

/// The receiver of a configured flow; its listener belongs to its namespace.
pub(crate) struct Receiving {
    pub(crate) flow: Flow,
    pub(crate) listener: TcpListener,
    /// Frames come, which this end acknowledges.
    pub(crate) framed: bool,
    pub(crate) clock: Clock,
    pub(crate) until: Time,
    pub(crate) ledger: Arc<Ledger>,
    /// Where it hands over frames.
    pub(crate) frames: Option<Frames>,
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

/// How a connection is read.
pub(crate) enum Reading {
    Plain(TcpStream),
    Framed(Box<Reader>),
}

impl Reading {
    /// Of a connection of this flow, which does not block; `framed`: frames come, which this end acknowledges.
    pub(crate) fn new(stream: TcpStream, flow: &Flow, framed: bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        if !framed {
            return Ok(Self::Plain(stream));
        }
        let env = Env::new(flow.mss.saturating_sub(MAX_HEADER as u32));
        let half = flow.controller.build_receiver(&env);
        Ok(Self::Framed(Box::new(Reader::new(stream.into(), half)?)))
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Framed(reader) => reader.try_read(buffer),
        }
    }

    /// When it wants to be read although nothing has come.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        match self {
            Self::Plain(_) => None,
            Self::Framed(reader) => reader.next_timeout(),
        }
    }
}

impl AsFd for Reading {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(stream) => stream.as_fd(),
            Self::Framed(reader) => reader.as_fd(),
        }
    }
}

/// A connection that was accepted.
struct Accepted {
    reading: Reading,
    /// The sender's port.
    port: u16,
    bytes: u64,
}

impl Receiving {
    /// Reads until the run ends.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(crate) fn run(self) -> Result<ReceivingOutcome, FlowError> {
        let failed = |source: io::Error| FlowError::Receiver { flow: contestant(&self.flow), source };
        self.listener.set_nonblocking(true).map_err(failed)?;
        let end = crate::workload::end(&self.flow, self.until);
        let mut outcome = ReceivingOutcome::default();
        let mut connections: Vec<Accepted> = Vec::new();
        let mut buffer = vec![0; CHUNK];
        while self.clock.now() < end && !self.abort.load(Ordering::Relaxed) {
            self.accept(&mut connections).map_err(failed)?;
            let mut broken = None;
            connections.retain_mut(|connection| {
                self.read(connection, &mut buffer, &mut outcome).unwrap_or_else(|error| {
                    broken = Some(error);
                    false
                })
            });
            if let Some(error) = broken {
                return Err(failed(error));
            }
            let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(connections.iter().map(|one| PollFd::from_borrowed_fd(one.reading.as_fd(), PollFlags::IN)));
            let left = span(end.since(self.clock.now()).min(LOOK));
            let left = connections.iter().filter_map(|one| one.reading.next_timeout()).fold(left, Duration::min);
            wait(&mut fds, Some(left)).map_err(failed)?;
        }
        outcome.cpu = cpu_time();
        Ok(outcome)
    }

    fn accept(&self, connections: &mut Vec<Accepted>) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    let reading = Reading::new(stream, &self.flow, self.framed)?;
                    connections.push(Accepted { reading, port: peer.port(), bytes: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // A connection that was gone before it was taken.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what has arrived; false when the connection is over. A peer that breaks the framing is an error.
    fn read(&self, connection: &mut Accepted, buffer: &mut [u8], outcome: &mut ReceivingOutcome) -> io::Result<bool> {
        loop {
            match connection.reading.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    connection.bytes += count as u64;
                    outcome.bytes_ready += count as u64;
                    if let Some(frames) = &self.frames {
                        frames.ready(self.clock.now(), connection.bytes);
                    }
                    self.note(connection, outcome);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => return Ok(false),
            }
        }
    }

    /// Notes that a flow has ended.
    fn note(&self, connection: &Accepted, outcome: &mut ReceivingOutcome) {
        let mut ledger = self.ledger.lock();
        let Some(entry) = ledger.get_mut(&connection.port) else { return };
        let Some(goal) = entry.goal.filter(|goal| connection.bytes >= *goal && !entry.delivered) else { return };
        entry.delivered = true;
        outcome.completed = self.clock.now();
        outcome.completions.push((goal, outcome.completed.since(entry.began)));
    }
}
