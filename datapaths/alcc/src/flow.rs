//! One connection in queue mode: the queue, the controller above TCP, and the news of what TCP got through.
//!
//! Nothing here waits and nothing locks: an engine calls it when the socket has news, when a time has come, and when the
//! application has written.

mod acks;
mod guard;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use paceline_cc::{Controller, Nanos, Rate, Time};
use paceline_transport::{Above, Config, Hold};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use self::guard::Guard;
use crate::burst::Burst;
use crate::clock;
use crate::framed::Framed;
use crate::group::Group;
use crate::info::Info;
use crate::inline::Inline;
use crate::options::Acks;
use crate::queue::Queue;
use crate::stamps;

/// Shortest time between two looks at `TCP_INFO` (our choice: it takes the socket's lock).
pub(crate) const LOOK: Nanos = Nanos::from_millis(5);
/// How long a chunk that is not full may wait for more while others are in flight, unless the application has set
/// `TCP_NODELAY` (our choice: Linux's automatic corking waits for as long as the device is busy).
const FILL: Nanos = Nanos::from_millis(1);
/// Without news for this long, and for two round trips, `TCP_INFO` is asked.
const SILENCE: Nanos = Nanos::from_millis(50);
/// Largest packet that is reported to a controller: a loop-back device's are 64 KB, and a chunk may have four.
const MAX_MSS: u32 = 16 * 1024;
/// A chunk has as many packets as leave in this time, at most [`MAX_CHUNK`]. 1 ms: Linux `tcp_tso_autosize`.
const CHUNK_TIME: Nanos = Nanos::from_millis(1);
const MAX_CHUNK: u64 = 4;

/// Where acknowledgements come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Stamps; `sure` when the kernel counts their positions from the next byte to be written.
    Stamps { sure: bool },
    /// `TCP_INFO`.
    Info,
}

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) written: u64,
    pub(crate) delivered: u64,
    pub(crate) stamps_lost: u64,
    pub(crate) marked: u64,
    pub(crate) timeouts: u32,
}

/// One connection in queue mode. Times are absolute; its controller's count from `epoch`.
pub(crate) struct Flow {
    pub(crate) above: Above,
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    pub(crate) source: Source,
    /// The newest look at `TCP_INFO`.
    pub(crate) info: Info,
    /// The newest RTT, and how long its chunk waited in TCP.
    pub(crate) rtt: Option<Nanos>,
    pub(crate) below: Nanos,
    /// What it shares with others to the same place, and the number of the news that it has heard.
    pub(crate) group: Option<Arc<Group>>,
    path_told: u64,
    /// What inline mode needs, when in it.
    pub(crate) inline: Option<Inline>,
    /// What framed mode needs, when in it.
    pub(crate) framed: Option<Box<Framed>>,
    /// When the clock of its controller began, and when it was taken.
    epoch: Time,
    adopted: Time,
    pub(crate) mss: u32,
    v6: bool,
    /// `tcpi_bytes_acked` when nothing of ours was acknowledged; unknown while older bytes are outstanding.
    pub(crate) base: Option<u64>,
    /// Everything below this position is acknowledged.
    pub(crate) acked: u64,
    /// So `TCP_INFO` said of this, when last asked.
    told: u64,
    pub(crate) looked_at: Time,
    /// And the time before.
    looked_before: Time,
    /// RTT of what was acknowledged between them, as far as the kernel's estimate shows it.
    pub(crate) rtt_between: Nanos,
    /// When something was last acknowledged.
    news_at: Time,
    /// When to look next although nothing happened.
    pub(crate) look_at: Time,
    /// Samples cover a retransmission at present.
    pub(crate) repairing: bool,
    /// Looks in a row at which it held none back.
    clear: u32,
    /// TCP has held back bytes since.
    pub(crate) held_since: Option<Time>,
    /// TCP took nothing; it will say when it does.
    pub(crate) blocked: bool,
    pub(crate) burst: Burst,
    /// Chunks that are not full do not wait.
    pub(crate) nodelay: bool,
    /// A chunk that is not full waits for more until then.
    pub(crate) fill_until: Option<Time>,
    /// What protects the stream while the queue holds bytes.
    guard: Guard,
    /// When TCP last took or delivered a byte.
    progress: Time,
    /// The connection is over.
    pub(crate) dead: bool,
}

