//! What a connection has in every mode: the controller above TCP, the queue, and what the kernel reports of the TCP below.

mod guard;
mod program;

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use paceline_cc::{Controller, Nanos, Time};
use paceline_linux::sockopt::tcp_info;
use paceline_linux::tcp::TcpInfo;
use paceline_transport::{Above, AckNews, SenderConfig};

use self::guard::Guard;
pub(crate) use self::program::Program;
use crate::clock;
use crate::group::Group;
use crate::queue::Queue;
use crate::rtts::Tally;

/// Shortest time between two looks at `TCP_INFO` (our choice: it takes the socket's lock).
pub(crate) const LOOK: Nanos = Nanos::from_millis(5);
/// Without news for this long, and for two round trips, `TCP_INFO` is asked.
pub(crate) const SILENCE: Nanos = Nanos::from_millis(50);
/// How long a chunk that is not full may wait for more while others are in flight, unless the application has set
/// `TCP_NODELAY` (our choice: Linux's automatic corking waits for as long as the device is busy).
const FILL: Nanos = Nanos::from_millis(1);
/// Largest packet that is reported to a controller: a loop-back device's are 64 KB, and a chunk may have four.
const MAX_MSS: u32 = 16 * 1024;
/// A chunk has as many packets as leave in this time, at most [`MAX_CHUNK`]. 1 ms: Linux `tcp_tso_autosize`.
const CHUNK_TIME: Nanos = Nanos::from_millis(1);
const MAX_CHUNK: u64 = 4;

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) written: u64,
    pub(crate) delivered: u64,
    pub(crate) stamps_lost: u64,
    pub(crate) marked: u64,
    pub(crate) timeouts: u32,
}

/// What a connection has in every mode. Times are absolute; its controller's count from `epoch`.
pub(crate) struct Link {
    pub(crate) above: Above,
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    /// The newest look at `TCP_INFO`.
    pub(crate) info: TcpInfo,
    /// The newest RTT, and how long its chunk waited in TCP.
    pub(crate) rtt: Option<Nanos>,
    pub(crate) below: Nanos,
    /// Where the RTTs of all connections are counted.
    rtts: Arc<Tally>,
    /// What it shares with others to the same place, and the number of the newest change that it has seen.
    group: Option<Arc<Group>>,
    news_heard: u64,
    /// When the clock of its controller began, and when it was taken.
    epoch: Time,
    adopted: Time,
    pub(crate) mss: u32,
    /// `tcpi_bytes_acked` when nothing of ours was acknowledged; unknown while older bytes are outstanding.
    pub(crate) base: Option<u64>,
    /// Everything below this position is acknowledged.
    pub(crate) acked: u64,
    /// So the newest look at `TCP_INFO` said.
    pub(crate) acked_by_info: u64,
    pub(crate) looked_at: Time,
    /// And the time before.
    pub(crate) looked_before: Time,
    /// RTT of what was acknowledged between them, as far as the kernel's estimate shows it.
    pub(crate) rtt_between: Nanos,
    /// When to look next although nothing happened.
    pub(crate) look_at: Time,
    /// Samples cover a retransmission at present.
    pub(crate) repairing: bool,
    /// TCP has held back bytes since.
    pub(crate) held_since: Option<Time>,
    /// TCP's window is the controller's (inline mode above the open window): what waits in the kernel waits for it.
    pub(crate) obeys: bool,
    /// TCP took nothing; it will say when it does.
    pub(crate) blocked: bool,
    /// Chunks that are not full do not wait.
    pub(crate) nodelay: bool,
    /// A chunk that is not full waits for more until then.
    pub(crate) fill_until: Option<Time>,
    /// What protects the stream while the queue holds bytes.
    guard: Guard,
    /// The program's own options, which hold again when the engine lets go.
    pub(crate) program: Program,
    /// When TCP last took or delivered a byte.
    progress: Time,
    /// The connection is over.
    pub(crate) dead: bool,
}

