//! One thread of the router: its socket, its queue, its view of the store.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_cc::{Nanos, Time};
use paceline_clock::Clock;
use paceline_icn::wire::{DATA_HEAD, Data, Nack, Reason};
use paceline_icn::{Burst, Router, RouterConfig, Secrets};

use super::shelf::{Shelf, Unread};
use super::socket::{Batch, SEGMENT, SEGMENTS, Socket};
use super::{Counts, Shared};

/// Requests that come one by one are left to gather for so long when the last ones came within this time too: each time that the
/// thread wakes costs as much as an answer (our choice: a tenth of a short round trip).
const GATHER: Duration = Duration::from_micros(300);

/// As many requests at once are enough (our choice).
const ENOUGH: usize = 8;

pub(super) struct Worker {
    clock: Clock,
    socket: Socket,
    batch: Batch,
    router: Router,
    shelf: Shelf,
    counts: Counts,
}

impl Worker {
    pub(super) fn new(socket: Socket, shelf: Shelf, config: RouterConfig, secret: &[u8; 32], key: u64) -> Self {
        let batch = Batch::new(&socket);
        let router = Router::new(config, Secrets::new(secret, unix_s()), key);
        Self { clock: Clock::new(), socket, batch, router, shelf, counts: Counts::default() }
    }

    /// Serves until it is stopped.
    pub(super) fn run(mut self, index: usize, shared: &Shared) -> io::Result<()> {
        let mut woke = Time::ZERO;
        while !shared.stopped() {
            let now = self.clock.now();
            while let Some(burst) = self.next_burst(now) {
                self.read(&burst);
            }
            if !self.batch.is_empty() {
                self.batch.send(&self.socket);
            }
            let due = self.router.next_timeout();
            if due != Time::NEVER && due > now {
                self.socket.wait(Duration::from_nanos(due.since(self.clock.now()).as_nanos()))?;
            }
            let count = self.receive(due == Time::NEVER)?;
            if due == Time::NEVER && (1..ENOUGH).contains(&count) {
                let now = self.clock.now();
                if now.since(woke) < Nanos::from_nanos(2 * GATHER.as_nanos() as u64) {
                    std::thread::sleep(GATHER);
                    self.receive(false)?;
                }
                woke = self.clock.now();
            }
            self.publish(index, shared);
        }
        Ok(())
    }

    fn next_burst(&mut self, now: Time) -> Option<Burst> {
        if self.batch.has_room(SEGMENTS) { self.router.poll(now) } else { None }
    }

    fn receive(&mut self, wait: bool) -> io::Result<usize> {
        let Self { clock, socket, batch, router, shelf, counts, .. } = self;
        let unix_s = unix_s();
        let mut now = None;
        socket.receive(wait, |from, bytes| {
            let now = *now.get_or_insert_with(|| clock.now());
            router.on_datagram(now, unix_s, from, bytes, shelf, &mut |to, message| {
                counts.refused += u64::from(!batch.push(to, message));
            });
        })
    }

    /// Reads a burst into the batch, or refuses it.
    fn read(&mut self, burst: &Burst) {
        let shelf = &mut self.shelf;
        let units = burst.units;
        let read: Result<usize, Unread> = self.batch.fill(burst.to, units.count as usize, |bytes| {
            let last = shelf.read(&burst.name, units, bytes)?;
            let mut head = Data {
                nonce: burst.nonce,
                unit: units.first,
                stored_units: burst.stored_units,
                waited: burst.waited,
                app_limited: burst.app_limited,
            };
            for message in bytes.chunks_mut(SEGMENT) {
                message[..DATA_HEAD].copy_from_slice(&head.encode_head());
                head.unit += 1;
            }
            Ok(DATA_HEAD + last)
        });
        match read {
            Ok(bytes) => self.counts.sent_bytes += bytes as u64,
            Err(unread) => {
                self.counts.unread += 1;
                let reason = if unread == Unread::Changed { Reason::Changed } else { Reason::NotFound };
                let mut message = Vec::new();
                Nack { nonce: burst.nonce, units, reason, retry_after: Nanos::ZERO }.encode(&mut message);
                self.batch.push(burst.to, &message);
            }
        }
    }

    fn publish(&mut self, index: usize, shared: &Shared) {
        self.counts.router = *self.router.stats();
        self.counts.queued = self.router.queued();
        self.counts.awaited = self.router.awaited() as u64;
        let refused = std::mem::take(&mut self.batch.refused);
        self.counts.refused += refused;
        if let Some(place) = shared.counts().get_mut(index) {
            *place = self.counts;
        }
    }
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
