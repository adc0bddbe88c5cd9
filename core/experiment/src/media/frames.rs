//! The frames of one flow: made, sent, arrived; shared by its two ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Bytes, Controller, Distribution, Lost, Nanos, Rate, Time};
use paceline_transport::Range;

use super::{MediaRate, Stream};
use crate::config::Workload;
use crate::workload::AppTurn;

/// Pieces of packets that are remembered at most: those before them arrived or are lost for good (our choice: 20 MB).
const REMEMBERED: usize = 16_384;
/// An application with nothing to do looks again so much later (our choice).
const LOOK: Nanos = Nanos::from_secs(1);

/// What became of the frames of a stream; only those from [`Stream::stats_from`] on count.
#[derive(Clone, Debug)]
pub struct StreamOutcome {
    /// [`Stream::name`].
    pub name: String,
    /// How many were made.
    pub made: u64,
    /// Of these, arrived as a whole.
    pub complete: u64,
    /// Of the complete ones, later than [`Stream::late_after`]; `None` without one.
    pub late: Option<u64>,
    /// Given up after [`Stream::drop_after`].
    pub given_up: u64,
    /// Never complete, because a part was lost and not sent again.
    pub lost: u64,
    /// From when a frame was made until all of it had arrived.
    pub delay: Distribution,
}

/// The frames of one flow. Its application hands them over ([`Frames::turn`]), its sender says what left, its receiver what came:
/// each end has a clone.
#[derive(Clone, Debug)]
pub struct Frames(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    streams: Vec<Open>,
    encoder: Option<Encoder>,
    /// Parts of packets that left, in the order of their positions.
    pieces: VecDeque<Piece>,
    /// When the flow began; what an application pauses moves it on.
    began: Option<Time>,
    /// When the next turn is.
    due: Time,
    /// Bytes that were lost and have not been handed over again.
    owed: u64,
}

/// A stream whose frames are under way.
#[derive(Debug)]
struct Open {
    stream: Stream,
    silent: Option<[Nanos; 2]>,
    /// Number of the next frame that is made.
    next: u64,
    /// Up to this number frames are given up as they are made.
    skip_to: u64,
    /// Neither complete nor given up.
    frames: BTreeMap<u64, Frame>,
    /// Numbers of those with bytes to send.
    waiting: BTreeSet<u64>,
    outcome: StreamOutcome,
}

#[derive(Debug)]
struct Frame {
    made: Time,
    size: u64,
    counts: bool,
    /// What is to be sent.
    unsent: VecDeque<Range>,
    /// What has arrived: apart from each other, in their order.
    arrived: Vec<Range>,
    /// A part was lost and is not sent again.
    holed: bool,
}

/// A part of a packet that belongs to one frame.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Positions in the flow.
    at: Range,
    stream: usize,
    frame: u64,
    /// Where in the frame it begins.
    offset: u64,
    arrived: bool,
    lost: bool,
}

/// What decides on the size of frames.
#[derive(Debug)]
struct Encoder {
    media: MediaRate,
    rate: Rate,
    /// When it looks at the controller.
    look_at: Time,
}

