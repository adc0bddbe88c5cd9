//! The thread of a fetch: packets in, bytes out.

use std::io;
use std::sync::Arc;
use std::thread;

use paceline_cc::{Nanos, Time};
use paceline_icn::ndn::{Consumed, Consumer, NdnName};
use paceline_linux::clock::{Clock, span, wait};
use paceline_linux::thread::set_timer_slack;
use rustix::event::{PollFd, PollFlags};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::face::Face;
use super::{Forwarder, NdnError, Opened, Said};
use crate::client::Options;
use crate::client::reader::{Back, Fetching};
use crate::failed;
use crate::resolver::draw;

/// No forwarder listens: given up after this long with refusals alone (our choice: one that starts at the same time is there by then).
const REFUSED: Nanos = Nanos::from_millis(1500);

struct Requester {
    name: NdnName,
    forwarder: Forwarder,
    consumer: Consumer,
    face: Face,
    clock: Clock,
    back: Arc<Back>,
    said: UnboundedSender<Said>,
    options: Options,
    consumed: u64,
    given: u64,
    opened: bool,
    came_at: Time,
    refused: bool,
    packet: Vec<u8>,
}

/// Starts the thread of a fetch.
pub(super) fn start(
    forwarder: Forwarder,
    name: NdnName,
    mut options: Options,
) -> Result<(UnboundedReceiver<Said>, Fetching), NdnError> {
    let seed = draw().map_err(failed("random bytes"))?;
    let back = Arc::new(Back::new().map_err(failed("an eventfd"))?);
    let (said, queue) = unbounded_channel();
    let (its_back, its_said) = (back.clone(), said.clone());
    let run = move || {
        set_timer_slack(1);
        let face = match Face::new(forwarder, options.offload) {
            Ok(face) => face,
            // A reader that is gone wants no word.
            Err(error) => return drop(its_said.send(Said::End(Box::default(), Err(lost(forwarder, error))))),
        };
        let clock = Clock::new();
        let now = clock.now();
        let controller = (options.controller)(forwarder.address);
        let consumer = Consumer::new(now, name.clone(), controller, options.receive_buffer, seed);
        let mut requester = Requester {
            name,
            forwarder,
            consumer,
            face,
            clock,
            back: its_back,
            said: its_said,
            options,
            consumed: 0,
            given: 0,
            opened: false,
            came_at: now,
            refused: false,
            packet: Vec::new(),
        };
        let result = requester.until_done();
        let _ = requester.said.send(Said::End(Box::new(requester.consumer.stats()), result));
    };
    thread::Builder::new().name("ndn-fetch".into()).spawn(run).map_err(failed("a thread"))?;
    Ok((queue, Fetching(back)))
}

/// What an error of the face says.
fn lost(forwarder: Forwarder, error: io::Error) -> NdnError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::TimedOut => NdnError::Refused(forwarder),
        _ => failed(forwarder.to_string())(error).into(),
    }
}

impl Requester {
    fn until_done(&mut self) -> Result<(), NdnError> {
        loop {
            if self.back.stopped() {
                return Ok(());
            }
            let more = self.take()?;
            if self.give() {
                return Ok(());
            }
            let consumed = self.back.consumed();
            self.consumer.consumed(consumed - self.consumed);
            self.consumed = consumed;
            let now = self.clock.now();
            if self.consumer.next_timeout() <= now {
                self.consumer.on_timeout(now);
            }
            self.ask(now)?;
            if let Some(why) = self.consumer.failure() {
                return Err(NdnError::Failed { name: self.name.clone(), why: why.clone() });
            }
            self.patience(now)?;
            if !more {
                self.wait()?;
            }
        }
    }

    fn take(&mut self) -> Result<bool, NdnError> {
        let (consumer, came_at) = (&mut self.consumer, &mut self.came_at);
        let taken = self.face.receive(self.clock, |at, packet| {
            // What was refused stands in the statistics.
            if consumer.on_frame(at, packet).is_ok() {
                *came_at = (*came_at).max(at);
            }
        });
        match taken {
            // Over UDP the forwarder may come back.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.refused = true;
                Ok(false)
            }
            taken => taken.map_err(|error| lost(self.forwarder, error)),
        }
    }

    /// Gives the reader what is in order; says whether that was all.
    fn give(&mut self) -> bool {
        let (mut batch, mut done) = (Vec::new(), false);
        while let Some(output) = self.consumer.poll_output() {
            match output {
                Consumed::Opened { name, signature, length } => {
                    self.opened = true;
                    let _ = self.said.send(Said::Opened(Box::new(Opened { name, signature, length })));
                }
                Consumed::Bytes(bytes) => {
                    self.given += bytes.len() as u64;
                    batch.push(bytes);
                }
                Consumed::Done => done = true,
            }
        }
        if !batch.is_empty() {
            let _ = self.said.send(Said::Bytes(batch));
        }
        done
    }

    fn ask(&mut self, now: Time) -> Result<(), NdnError> {
        self.packet.clear();
        while self.consumer.poll_interest(now, &mut self.packet) {
            match self.face.send(&self.packet) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.refused = true,
                sent => sent.map_err(|error| lost(self.forwarder, error))?,
            }
            self.packet.clear();
        }
        self.face.flush().map_err(|error| lost(self.forwarder, error))
    }

    /// Whether there is still hope.
    fn patience(&mut self, now: Time) -> Result<(), NdnError> {
        if !self.opened && self.refused && now.since(Time::ZERO) > REFUSED {
            return Err(NdnError::Refused(self.forwarder));
        }
        // Where the reader is the one who does not go on, nothing comes because nothing is asked for.
        if self.given - self.consumed >= self.options.receive_buffer / 2 {
            self.came_at = now;
        }
        let patience = self.options.patience * if self.opened { 2 } else { 1 };
        if now.since(self.came_at).as_nanos() > u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX) {
            return Err(NdnError::Silent { name: self.name.clone(), waited: patience, bytes: self.given });
        }
        Ok(())
    }

    /// Waits for a packet, the reader, or the time that something is due.
    fn wait(&mut self) -> Result<(), NdnError> {
        // Patience is looked at now and then, whatever the consumer waits for.
        let longest = Nanos::from_millis(500).min(self.consumer.next_timeout().since(self.clock.now()));
        let mut fds = [PollFd::new(self.back.bell(), PollFlags::IN), PollFd::new(&self.face, self.face.waits_for())];
        wait(&mut fds, Some(span(longest))).map_err(failed("waiting for packets"))?;
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(self.back.bell(), &mut [0; 8]);
        }
        Ok(())
    }
}
