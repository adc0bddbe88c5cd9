//! Recording delivery traces between two machines: both ends keep the link backlogged in the directions that are wanted, and take
//! down when packets arrive. [`paceline_transport::saturator`] decides what leaves when; here are sockets, terms and the end. One end asks
//! ([`ask`], [`fetch`]), the other waits ([`RecordServer`]).
//!
//! Packets of data and acknowledgements are those of every session, with two differences: a position is the packet's number, and both
//! ends send both (docs/design/udp-wire.md).

mod session;

use std::io;

use paceline_cc::{Ecn, Nanos, Rate, Time};
use paceline_linux::clock::Clock;
use paceline_path::Trace;
use paceline_transport::saturator::{Opportunities, Saturator, SaturatorSeen};
use paceline_transport::{AckSegment, Segment};
use ring::digest::{SHA256, digest};

use super::channel::{Channel, Incoming};
use super::handshake::random;
use super::outcome::Trouble;
use super::transfer::{TransferError, answer, conclude, give_up};
use super::wire::DATA_HEADER;
use super::wire::control::{Close, SessionVerdict};
pub use session::{RecordEnd, RecordError, RecordServer, RecordSession, ask, fetch};

/// Bytes of an opportunity, and of a packet of data, from the IP header on (Mahimahi).
const OPPORTUNITY: u32 = 1500;
/// Acknowledgements are at least so far apart: they take room from the other direction (our choice: 100 a second are 60 kbit/s).
const ACKS: Nanos = Nanos::from_millis(10);
/// Packets that are due within it leave together (our choice, as of transfers).
const BATCH: Nanos = Nanos::from_millis(1);
/// Data is sent for longer than it is recorded: the recording begins with the first arrival.
const AFTER: Nanos = Nanos::from_secs(1);
/// Longest recording, s (our choice: an hour; longer ones are made of several).
pub const LONGEST: u64 = 3600;
/// Longest time before the recording begins, s (our choice: a window that doubles fills every link in less).
pub const LONGEST_LEAD: u64 = 60;
/// Highest rate that can be asked for, bytes a second: 10 Gbit/s (our choice).
const FASTEST: u64 = 1_250_000_000;
/// Bytes of an acknowledgement behind its header: three instants and positions.
const ACK_FIELDS: u32 = 18;

/// What is recorded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Names the recording of the direction to the server, which is fetched afterwards.
    pub token: u64,
    /// How long the recording is, s: 1 to [`LONGEST`].
    pub seconds: u64,
    /// From the first arrival to its beginning, s: up to [`LONGEST_LEAD`].
    pub lead: u64,
    /// Highest rate of either direction.
    pub most: Rate,
    /// The server sends.
    pub down: bool,
    /// The client sends.
    pub up: bool,
}

/// Terms that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("terms of a recording: {0}")]
pub struct TermsError(String);

impl Terms {
    /// With a new token.
    ///
    /// # Errors
    /// [`TermsError`] when a value is out of range, or the system has no random numbers.
    pub fn new(seconds: u64, lead: u64, most: Rate, down: bool, up: bool) -> Result<Self, TermsError> {
        let token = random().map(u64::from_be_bytes).map_err(|error| TermsError(error.to_string()))?;
        Self { token, seconds, lead, most, down, up }.checked()
    }

    fn checked(self) -> Result<Self, TermsError> {
        let wrong = |what: String| Err(TermsError(what));
        if !(1..=LONGEST).contains(&self.seconds) {
            return wrong(format!("{} s is not between 1 and {LONGEST} s", self.seconds));
        }
        if self.lead > LONGEST_LEAD {
            return wrong(format!("a lead of {} s is longer than {LONGEST_LEAD} s", self.lead));
        }
        let rate = self.most.bytes_in(Nanos::from_secs(1));
        // Ten packets a second: less says nothing about a link.
        if !(10 * u64::from(OPPORTUNITY)..=FASTEST).contains(&rate) {
            return wrong(format!("{} Mbit/s is not between 0.12 Mbit/s and 10 Gbit/s", self.most.as_mbps()));
        }
        if !self.down && !self.up {
            return wrong("neither direction is wanted".to_owned());
        }
        Ok(self)
    }

    /// As they travel: `token seconds lead most ways`, the token in hexadecimal, the rate in bytes a second.
    pub fn text(&self) -> String {
        let ways = match (self.down, self.up) {
            (true, true) => "both",
            (true, false) => "down",
            _ => "up",
        };
        let Self { token, seconds, lead, most, .. } = self;
        format!("{token:016x} {seconds} {lead} {} {ways}", most.bytes_in(Nanos::from_secs(1)))
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`TermsError`] when they are malformed, or out of range.
    pub fn parse(text: &str) -> Result<Self, TermsError> {
        let none = || TermsError("not five words; use the same version at both ends".to_owned());
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or_else(none);
        let token = word()?;
        let token = u64::from_str_radix(token, 16).ok().filter(|known| format!("{known:016x}") == token);
        let token = token.ok_or_else(none)?;
        let mut number = || {
            let word = word()?;
            word.parse::<u64>().ok().filter(|known| known.to_string() == word).ok_or_else(none)
        };
        let (seconds, lead, most) = (number()?, number()?, number()?);
        let (down, up) = match word()? {
            "both" => (true, true),
            "down" => (true, false),
            "up" => (false, true),
            _ => return Err(none()),
        };
        if words.next().is_some() || most > FASTEST {
            return Err(none());
        }
        Self { token, seconds, lead, most: Rate::from_bytes_per_sec(most), down, up }.checked()
    }