impl Frames {
    /// Of a workload of frames; `None` of any other.
    pub fn new(workload: &Workload) -> Option<Self> {
        let (streams, encoder) = match workload {
            Workload::Media(streams) => (streams.iter().map(|stream| Open::new(stream.clone(), None)).collect(), None),
            Workload::MediaRate(media) => {
                let stream = Stream {
                    name: "video".to_owned(),
                    fps: media.fps,
                    size: Bytes(0),
                    count: None,
                    group: 0,
                    first: None,
                    priority: 0,
                    datagram: true,
                    drop_after: None,
                    late_after: media.late_after,
                    stats_from: media.stats_from,
                };
                let encoder = Encoder { rate: media.least, look_at: Time::ZERO, media: media.clone() };
                (vec![Open::new(stream, media.silent)], Some(encoder))
            }
            Workload::Bulk | Workload::Bytes(_) | Workload::Poisson(_) | Workload::OnOff(_) | Workload::Rate(_) => {
                return None;
            }
        };
        let state = State { streams, encoder, pieces: VecDeque::new(), began: None, due: Time::ZERO, owed: 0 };
        Some(Self(Arc::new(Mutex::new(state))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the application does at `at`, and the time until its next turn; `permitted` is what the controller permits
    /// ([`super::permitted`]). A turn that comes later than it was due moves what follows.
    pub fn turn(&self, at: Time, permitted: Option<Rate>) -> (AppTurn, Nanos) {
        let mut state = self.state();
        let state = &mut *state;
        let began = state.began.map_or(at, |began| began + at.since(state.due));
        state.began = Some(began);
        state.due = at;
        let given_up: u64 = state.streams.iter_mut().map(|stream| stream.give_up(at)).sum();
        // Of these some may not have been handed over again.
        let owed = given_up.min(state.owed);
        state.owed -= owed;
        if given_up > owed {
            return (AppTurn::TakeBack(given_up - owed), Nanos::ZERO);
        }
        let waiting = state.streams.iter().map(Open::unsent).sum();
        let size = state.encoder.as_mut().map(|encoder| encoder.size(at, permitted, waiting));
        let made = state.streams.iter_mut().map(|stream| stream.make(began, at, size)).sum::<u64>();
        let next = state.streams.iter().map(|stream| stream.wakes_at(began)).min().unwrap_or(Time::NEVER);
        state.due = next.min(at + LOOK);
        (AppTurn::Write(made), state.due.since(at))
    }

    /// Bytes that were lost since the last time it was asked, and that are to be handed over again.
    pub fn take_owed(&self) -> u64 {
        std::mem::take(&mut self.state().owed)
    }

    /// Whether there are such.
    pub fn is_owed(&self) -> bool {
        self.state().owed > 0
    }

    /// A packet with new data left: `bytes` from position `seq` on. They are chosen here.
    pub fn sent(&self, seq: u64, bytes: u64) {
        self.state().sent(Range { start: seq, end: seq.saturating_add(bytes) });
    }

    /// The bytes of these positions arrived, perhaps again.
    pub fn arrived(&self, now: Time, seq: u64, bytes: u64) {
        self.state().arrived(now, Range { start: seq, end: seq.saturating_add(bytes) });
    }

    /// Everything below this position has arrived, in order.
    pub fn ready(&self, now: Time, upto: u64) {
        let mut state = self.state();
        let start = state.pieces.front().map_or(upto, |piece| piece.at.start);
        state.arrived(now, Range { start, end: upto });
    }

    /// What is to see the controller of a sender that leaves it to its application to send again what was lost.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Losses(self.clone()))
    }

    /// What became of them so far.
    pub fn outcome(&self) -> Vec<StreamOutcome> {
        let state = self.state();
        let outcome = |stream: &Open| {
            let lost = stream.frames.values().filter(|frame| frame.counts && frame.holed).count();
            StreamOutcome { lost: lost as u64, ..stream.outcome.clone() }
        };
        state.streams.iter().map(outcome).collect()
    }
}

/// Takes down what a controller hears of losses.
struct Losses(Frames);

impl Observer for Losses {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        let lost: &[Lost] = match event {
            Event::Lost(loss) => loss.packets,
            Event::Timeout(timeout) => timeout.packets,
            _ => return,
        };
        let mut state = self.0.state();
        for packet in lost {
            state.lost(Range { start: packet.seq, end: packet.seq.saturating_add(u64::from(packet.bytes)) });
        }
    }
}

impl State {
    fn sent(&mut self, packet: Range) {
        let known = self.pieces.back().map_or(packet.start, |piece| piece.at.end);
        let mut start = packet.start.max(known);
        while start < packet.end {
            let waiting = self.streams.iter().enumerate().filter(|(_, stream)| !stream.waiting.is_empty());
            let Some((stream, _)) = waiting.min_by_key(|(_, stream)| stream.stream.priority) else { break };
            let Some((frame, part)) = self.streams[stream].take(packet.end - start) else { break };
            let at = Range { start, end: start + (part.end - part.start) };
            self.pieces.push_back(Piece { at, stream, frame, offset: part.start, arrived: false, lost: false });
            start = at.end;
        }
        while self.pieces.front().is_some_and(|piece| piece.arrived) || self.pieces.len() > REMEMBERED {
            self.pieces.pop_front();
        }
    }

