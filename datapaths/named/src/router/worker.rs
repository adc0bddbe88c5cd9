//! One thread of the router: its socket, its queue, its view of the store, and of other routers.

use std::io;

use paceline_cc::{Nanos, Time};
use paceline_icn::wire::{DATA_HEAD, MissingReason, Nack, UnitHead};
use paceline_icn::{Burst, Found, Name, Router, Secrets, Units};
use paceline_linux::clock::{Clock, span};

use super::blocks::Standing;
use super::gather::{Gathering, Next};
use super::popular::Popular;
use super::shelf::{Shelf, Unread};
use super::socket::{Batch, SEGMENT, SEGMENTS, Socket};
use super::upstream::Upstream;
use super::{Counts, Shared};
use crate::resolver::since_1970;

/// Ask again after this long for what was here a moment ago (our choice: the time of an upstream fetch nearby).
const AGAIN: Nanos = Nanos::from_millis(20);

pub(super) struct Worker {
    clock: Clock,
    socket: Socket,
    batch: Batch,
    router: Router,
    gathering: Gathering,
    view: View,
    /// Where the kernel has a store: what is to go there.
    pub(super) popular: Option<Popular>,
    counts: Counts,
    /// What the batch has, and its bytes.
    read: Vec<(Burst, u64)>,
}

/// Everything that objects can be read from.
struct View {
    /// When what is asked for came, or leaves.
    now: Time,
    shelf: Shelf,
    upstream: Option<Upstream>,
}

impl Worker {
    pub(super) fn new(
        clock: Clock,
        socket: Socket,
        shelf: Shelf,
        upstream: Option<Upstream>,
        router: impl FnOnce(Secrets) -> Router,
        secret: &[u8; 32],
        gather: Nanos,
    ) -> Self {
        let batch = Batch::new(&socket);
        let router = router(Secrets::new(secret, since_1970().as_secs()));
        let view = View { now: clock.now(), shelf, upstream };
        let gathering = Gathering::new(gather);
        let (popular, counts) = (None, Counts::default());
        Self { clock, socket, batch, router, gathering, view, popular, counts, read: Vec::new() }
    }

    /// Serves until it is stopped.
    pub(super) fn run(mut self, index: usize, shared: &Shared) -> io::Result<()> {
        let mut next = Next::Wait;
        while !shared.stopped() {
            let now = self.clock.now();
            self.view.now = now;
            self.view.sweep();
            while let Some(burst) = self.next_burst(now) {
                self.read(&burst);
            }
            self.look();
            if !self.batch.is_empty() {
                self.batch.send(&self.socket, &self.view.shelf.blocks.bytes);
            }
            self.view.shelf.blocks.take_back();
            next = self.turn(now, next)?;
            self.drive_upstream();
            self.publish(index, shared);
        }
        Ok(())
    }

    /// Waits for requests, and for what other routers send, and takes the requests.
    fn turn(&mut self, now: Time, next: Next) -> io::Result<Next> {
        let upstream = self.view.upstream.as_ref();
        let fetching = upstream.is_some_and(|upstream| upstream.sockets().next().is_some());
        let due = self.router.next_timeout().min(upstream.map_or(Time::NEVER, Upstream::next_timeout));
        match next {
            Next::Take => {}
            // What is fetched must not wait.
            Next::Pause(pause) if !fetching => std::thread::sleep(span(pause.min(due.since(now)))),
            _ if due == Time::NEVER && !fetching => return self.receive(true),
            _ if due > now => {
                let others = self.view.upstream.iter().flat_map(Upstream::sockets);
                self.socket.wait(span(due.since(self.clock.now())), others)?;
            }
            _ => {}
        }
        self.receive(false)
    }

    fn drive_upstream(&mut self) {
        let Self { clock, batch, router, view, counts, .. } = self;
        let Some(upstream) = &mut view.upstream else { return };
        let now = clock.now();
        let mut reply = |to, message: &[u8]| counts.refused += u64::from(!batch.push(to, message));
        while let Some(missing) = router.missing() {
            if let Err(reason) = upstream.want(now, &missing, router, &mut reply) {
                for units in missing.ranges.as_slice() {
                    router.failed(&missing.name, units.iter(), reason, &mut reply);
                }
            }
        }
        upstream.drive(now, router, &mut reply);
    }

    fn next_burst(&mut self, now: Time) -> Option<Burst> {
        if self.batch.has_room(SEGMENTS) { self.router.poll(now) } else { None }
    }

    fn receive(&mut self, wait: bool) -> io::Result<Next> {
        let Self { clock, socket, batch, router, gathering, view, counts, .. } = self;
        let unix_s = since_1970().as_secs();
        let mut now = None;
        let count = socket.receive(wait, |from, bytes| {
            let now = *now.get_or_insert_with(|| clock.now());
            view.now = now;
            router.on_datagram(now, unix_s, from, bytes, view, &mut |to, message| {
                counts.refused += u64::from(!batch.push(to, message));
            });
        })?;
        Ok(gathering.after(now.unwrap_or_default(), count))
    }

