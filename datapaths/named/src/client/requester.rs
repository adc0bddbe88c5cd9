//! The thread of a fetch: sockets in, verified bytes out.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use paceline_cc::{Nanos, Time};
use paceline_icn::fetch::{Fetch, FetchConfig, Output, Saved, SourceId};
use paceline_icn::{FlowConfig, Name, UNIT, UnitPlace};
use paceline_linux::clock::{Clock, span, wait};
use paceline_linux::thread::set_timer_slack;
use rustix::event::{PollFd, PollFlags};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::link::Link;
use super::reader::{Back, Fetching, Said};
use super::{FetchError, Options, Progress};
use crate::failed;
use crate::resolver::{draw, since_1970};

/// Between two calls of the progress callback (our choice: as fast as one reads).
const PROGRESS: Nanos = Nanos::from_millis(100);

/// No program listens at any source: given up after this long with two refusals from each (our choice: a router that starts at the same
/// time is there by then).
const REFUSED: Nanos = Nanos::from_millis(1500);

/// After this many datagrams at once there are probably more, and it is not worth a call to ask (our choice: a request's worth).
const MORE: usize = 64;

struct Requester {
    name: Name,
    fetch: Fetch,
    clock: Clock,
    links: Vec<(SourceId, Link)>,
    back: Arc<Back>,
    said: UnboundedSender<Said>,
    options: Options,
    consumed: u64,
    /// Bytes of the range that were given, those of an earlier fetch included.
    given: u64,
    /// Bytes that went into the queue.
    sent: u64,
    wanted: Range<u64>,
    /// Units in place of bytes.
    units: bool,
    taken: Vec<(u64, Bytes)>,
    opened: bool,
    came_at: Time,
    progress_at: Time,
    message: Vec<u8>,
    batch: Vec<Bytes>,
}

/// For whom a fetch is.
pub(super) enum Taker {
    /// A reader: bytes in order.
    Reader,
    /// Who wants the record of a signed name, of this version or a later one.
    Record {
        /// The version that was seen; 0: none was.
        known: u64,
    },
    /// A file: units in the order of their arrivals, but for those that are there.
    File(Option<Resume>),
}

/// What an earlier fetch left.
pub(super) struct Resume {
    /// Data units, by their numbers in the stored form.
    pub(super) had: Box<dyn Iterator<Item = u64>>,
    /// Bytes of them that are wanted.
    pub(super) bytes: u64,
    /// The index.
    pub(super) saved: Box<dyn Saved>,
}

/// Starts the thread of a fetch.
pub(super) fn start(
    name: Name,
    sources: &[SocketAddr],
    range: Range<u64>,
    mut options: Options,
    taker: Taker,
) -> Result<(UnboundedReceiver<Said>, Fetching), FetchError> {
    let clock = Clock::new();
    let now = clock.now();
    let seed = draw().map_err(failed("random bytes"))?;
    let flow = FlowConfig { receive_buffer: options.receive_buffer, ..FlowConfig::default() };
    let units = matches!(taker, Taker::File(_));
    let unix_s = since_1970().as_secs();
    let known_version = if let Taker::Record { known } = taker { known } else { 0 };
    let config = FetchConfig { flow, bytes: !units, units, unix_s, known_version, ..FetchConfig::default() };
    let mut fetch = Fetch::new(config, name, range.clone(), seed);
    let mut given = 0;
    if let Taker::File(Some(Resume { had, bytes, saved })) = taker {
        fetch.resume(had, saved);
        given = bytes;
    }
    let mut links = Vec::new();
    for &source in sources {
        let link = Link::new(source, options.offload, now).map_err(failed(source.to_string()))?;
        links.push((fetch.add_source(now, (options.controller)(source)), link));
    }
    if links.is_empty() {
        return Err(FetchError::NoSource(name));
    }
    let back = Arc::new(Back::new().map_err(failed("an eventfd"))?);
    let (said, queue) = unbounded_channel();
    let requester = Requester {
        name,
        fetch,
        clock,
        links,
        back: back.clone(),
        said,
        options,
        consumed: 0,
        given,
        sent: 0,
        wanted: range,
        units,
        taken: Vec::new(),
        opened: false,
        came_at: now,
        progress_at: now,
        message: Vec::new(),
        batch: Vec::new(),
    };
    let thread = thread::Builder::new().name("icn-fetch".into());
    thread.spawn(move || requester.run()).map_err(failed("a thread"))?;
    Ok((queue, Fetching(back)))
}

impl Requester {
    fn run(mut self) {
        set_timer_slack(1);
        let result = self.until_done();
        // A reader that is gone wants no word.
        let _ = self.said.send(Said::End(Box::new(self.fetch.stats()), result));
    }

    fn until_done(&mut self) -> Result<(), FetchError> {
        loop {
            if self.back.stopped() {
                return Ok(());
            }
            let came = self.take();
            let done = self.give()?;
            if done {
                self.report(true);
                return Ok(());
            }
            let consumed = self.back.consumed();
            if !self.units {
                self.fetch.consumed(consumed - self.consumed);
            }
            self.consumed = consumed;
            self.look();
            let now = self.clock.now();
            if self.fetch.next_timeout() <= now {
                self.fetch.on_timeout(now);
            }
            self.ask();
            if let Some(why) = self.fetch.failure() {
                return Err(FetchError::Failed { name: self.name, why: why.clone() });
            }
            self.patience()?;
            if came < MORE {
                self.wait()?;
            }
        }
    }