    /// The pieces that have bytes of this packet.
    fn of(&mut self, packet: Range) -> (impl Iterator<Item = &mut Piece>, &mut [Open]) {
        let Self { pieces, streams, .. } = self;
        let first = pieces.partition_point(|piece| piece.at.end <= packet.start);
        (pieces.iter_mut().skip(first).take_while(move |piece| piece.at.start < packet.end), streams)
    }

    fn arrived(&mut self, now: Time, packet: Range) {
        let (pieces, streams) = self.of(packet);
        for piece in pieces.filter(|piece| !piece.arrived) {
            let (start, end) = (packet.start.max(piece.at.start), packet.end.min(piece.at.end));
            piece.arrived = end == piece.at.end;
            let from = piece.offset + (start - piece.at.start);
            streams[piece.stream].arrived(now, piece.frame, Range { start: from, end: from + (end - start) });
        }
    }

    fn lost(&mut self, packet: Range) {
        let (pieces, streams) = self.of(packet);
        let mut owed = 0;
        for piece in pieces.filter(|piece| !piece.lost) {
            piece.lost = true;
            let end = piece.offset + (piece.at.end - piece.at.start);
            owed += streams[piece.stream].lost(piece.frame, Range { start: piece.offset, end });
        }
        self.owed += owed;
    }
}

impl Encoder {
    /// Bytes of a frame that is made now, while so many wait.
    fn size(&mut self, at: Time, permitted: Option<Rate>, waiting: u64) -> u64 {
        if at >= self.look_at {
            let waiting = Rate::from_bytes_in(waiting, self.media.every).as_bytes_per_sec();
            let less = |rate: Rate| Rate::from_bytes_per_sec(rate.as_bytes_per_sec().saturating_sub(waiting));
            self.rate = self.media.step(permitted.map(less));
            self.look_at = at + self.media.every;
        }
        (self.rate.as_bytes_per_sec() as f64 / self.media.fps) as u64
    }
}

impl Open {
    fn new(stream: Stream, silent: Option<[Nanos; 2]>) -> Self {
        let outcome = StreamOutcome {
            name: stream.name.clone(),
            made: 0,
            complete: 0,
            late: stream.late_after.map(|_| 0),
            given_up: 0,
            lost: 0,
            delay: Distribution::new(3),
        };
        let (frames, waiting) = Default::default();
        Self { stream, silent, next: 0, skip_to: 0, frames, waiting, outcome }
    }

    /// Bytes that wait to be sent.
    fn unsent(&self) -> u64 {
        let waiting = self.waiting.iter().filter_map(|number| self.frames.get(number));
        waiting.flat_map(|frame| &frame.unsent).map(|part| part.end - part.start).sum()
    }

    /// From the start of the flow to when a frame is made.
    fn made_after(&self, number: u64) -> Nanos {
        Nanos::from_nanos((number as f64 * 1e9 / self.stream.fps) as u64)
    }

    /// When the next frame is made.
    fn due(&self, began: Time) -> Time {
        if self.stream.count.is_some_and(|count| self.next >= count) {
            return Time::NEVER;
        }
        let after = self.made_after(self.next);
        let until = self.silent.filter(|[from, until]| *from <= after && after < *until);
        began + until.map_or(after, |[_, until]| until)
    }

    /// When it has something to do.
    fn wakes_at(&self, began: Time) -> Time {
        let oldest = self.waiting.first().and_then(|number| self.frames.get(number));
        let over = oldest.zip(self.stream.drop_after).map_or(Time::NEVER, |(frame, after)| frame.made + after);
        self.due(began).min(over)
    }

    /// Makes the frames that are due, of this size where an encoder says so; answers the bytes that are handed over.
    fn make(&mut self, began: Time, at: Time, size: Option<u64>) -> u64 {
        let mut bytes = 0;
        while self.due(began) <= at {
            while self.silent.is_some_and(|silent| contains(silent, self.made_after(self.next))) {
                self.next += 1;
            }
            let number = self.next;
            let made = began + self.made_after(number);
            if made > at {
                break;
            }
            self.next += 1;
            let counts = made.since(began) >= self.stream.stats_from;
            self.outcome.made += u64::from(counts);
            if number < self.skip_to {
                self.outcome.given_up += u64::from(counts);
                continue;
            }
            let is_first = self.stream.group > 0 && number.is_multiple_of(self.stream.group);
            let first = self.stream.first.filter(|_| is_first);
            let size = size.unwrap_or(first.unwrap_or(self.stream.size).0).max(1);
            let unsent = VecDeque::from([Range { start: 0, end: size }]);
            self.frames.insert(number, Frame { made, size, counts, unsent, arrived: Vec::new(), holed: false });
            self.waiting.insert(number);
            bytes += size;
        }
        bytes
    }