impl Link {
    /// Takes a connection as it is: `info` was asked just now.
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        queue: Queue,
        info: &TcpInfo,
        epoch: Time,
        nodelay: bool,
        group: Option<Arc<Group>>,
        rtts: Arc<Tally>,
    ) -> Self {
        let mss = packet_size(info);
        let mut above = Above::new(&SenderConfig::new(mss), controller);
        let rtt = if info.min_rtt > Nanos::ZERO { info.min_rtt } else { info.rtt };
        if rtt > Nanos::ZERO {
            above.connected(Time::ZERO + (clock::now() - epoch), rtt);
        }
        Self {
            above,
            queue,
            group,
            rtts,
            news_heard: 0,
            counters: Counters::default(),
            info: *info,
            rtt: None,
            below: Nanos::ZERO,
            epoch,
            adopted: clock::now(),
            mss,
            base: info.is_quiet().then_some(info.acked),
            acked: 0,
            acked_by_info: 0,
            looked_at: Time::ZERO,
            looked_before: Time::ZERO,
            rtt_between: info.rtt,
            look_at: Time::NEVER,
            repairing: false,
            held_since: None,
            obeys: false,
            blocked: false,
            nodelay,
            fill_until: None,
            guard: Guard::default(),
            program: Program::default(),
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

    /// A chunk of `bytes` is not full, others are in flight, and more may be written soon; not when `all` is written.
    pub(crate) fn waits_for_more(&mut self, now: Time, bytes: u32, all: bool) -> bool {
        if bytes >= self.mss || self.nodelay || all || self.above.in_flight() == 0 {
            return false;
        }
        *self.fill_until.get_or_insert(now + FILL) > now
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

    /// Asks `TCP_INFO`: is TCP repairing losses, did it time out, does it hold bytes back? Says whether the kernel answered.
    pub(crate) fn look(&mut self, fd: &OwnedFd, now: Time) -> bool {
        let Ok(info) = tcp_info(fd) else { return false };
        let last = std::mem::replace(&mut self.info, info);
        self.looked_before = std::mem::replace(&mut self.looked_at, now);
        self.rtt_between = info.rtt_since(&last);
        if info.acked > last.acked {
            self.note_progress(now);
        }
        self.check_order(fd);
        let resent = info.retransmits.wrapping_sub(last.retransmits);
        self.repairing = resent > 0 || last.has_holes() || info.has_holes();
        if info.timed_out() && (!last.timed_out() || info.backoff > last.backoff) {
            self.counters.timeouts += 1;
            self.above.timeout(now, u32::from(info.backoff.max(1)));
        }
        self.held_since = (info.unsent > 0).then(|| self.held_since.unwrap_or(now));
        let held_by_receiver = info.held_by_receiver > last.held_by_receiver;
        if self.is_held(now) && (!self.obeys || held_by_receiver) {
            self.above.blocked(now);
        }
        if self.base.is_none() && info.is_quiet() {
            self.base = info.acked.checked_sub(self.above.next());
        }
        // The end of the stream counts as a byte.
        self.acked_by_info = self.base.map_or(0, |base| info.acked.saturating_sub(base).min(self.above.next()));
        if (last.is_repairing() || info.is_repairing()) && !last.timed_out() && !info.timed_out() {
            self.above.lost(now, resent);
        }
        if info.is_dead() {
            self.die();
        }
        true
    }

    /// TCP has held bytes back for a round trip.
    pub(crate) fn is_held(&self, now: Time) -> bool {
        self.held_since.is_some_and(|since| now - since >= self.above.rtt().smoothed().unwrap_or(LOOK))
    }

    /// How long silence means nothing where every delivery is reported.
    pub(crate) fn patience(&self) -> Nanos {
        self.above.rtt().smoothed().unwrap_or(SILENCE).mul_div(2, 1).max(SILENCE)
    }

    /// Passes the newest RTT on to the group, and the smallest of the group to the controller.
    pub(crate) fn note_rtt(&mut self, now: Time, news: Option<AckNews>) {
        let sample = news.and_then(|news| news.rtt);
        self.rtt = sample.or(self.rtt);
        if let Some(rtt) = sample {
            self.rtts.count(rtt);
        }
        let Some(group) = &self.group else { return };
        if let Some(min) = group.exchange(self.absolute(now), sample, &mut self.news_heard) {
            self.above.shared_rtt(now, min);
        }
    }

    /// When it wants to be called, by the monotonic clock; never while it is idle. What may leave waits until `earliest`, by
    /// the controller's.
    pub(crate) fn next_wake(&self, earliest: Time) -> Time {
        if self.queue.is_empty() && self.above.in_flight() == 0 {
            return Time::NEVER;
        }
        let sends = self.above.next_wake().max(earliest);
        self.absolute(sends.min(self.look_at).min(self.fill_until.unwrap_or(Time::NEVER)))
    }

    /// When it will have been silent for `limit` since the time `since`, unless TCP takes or delivers a byte before.
    pub(crate) fn silent_at(&self, since: Time, limit: Nanos) -> Time {
        since.max(self.absolute(self.progress)) + limit
    }

    /// TCP has taken or delivered bytes.
    pub(crate) fn note_progress(&mut self, now: Time) {
        self.progress = now;
    }

    /// Since it was taken.
    pub(crate) fn age(&self) -> Nanos {
        clock::now() - self.adopted
    }

    /// Nothing can be sent any more: drops what is queued.
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.queue.clear();
        self.above.cut();
    }

    /// A time of the monotonic clock, as the controller counts.
    pub(crate) fn local(&self, at: Time) -> Time {
        Time::ZERO + (at - self.epoch)
    }

    /// A time of the controller's, by the monotonic clock.
    pub(crate) fn absolute(&self, at: Time) -> Time {
        self.epoch + (at - Time::ZERO)
    }
}

/// Payload bytes of a full packet, as reported to a controller.
pub(crate) fn packet_size(info: &TcpInfo) -> u32 {
    info.mss.clamp(1, MAX_MSS)
}
