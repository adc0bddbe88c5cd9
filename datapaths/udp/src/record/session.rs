//! Both ends of a recording: the one that waits for it, and the one that asks for it and fetches what the other recorded.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::{Nanos, Rate};
use paceline_linux::clock::Clock;
use rustix::fs::{MemfdFlags, memfd_create};

use super::{EndRecording, RecordingSide, Terms, record};
use crate::seal::TAG;
use crate::transfer::{Content, ContentPlace, PlanError, TransferError, TransferPlan, give, take};
use crate::wire::control::{Hello, SessionJob};
use crate::{Accepted, Agreed, Channel, HandshakeError, Listener, Offload, SessionKey, Unanswered, connect};

/// Each packet has an arrival time of its own.
const OFFLOAD: Offload = Offload { send: true, receive: false };
/// Payload and controller of the transfer that brings the other direction's trace.
const FETCH: (u16, &str) = (1200, "cubic");
/// Recordings that a server keeps until they are fetched (our choice: they are some MB at most).
const KEPT: usize = 8;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no session.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The recording, or its transfer, did not come through.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Packets of no sensible size.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The system failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Asks `peer` for a recording on these terms, and takes part in it.
///
/// # Errors
/// [`RecordError`] when there is none.
pub fn ask(
    peer: SocketAddr,
    key: Option<&SessionKey>,
    terms: &Terms,
    patience: Nanos,
) -> Result<EndRecording, RecordError> {
    let hello = hello(SessionJob::Record, terms.text());
    let (channel, _) = connect(peer, key, hello, OFFLOAD, Clock::new(), patience)?;
    Ok(record(channel, terms, RecordingSide::Client, overhead(key), patience, &mut |_| {})?)
}

/// Brings the trace that `peer` recorded, which has so many bytes ([`EndRecording::other`]).
///
/// # Errors
/// [`RecordError`] when it does not come.
pub fn fetch(
    peer: SocketAddr,
    key: Option<&SessionKey>,
    terms: &Terms,
    bytes: u64,
    patience: Nanos,
) -> Result<Vec<u8>, RecordError> {
    let (clock, hello) = (Clock::new(), hello(SessionJob::Fetch, terms.name()));
    let plan = TransferPlan::of(&hello, patience)?;
    let (channel, _) = connect(peer, key, hello, OFFLOAD, clock, patience)?;
    let file = Arc::new(in_memory()?);
    let place = ContentPlace { file: Arc::clone(&file), bytes, keep: Box::new(|| Ok(())) };
    take(channel, clock, &plan, Some(place), Nanos::from_secs(1), &mut |_| {})?;
    let mut trace = vec![0; bytes as usize];
    file.read_exact_at(&mut trace, 0)?;
    Ok(trace)
}

/// Recordings of the direction to here that wait for being fetched: name and trace.
type Waiting = Arc<Mutex<VecDeque<(String, Vec<u8>)>>>;

/// What a session is about.
enum Work {
    /// A recording; the marker says that there is one.
    Record(Terms, Arc<()>),
    /// A trace that is fetched.
    Give(TransferPlan, Vec<u8>),
}

/// Waits for recordings, and takes part in one after the other.
pub struct RecordServer {
    listener: Listener,
    clock: Clock,
    most: Rate,
    patience: Nanos,
    /// What sealing adds to a packet.
    overhead: usize,
    waiting: Waiting,
    recording: Arc<()>,
}