impl Flow {
    /// Takes a connection as it is: `info` was asked just now, stamps are switched on already.
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        queue: Queue,
        source: Source,
        info: &Info,
        epoch: Time,
        v6: bool,
        nodelay: bool,
    ) -> Self {
        let mss = packet_size(info);
        let mut above = Above::new(&Config { mss, ..Config::default() }, controller);
        let rtt = if info.min_rtt > Nanos::ZERO { info.min_rtt } else { info.rtt };
        if rtt > Nanos::ZERO {
            above.connected(Time::ZERO + (clock::now() - epoch), rtt);
        }
        Self {
            above,
            queue,
            group: None,
            path_told: 0,
            counters: Counters::default(),
            source,
            info: *info,
            rtt: None,
            below: Nanos::ZERO,
            inline: None,
            framed: None,
            epoch,
            adopted: clock::now(),
            mss,
            v6,
            base: info.is_quiet().then_some(info.acked),
            acked: 0,
            told: 0,
            looked_at: Time::ZERO,
            looked_before: Time::ZERO,
            rtt_between: info.rtt,
            news_at: Time::ZERO,
            look_at: Time::NEVER,
            repairing: false,
            clear: 0,
            held_since: None,
            blocked: false,
            burst: Burst::default(),
            nodelay,
            fill_until: None,
            guard: Guard::default(),
            progress: Time::ZERO,
            dead: false,
        }
    }

    /// The application writes: takes what there is room for.
    pub(crate) fn write(&mut self, bufs: &[IoSlice<'_>], skip: usize) -> usize {
        let (mut skip, mut taken) = (skip, 0);
        for buf in bufs {
            let rest = &buf[skip.min(buf.len())..];
            skip -= skip.min(buf.len());
            let fits = self.queue.push(rest);
            taken += fits;
            if fits < rest.len() {
                break;
            }
        }
        self.counters.written += taken as u64;
        self.above.queued(taken as u64);
        taken
    }

    /// Hands to TCP what the controller permits; `all` when nothing more will be written.
    ///
    /// # Errors
    /// The connection's: it is dead, and what was queued is lost.
    pub(crate) fn pump(&mut self, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
        if self.blocked || self.dead || self.inline.is_some() {
            return Ok(());
        }
        if self.framed.is_some() {
            return self.pump_framed(fd, all);
        }
        let mut now = self.local(clock::now());
        self.above.tick(now);
        loop {
            self.shape_chunk(now);
            let Some(bytes) = self.above.poll(now).filter(|&bytes| !self.waits_for_more(now, bytes, all)) else {
                break;
            };
            self.fill_until = None;
            self.stamp_chunk(fd, now, bytes);
            let (pieces, count) = self.queue.front(bytes as usize);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | SendFlags::EOR;
            match sendmsg(fd, &pieces[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(taken) => {
                    if self.above.in_flight() == 0 {
                        self.look_at = now + self.patience();
                    }
                    self.queue.consume(taken);
                    self.note_progress(now);
                    self.above.handed(now, taken as u32, self.held_since.is_some());
                }
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    self.stamp_departures(fd, true);
                    self.above.blocked(now);
                    self.look_at = self.look_at.min(now + self.patience());
                    break;
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.die();
                    return Err(error);
                }
            }
            now = self.local(clock::now());
        }
        if self.above.held_by() == Hold::Window {
            // What arrives behind a loss makes room and has no stamp.
            let patience = self.above.rtt().smoothed().unwrap_or(SILENCE).mul_div(1, 8).max(LOOK);
            self.look_at = self.look_at.min(now + patience);
        }
        Ok(())
    }

    /// A chunk of `bytes` is not full, others are in flight, and more may be written soon.
    pub(crate) fn waits_for_more(&mut self, now: Time, bytes: u32, all: bool) -> bool {
        if bytes >= self.mss || self.nodelay || all || self.above.in_flight() == 0 {
            return false;
        }
        *self.fill_until.get_or_insert(now + FILL) > now
    }

    /// When it will have been silent for `limit` since the time `since`, unless TCP takes or delivers a byte before.
    pub(crate) fn silent_at(&self, since: Time, limit: Nanos) -> Time {
        since.max(self.epoch + (self.progress - Time::ZERO)) + limit
    }

    /// TCP has taken or delivered bytes.
    pub(crate) fn note_progress(&mut self, now: Time) {
        self.progress = now;
    }

    /// What is queued does not wait for more.
    pub(crate) fn push(&mut self) {
        if !self.queue.is_empty() {
            self.fill_until = Some(self.local(clock::now()));
        }
    }

    /// Packets of a chunk at the present rate.
    pub(crate) fn chunk(&self) -> u32 {
        let bytes = self.above.rate().bytes_in(CHUNK_TIME);
        let mss = u64::from(self.mss);
        ((bytes + mss / 2) / mss).clamp(1, MAX_CHUNK) as u32
    }

    /// The socket can be written to again.
    pub(crate) fn writable(&mut self) {
        self.blocked = false;
    }

    /// When [`Flow::timer`] and [`Flow::pump`] want to be called; never for an idle connection.
    pub(crate) fn next_wake(&self) -> Time {
        let local = match &self.inline {
            _ if self.dead => Time::NEVER,
            Some(_) => self.look_at,
            None if self.queue.is_empty() && self.above.in_flight() == 0 => Time::NEVER,
            None => self
                .above
                .next_wake()
                .max(self.next_burst())
                .min(self.look_at)
                .min(self.fill_until.unwrap_or(Time::NEVER)),
        };
        let wake = if local == Time::NEVER { Time::NEVER } else { self.epoch + (local - Time::ZERO) };
        wake.min(self.acknowledges_at())
    }

    /// What keeps it from sending.
    pub(crate) fn held_by(&self) -> Hold {
        self.above.held_by()
    }

    /// Since it was taken.
    pub(crate) fn age(&self) -> Nanos {
        clock::now() - self.adopted
    }

    /// The newest delivery rate.
    pub(crate) fn rate(&self) -> Rate {
        self.above.rate()
    }

    /// The controller.
    pub(crate) fn controller(&self) -> &dyn Controller {
        self.above.controller()
    }

    /// Nothing can be sent any more: drops what is queued.
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.queue.clear();
        self.above.cut();
    }

    pub(crate) fn local(&self, at: Time) -> Time {
        Time::ZERO + (at - self.epoch)
    }
}

/// Payload bytes of a full packet, as reported to a controller.
pub(crate) fn packet_size(info: &Info) -> u32 {
    info.mss.clamp(1, MAX_MSS)
}

/// Switches stamps on where they are wanted and given.
///
/// # Errors
/// They were asked for by name and the kernel gives none.
pub(crate) fn choose(fd: &OwnedFd, wanted: Acks, quiet: bool) -> io::Result<Source> {
    if wanted == Acks::Info {
        return Ok(Source::Info);
    }
    match stamps::enable(fd) {
        // Without a sure start the positions of bytes written before are in the way.
        Ok(sure) if sure || quiet => Ok(Source::Stamps { sure }),
        Ok(_) => {
            stamps::disable(fd);
            Ok(Source::Info)
        }
        Err(error) if wanted == Acks::Stamps => {
            let hint =
                format!("the kernel stamps no acknowledgements on this socket ({error}); leave PACELINE_ACKS=auto");
            Err(io::Error::new(io::ErrorKind::Unsupported, hint))
        }
        Err(_) => Ok(Source::Info),
    }
}