    /// The name under which the server gives the recording of the direction to it.
    pub fn name(&self) -> String {
        format!("{:016x}", self.token)
    }
}

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordingSide {
    /// It asked for the recording, records the direction to it, and says when it is over.
    Client,
    /// It was asked.
    Server,
}

/// What one end recorded.
#[derive(Clone, Debug, Default)]
pub struct EndRecording {
    /// The trace; empty where the direction to this end was not wanted, or nothing arrived in time.
    pub trace: Vec<u8>,
    /// At the client: bytes of the server's trace, which [`Terms::name`] names.
    pub other: u64,
    /// Packets of data that this end sent.
    pub sent: u64,
    /// For how long packets of this end were held while the other recorded: least, median and longest of what acknowledgements said.
    pub held: Option<[Nanos; 3]>,
}

/// Bytes below the payload of a packet of data, from the IP header on.
fn below(ipv4: bool, overhead: usize) -> u32 {
    let ip = if ipv4 { 20 } else { 40 };
    (ip + 8 + overhead) as u32
}

/// Runs one end to its end. `overhead` is what sealing adds to a packet. `keep` gets a server's trace before the client is informed.
///
/// # Errors
/// [`TransferError`] when the peer is silent for `patience`, or gives up.
fn record(
    channel: Channel,
    terms: &Terms,
    side: RecordingSide,
    overhead: usize,
    patience: Nanos,
    keep: &mut dyn FnMut(&[u8]),
) -> Result<EndRecording, TransferError> {
    // Its own, because instants of a session end after three days.
    let mut end = Recorder::new(channel, Clock::new(), terms, side, overhead);
    let ended = end.run(patience);
    if let Err(trouble) = &ended
        && !matches!(trouble, TransferError::PeerFailed)
    {
        give_up(&mut end.channel);
    }
    ended?;
    end.finish(patience, keep)
}

struct Recorder {
    channel: Channel,
    clock: Clock,
    side: RecordingSide,
    below: u32,
    /// Payload of a packet of data.
    payload: u32,
    saturator: Option<Saturator>,
    record: Option<Opportunities>,
    /// When data ends.
    until: Time,
    /// What has arrived and is not acknowledged.
    seen: Option<SaturatorSeen>,
    acked_at: Time,
    heard: Time,
    held: Vec<Nanos>,
    recording: Time,
}

impl Recorder {
    fn new(channel: Channel, clock: Clock, terms: &Terms, side: RecordingSide, overhead: usize) -> Self {
        let (now, below) = (clock.now(), below(channel.peer().is_ipv4(), overhead));
        let (sends, records) = match side {
            RecordingSide::Client => (terms.up, terms.down),
            RecordingSide::Server => (terms.down, terms.up),
        };
        let (lead, length) = (Nanos::from_secs(terms.lead), Nanos::from_secs(terms.seconds));
        Self {
            channel,
            clock,
            side,
            below,
            payload: OPPORTUNITY - below - DATA_HEADER as u32,
            saturator: sends.then(|| Saturator::new(now, OPPORTUNITY, terms.most)),
            record: records.then(|| Opportunities::new(OPPORTUNITY, lead, length)),
            until: now + lead + length + AFTER,
            seen: None,
            acked_at: Time::ZERO,
            heard: now,
            held: Vec::new(),
            recording: now + lead,
        }
    }

    /// Until it is over by the clock at a client, or by the client's word at a server.
    fn run(&mut self, patience: Nanos) -> Result<(), TransferError> {
        loop {
            let now = self.clock.now();
            if now >= self.heard + patience {
                let (peer, seconds) = (self.channel.peer(), now.since(self.heard).as_secs_f64());
                return Err(Trouble::Silent { peer, seconds }.into());
            }
            let recorded = self.record.as_ref().is_none_or(|record| record.end().is_some_and(|end| end <= now));
            let sent = self.saturator.is_none() || self.until <= now;
            if self.side == RecordingSide::Client && recorded && sent {
                return Ok(());
            }
            self.send(now)?;
            let timers = [self.heard + patience, now + Nanos::from_millis(100)].into_iter();
            let ack = self.seen.map(|_| self.acked_at + ACKS);
            let data = self.saturator.as_ref().filter(|_| now < self.until);
            let data = data.map(|saturator| saturator.next().max(now + BATCH));
            let wake = timers.chain(ack).chain(data).min().unwrap_or(now);
            self.channel.wait(self.clock, wake).map_err(Trouble::from)?;
            if let Some(close) = self.receive()? {
                return if close.verdict == SessionVerdict::Done { Ok(()) } else { Err(TransferError::PeerFailed) };
            }
        }
    }