impl RecordServer {
    /// Listens at `address`, for recordings at `most` or less. A session ends when its client has been silent for `patience`.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind(
        address: SocketAddr,
        key: Option<SessionKey>,
        most: Rate,
        patience: Nanos,
    ) -> Result<Self, HandshakeError> {
        let (clock, overhead) = (Clock::new(), overhead(key.as_ref()));
        let listener = Listener::bind(address, key, OFFLOAD, clock)?;
        Ok(Self { listener, clock, most, patience, overhead, waiting: Waiting::default(), recording: Arc::new(()) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Answers every client for `time`, or until one has asked: the sessions that were agreed to, each for a thread to run, and clients that
    /// this host could not answer.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept(&mut self, time: Nanos) -> Result<Vec<Result<RecordSession, Unanswered>>, HandshakeError> {
        let Self { listener, clock, most, patience, overhead, waiting, recording } = self;
        let (overhead, patience) = (*overhead, *patience);
        let decide = |_: SocketAddr, hello: &Hello| {
            let ready = agree(hello, *most, waiting, recording, patience)?;
            let bytes = if let Work::Give(_, trace) = &ready { Some(trace.len() as u64) } else { None };
            Ok(Agreed { bytes, ready })
        };
        let accepted = listener.accept(clock.now() + time, decide)?;
        let session = |Accepted { channel, ready, .. }: Accepted<Work>| {
            let waiting = Arc::clone(waiting);
            RecordSession { channel, work: ready, waiting, overhead, patience }
        };
        Ok(accepted.into_iter().map(|accepted| accepted.map(session)).collect())
    }
}

fn agree(hello: &Hello, most: Rate, waiting: &Waiting, recording: &Arc<()>, patience: Nanos) -> Result<Work, String> {
    match hello.job {
        SessionJob::Record => {
            let terms = Terms::parse(&hello.name).map_err(|problem| problem.to_string())?;
            if terms.most > most {
                return Err(format!("it sends at most {} Mbit/s; give --most {}mbit", most.as_mbps(), most.as_mbps()));
            }
            // Two would share the link, and each record a part of it.
            if Arc::strong_count(recording) > 1 {
                return Err("another recording is under way; try again later".to_owned());
            }
            Ok(Work::Record(terms, recording.clone()))
        }
        SessionJob::Fetch => {
            let plan = TransferPlan::of(hello, patience).map_err(|problem| problem.to_string())?;
            let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let found = waiting.iter().find(|(name, _)| *name == hello.name).map(|(_, trace)| trace.clone());
            Ok(Work::Give(plan, found.ok_or("there is no such recording any more; record again")?))
        }
        _ => Err("it records traces alone; start paceline serve for transfers".to_owned()),
    }
}

/// A session that was agreed to.
pub struct RecordSession {
    channel: Channel,
    work: Work,
    waiting: Waiting,
    overhead: usize,
    patience: Nanos,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEnd {
    /// A recording of so many seconds, in which this end sent so many packets.
    Recorded {
        /// Its length.
        seconds: u64,
        /// Packets of data that this end sent.
        sent: u64,
    },
    /// The client fetched a trace of so many bytes.
    Fetched {
        /// The trace's length.
        bytes: u64,
    },
}

impl RecordSession {
    /// The client.
    pub fn peer(&self) -> SocketAddr {
        self.channel.peer()
    }

    /// It fetches a trace; others record one.
    pub fn fetches(&self) -> bool {
        matches!(self.work, Work::Give(..))
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// [`RecordError`] when it does not come through.
    pub fn run(self) -> Result<RecordEnd, RecordError> {
        let Self { channel, work, waiting, overhead, patience } = self;
        match work {
            Work::Record(terms, recording) => {
                let mut recording = Some(recording);
                let mut keep = |trace: &[u8]| {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.push_back((terms.name(), trace.to_vec()));
                    while waiting.len() > KEPT {
                        waiting.pop_front();
                    }
                    // The link is free from now on.
                    recording = None;
                };
                let recorded = record(channel, &terms, RecordingSide::Server, overhead, patience, &mut keep)?;
                Ok(RecordEnd::Recorded { seconds: terms.seconds, sent: recorded.sent })
            }
            Work::Give(plan, trace) => {
                let (mut file, bytes) = (in_memory()?, trace.len() as u64);
                file.write_all(&trace)?;
                let content = Content::File(file, bytes);
                give(channel, Clock::new(), &plan, content, None, Nanos::from_secs(1), &mut |_| {})?;
                Ok(RecordEnd::Fetched { bytes })
            }
        }
    }
}

fn overhead(key: Option<&SessionKey>) -> usize {
    if key.is_some() { TAG } else { 0 }
}

fn hello(job: SessionJob, name: String) -> Hello {
    let (mss, controller) = FETCH;
    let controller = controller.to_owned();
    Hello { random: [0; 16], cookie: None, job, mss, arrivals: false, ack_every: 2, bytes: None, controller, name }
}

/// A file that has no name.
fn in_memory() -> io::Result<File> {
    Ok(memfd_create(c"trace", MemfdFlags::CLOEXEC)?.into())
}