    /// Reads a burst into the batch, or refuses it.
    fn read(&mut self, burst: &Burst) {
        let Self { batch, view, .. } = self;
        let messages = batch.room(burst.units.count as usize);
        let bytes = match view.read(&burst.name, burst.units, messages) {
            Ok(Standing::There(bytes)) => {
                write_heads(burst, burst.units.first, &mut messages[..bytes]);
                batch.add(burst.to, bytes);
                bytes
            }
            Ok(Standing::Lent(pieces)) => {
                let (mut first, mut bytes) = (burst.units.first, 0);
                for piece in pieces {
                    write_heads(burst, first, &mut view.shelf.blocks.bytes[piece.clone()]);
                    first += piece.len().div_ceil(SEGMENT) as u64;
                    bytes += piece.len();
                    batch.lend(burst.to, piece);
                }
                bytes
            }
            Err(unread) => return self.refuse(burst, unread),
        };
        self.read.push((*burst, bytes as u64));
        if let Some(popular) = &mut self.popular {
            popular.leaves(burst);
        }
    }

    fn refuse(&mut self, burst: &Burst, unread: Unread) {
        self.counts.unread += 1;
        let (reason, retry_after) = match unread {
            Unread::Changed => (MissingReason::Changed, Nanos::ZERO),
            Unread::Gone if self.view.upstream.is_some() => (MissingReason::Busy, AGAIN),
            Unread::Gone => (MissingReason::NotFound, Nanos::ZERO),
        };
        let mut message = Vec::new();
        Nack { nonce: burst.nonce, units: burst.units, reason, retry_after }.encode(&mut message);
        self.batch.push(burst.to, &message);
    }

    /// Looks once at each file of the batch: units of one that changed are refused.
    fn look(&mut self) {
        loop {
            let changed = self.view.shelf.changed();
            if changed.is_empty() {
                break;
            }
            self.batch.drop_units();
            for (burst, _) in std::mem::take(&mut self.read) {
                if changed.contains(&burst.name) {
                    self.refuse(&burst, Unread::Changed);
                } else {
                    self.read(&burst);
                }
            }
        }
        self.counts.sent_bytes += self.read.drain(..).map(|(_, bytes)| bytes).sum::<u64>();
    }

    fn publish(&mut self, index: usize, shared: &Shared) {
        self.counts.router = *self.router.stats();
        self.counts.queued = self.router.queued();
        self.counts.awaited = self.router.awaited() as u64;
        self.counts.tables = self.router.memory();
        self.counts.refused += std::mem::take(&mut self.batch.refused);
        if let Some(place) = shared.counts().get_mut(index) {
            *place = self.counts;
        }
        if let Some(trouble) = self.view.upstream.as_mut().and_then(Upstream::take_trouble) {
            shared.set_trouble(trouble);
        }
    }
}

impl View {
    /// Lets go of what was removed from the disk.
    fn sweep(&mut self) {
        self.shelf.sweep(self.now);
        if let Some(upstream) = &mut self.upstream {
            upstream.sweep();
        }
    }

    /// See [`Shelf::read`].
    fn read(&mut self, name: &Name, units: Units, messages: &mut [u8]) -> Result<Standing, Unread> {
        let upstream = match (self.shelf.read(self.now, name, units, messages), &mut self.upstream) {
            (Err(Unread::Gone), Some(upstream)) => upstream,
            (read, _) => return read,
        };
        let mut bytes = 0;
        for (unit, message) in units.iter().zip(messages.chunks_mut(SEGMENT)) {
            bytes += DATA_HEAD + upstream.read(name, unit, &mut message[DATA_HEAD..]).ok_or(Unread::Gone)?;
        }
        Ok(Standing::There(bytes))
    }
}

/// Writes the heads of a burst's messages of [`SEGMENT`] bytes, from this unit on.
fn write_heads(burst: &Burst, first: u64, messages: &mut [u8]) {
    let Burst { nonce, stored_units, waited, app_limited, .. } = *burst;
    for (unit, message) in (first..).zip(messages.chunks_mut(SEGMENT)) {
        let head = UnitHead { nonce, unit, stored_units, waited, app_limited };
        message[..DATA_HEAD].copy_from_slice(&head.encode_head());
    }
}

impl paceline_icn::Shelf for View {
    fn find(&mut self, name: &Name) -> Found {
        match (self.shelf.find(self.now, name), &mut self.upstream) {
            (Found::Elsewhere, Some(upstream)) => upstream.find(name),
            (found, _) => found,
        }
    }

    fn has(&mut self, name: &Name, units: Units) -> u32 {
        self.upstream.as_mut().map_or(units.count, |upstream| upstream.has(name, units))
    }
}