    fn send(&mut self, now: Time) -> Result<(), TransferError> {
        if let Some(seen) = self.seen.filter(|_| self.acked_at + ACKS <= now) {
            let ack = AckSegment {
                cumulative: seen.next,
                echo_sent_at: seen.sent_at,
                received_at: seen.received_at,
                ..AckSegment::default()
            };
            self.channel.push_ack(&ack).map_err(Trouble::from)?;
            (self.seen, self.acked_at) = (None, now);
        }
        if let Some(saturator) = self.saturator.as_mut().filter(|_| now < self.until) {
            while let Some(seq) = saturator.take(now) {
                let (bytes, ecn) = (self.payload, Ecn::Off);
                let segment =
                    Segment { seq, bytes, sent_at: now, retransmission: false, syn: false, cwr: false, ecn, note: 0 };
                self.channel.push_data(&segment, |_| {}).map_err(Trouble::from)?;
            }
        }
        self.channel.flush();
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Close>, TransferError> {
        let Self { channel, clock, saturator, record, seen, below, held, recording, heard, .. } = self;
        let (peer, mut closed) = (channel.peer(), None);
        let clock = *clock;
        let mut arrived = |at: Time, behind: u32| {
            if let Some(record) = record {
                record.on_arrival(at, *below + behind);
            }
        };
        let got = channel.receive(clock, |at, incoming| {
            *heard = (*heard).max(at);
            match incoming {
                Incoming::Data(segment, payload, _) => {
                    arrived(at, DATA_HEADER as u32 + payload.len() as u32);
                    if seen.is_none_or(|seen| segment.seq >= seen.next) {
                        let next = segment.seq.saturating_add(1);
                        *seen = Some(SaturatorSeen { next, sent_at: segment.sent_at, received_at: at });
                    }
                }
                Incoming::Ack(ack) => {
                    arrived(at, super::wire::HEADER as u32 + ACK_FIELDS);
                    if let Some(saturator) = saturator {
                        let (sent_at, received_at) = (ack.echo_sent_at, ack.received_at);
                        saturator.on_ack(clock.now(), SaturatorSeen { next: ack.cumulative, sent_at, received_at });
                        held.extend(saturator.held().filter(|_| at >= *recording));
                    }
                }
                Incoming::Close(close) => closed = Some(close),
            }
        });
        got.map_err(|error| Trouble::hearing(peer, error))?;
        Ok(closed)
    }

    fn finish(mut self, patience: Nanos, keep: &mut dyn FnMut(&[u8])) -> Result<EndRecording, TransferError> {
        let millis = self.record.take().map(Opportunities::into_millis).unwrap_or_default();
        let mut trace = Vec::new();
        if !millis.is_empty() {
            let read = Trace::from_millis("recorded", millis);
            let read = read.map_err(|error| TransferError::Unreadable(io::Error::other(error)))?;
            read.write(&mut trace).map_err(TransferError::Unreadable)?;
        }
        self.held.sort_unstable();
        let held = match self.held.as_slice() {
            [] => None,
            all => Some([all[0], all[all.len() / 2], all[all.len() - 1]]),
        };
        let sent = self.saturator.as_ref().map_or(0, Saturator::sent);
        let mut recorded = EndRecording { trace, other: 0, sent, held };
        match self.side {
            RecordingSide::Client => {
                let over = Close { verdict: SessionVerdict::Done, bytes: 0, digest: [0; 32] };
                recorded.other = conclude(&mut self.channel, self.clock, &over, patience)?.bytes;
            }
            RecordingSide::Server => {
                keep(&recorded.trace);
                let mut hash = [0; 32];
                hash.copy_from_slice(digest(&SHA256, &recorded.trace).as_ref());
                let close =
                    Close { verdict: SessionVerdict::Received, bytes: recorded.trace.len() as u64, digest: hash };
                answer(&mut self.channel, self.clock, &close)?;
            }
        }
        Ok(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_are_written() {
        let terms = Terms::new(60, 5, Rate::from_mbps(100.0), true, false).unwrap();
        assert_eq!(Terms::parse(&terms.text()), Ok(terms.clone()));
        assert_eq!(terms.name().len(), 16);
        let zero = "0000000000000000";
        for (text, problem) in [
            (String::new(), "not five words"),
            (format!("{zero} 60 5 12500000 sideways"), "not five words"),
            (format!("{zero} 60 5 12500000 both more"), "not five words"),
            ("0 60 5 12500000 both".to_owned(), "not five words"),
            (format!("{zero} +60 5 12500000 both"), "not five words"),
            (format!("{zero} 60 5 99999999999 both"), "not five words"),
            (format!("{zero} 0 5 12500000 both"), "0 s is not between 1 and 3600 s"),
            (format!("{zero} 4000 5 12500000 both"), "4000 s is not between 1 and 3600 s"),
            (format!("{zero} 60 61 12500000 both"), "a lead of 61 s is longer than 60 s"),
            (format!("{zero} 60 5 100 both"), "is not between 0.12 Mbit/s and 10 Gbit/s"),
        ] {
            let error = Terms::parse(&text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert!(Terms::new(60, 5, Rate::from_mbps(1.0), false, false).is_err());
    }
}