    /// Takes a batch of each socket; says how many datagrams that were.
    fn take(&mut self) -> usize {
        let mut came = 0;
        for (source, link) in &mut self.links {
            let (fetch, came_at) = (&mut self.fetch, &mut self.came_at);
            came += link.receive(self.clock, |datagram| {
                // What was refused stands in the statistics.
                if fetch.on_datagram(datagram.at, *source, datagram.bytes, datagram.ce).is_ok() {
                    *came_at = (*came_at).max(datagram.at);
                }
            });
        }
        came
    }

    /// Gives the reader what is in order, or the file what came; says whether that was all.
    fn give(&mut self) -> Result<bool, FetchError> {
        let mut done = false;
        // What a slow disk did not take stays with the fetch, which then asks for less.
        while (!self.units || self.unread() < self.options.receive_buffer)
            && let Some(output) = self.fetch.poll_output()
        {
            match output {
                Output::Manifest(manifest) => {
                    self.opened = true;
                    self.wanted.end = self.wanted.end.min(manifest.length);
                    let _ = self.said.send(Said::Manifest(Box::new(manifest)));
                }
                Output::Bytes { bytes, .. } => {
                    self.given += bytes.len() as u64;
                    self.sent += bytes.len() as u64;
                    self.batch.push(bytes);
                }
                Output::Record(record) => drop(self.said.send(Said::Record(Box::new(record)))),
                Output::Unit { unit, bytes } => {
                    self.sent += bytes.len() as u64;
                    self.given += self.wanted_of(unit, bytes.len() as u64);
                    self.taken.push((unit, bytes));
                }
                Output::Done => done = true,
            }
        }
        if !self.batch.is_empty() {
            let _ = self.said.send(Said::Bytes(std::mem::take(&mut self.batch)));
        }
        if !self.taken.is_empty() {
            let _ = self.said.send(Said::Units(std::mem::take(&mut self.taken)));
        }
        self.report(false);
        Ok(done)
    }

    /// Bytes that stand in the queue.
    const fn unread(&self) -> u64 {
        self.sent - self.consumed
    }

    /// Bytes of a unit that are of the object and wanted.
    fn wanted_of(&self, unit: u64, bytes: u64) -> u64 {
        let place = self.fetch.manifest().and_then(|manifest| manifest.layout().place(unit));
        let Some(UnitPlace::Data { index }) = place else { return 0 };
        let start = index * UNIT as u64;
        (start + bytes).min(self.wanted.end).saturating_sub(start.max(self.wanted.start))
    }

    fn report(&mut self, last: bool) {
        let now = self.clock.now();
        if let Some(progress) = &mut self.options.progress
            && (last || now.since(self.progress_at) >= PROGRESS)
            && self.opened
        {
            self.progress_at = now;
            let of = self.wanted.end.saturating_sub(self.wanted.start);
            progress(&Progress { bytes: self.given, of, elapsed: Duration::from_nanos(now.as_nanos()) });
        }
    }

    /// Follows this host to other addresses.
    fn look(&mut self) {
        let now = self.clock.now();
        for (source, link) in &mut self.links {
            if link.moves(now) {
                let controller = (self.options.controller)(link.peer);
                self.fetch.moved(now, *source, controller);
            }
        }
    }

    /// Sends the requests that may leave.
    fn ask(&mut self) {
        let now = self.clock.now();
        self.message.clear();
        while let Some(source) = self.fetch.poll_transmit(now, &mut self.message) {
            if let Some((_, link)) = self.links.iter_mut().find(|(id, _)| *id == source) {
                link.send(&self.message);
            }
            self.message.clear();
        }
    }

    /// Whether there is still hope.
    fn patience(&mut self) -> Result<(), FetchError> {
        let now = self.clock.now();
        if !self.opened && now.since(Time::ZERO) > REFUSED && self.links.iter().all(|(_, link)| link.refusals > 1) {
            return Err(FetchError::Refused(self.links[0].1.peer));
        }
        // Where the reader is the one who does not go on, nothing comes because nothing is asked for.
        if self.unread() >= self.options.receive_buffer / 2 {
            self.came_at = now;
        }
        let patience = self.options.patience * if self.opened { 2 } else { 1 };
        if now.since(self.came_at).as_nanos() > u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX) {
            return Err(FetchError::Silent { name: self.name, waited: patience, bytes: self.given });
        }
        Ok(())
    }

    /// Waits for a datagram, the reader, or the time that something is due.
    fn wait(&mut self) -> Result<(), FetchError> {
        let mut until = self.fetch.next_timeout();
        for (_, link) in &self.links {
            until = until.min(link.next_look());
        }
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.links.len() + 1);
        fds.push(PollFd::new(self.back.bell(), PollFlags::IN));
        fds.extend(self.links.iter().map(|(_, link)| PollFd::from_borrowed_fd(link.socket.as_fd(), PollFlags::IN)));
        wait(&mut fds, Some(span(until.since(self.clock.now())))).map_err(failed("waiting for units"))?;
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(self.back.bell(), &mut [0; 8]);
        }
        Ok(())
    }
}