    /// The next bytes to send, this many at most: of which frame, and which of it.
    fn take(&mut self, most: u64) -> Option<(u64, Range)> {
        let number = *self.waiting.first()?;
        let unsent = &mut self.frames.get_mut(&number)?.unsent;
        let part = unsent.front_mut()?;
        let taken = Range { start: part.start, end: part.end.min(part.start.saturating_add(most)) };
        part.start = taken.end;
        if part.start == part.end {
            unsent.pop_front();
        }
        if unsent.is_empty() {
            self.waiting.remove(&number);
            self.close(number);
        }
        Some((number, taken))
    }

    /// Gives up what is too late now; answers the bytes that are taken back.
    fn give_up(&mut self, at: Time) -> u64 {
        let Some(after) = self.stream.drop_after else { return 0 };
        let mut back = 0;
        while let Some(&number) = self.waiting.first()
            && self.frames.get(&number).is_some_and(|frame| frame.made + after <= at)
        {
            let group = self.stream.group.max(1);
            let end = (number / group + 1).saturating_mul(group);
            self.skip_to = self.skip_to.max(end);
            let mut kept = self.frames.split_off(&end);
            let mut given_up = self.frames.split_off(&number);
            self.frames.append(&mut kept);
            given_up.retain(|number, frame| {
                self.waiting.remove(number);
                back += frame.unsent.iter().map(|part| part.end - part.start).sum::<u64>();
                frame.counts
            });
            self.outcome.given_up += given_up.len() as u64;
        }
        back
    }

    fn arrived(&mut self, now: Time, number: u64, part: Range) {
        let Some(frame) = self.frames.get_mut(&number) else { return };
        if !frame.take_in(part) {
            return;
        }
        let delay = now.since(frame.made);
        // What is sent again without need is of a frame that has been counted.
        if std::mem::take(&mut frame.counts) {
            self.outcome.complete += 1;
            self.outcome.delay.record(delay);
            if let (Some(late), Some(after)) = (&mut self.outcome.late, self.stream.late_after) {
                *late += u64::from(delay > after);
            }
        }
        self.close(number);
    }

    /// Forgets a frame that has all been sent and has all arrived.
    fn close(&mut self, number: u64) {
        if self.frames.get(&number).is_some_and(|frame| frame.unsent.is_empty() && frame.is_whole()) {
            self.frames.remove(&number);
        }
    }

    /// A part of a frame was lost; answers the bytes that are to be sent again.
    fn lost(&mut self, number: u64, part: Range) -> u64 {
        let Some(frame) = self.frames.get_mut(&number) else { return 0 };
        if self.stream.datagram {
            frame.holed = true;
            return 0;
        }
        frame.unsent.push_back(part);
        self.waiting.insert(number);
        part.end - part.start
    }
}

impl Frame {
    /// Takes a part in; whether all of it is there now, and was not before.
    fn take_in(&mut self, part: Range) -> bool {
        if self.is_whole() {
            return false;
        }
        let place = self.arrived.partition_point(|other| other.end < part.start);
        let mut whole = part;
        let touching = self.arrived[place..].iter().take_while(|other| other.start <= part.end).count();
        for other in self.arrived.drain(place..place + touching) {
            whole = Range { start: whole.start.min(other.start), end: whole.end.max(other.end) };
        }
        self.arrived.insert(place, whole);
        self.is_whole()
    }

    fn is_whole(&self) -> bool {
        matches!(self.arrived[..], [all] if all.end - all.start == self.size)
    }
}

fn contains([from, until]: [Nanos; 2], moment: Nanos) -> bool {
    from <= moment && moment < until
}

#[cfg(test)]
mod tests;
