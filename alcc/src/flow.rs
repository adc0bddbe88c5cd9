//! One connection in queue mode: the queue, the controller above TCP, and the news of what TCP got through.
//!
//! Nothing here waits and nothing locks: an engine calls it when the socket has news, when a time has come, and when the
//! application has written.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use paceline_cc::{Controller, Nanos, Rate, Time};
use paceline_transport::{Above, Arrived, Config, Delivered, Hold, Took};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::burst::Burst;
use crate::clock;
use crate::framed::Framed;
use crate::group::Group;
use crate::info::Info;
use crate::inline::Inline;
use crate::options::Acks;
use crate::queue::Queue;
use crate::stamps::{self, Event, Reader};

/// Shortest time between two looks at `TCP_INFO` (our choice: it takes the socket's lock).
pub(crate) const LOOK: Nanos = Nanos::from_millis(5);
/// The same while holes are open, where TCP tells what arrives behind them and nothing else does: as often as stamps are
/// taken (our choice). Without news the looks become rarer: no more of them than [`LOOKS`] in the time of the silence.
const CLOSE_LOOK: Nanos = Nanos::from_millis(1);
const LOOKS: u64 = 8;
/// So many looks a round trip where nothing else tells, no further apart than [`LOOK`]: Copa takes the smallest RTT of half
/// a round trip for that of the standing queue, and must see the queue when it is short (our choice).
const ROUND_LOOKS: u64 = 16;
/// Stamps that lie closer together belong to one acknowledgement.
const ONE_ACK: Nanos = Nanos::from_micros(10);
/// An acknowledgement that covers more packets is suspected to have waited for a retransmission: receivers acknowledge
/// every second one (RFC 5681 section 4.2), or what one aggregate held.
const MANY: u64 = 3;
/// How long a chunk that is not full may wait for more while others are in flight, unless the application has set
/// `TCP_NODELAY` (our choice: Linux's automatic corking waits for as long as the device is busy).
const FILL: Nanos = Nanos::from_millis(1);
/// Without news for this long, and for two round trips, `TCP_INFO` is asked.
const SILENCE: Nanos = Nanos::from_millis(50);
/// Largest packet that a controller is told of: a loop-back device's are 64 KB, and a chunk may have four.
const MAX_MSS: u32 = 16 * 1024;
/// A chunk has as many packets as leave in this time, at most [`MAX_CHUNK`]. 1 ms: Linux `tcp_tso_autosize`.
const CHUNK_TIME: Nanos = Nanos::from_millis(1);
const MAX_CHUNK: u64 = 4;
/// Looks in a row at which TCP held nothing back after which departures are not stamped any more: they are the hand-overs
/// then, and each stamp wakes the thread. 200: a second.
const CLEAR: u32 = 200;

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
    pub(crate) chunks: u64,
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
    /// RTT of what was acknowledged between them, as far as the kernel's estimate tells.
    rtt_between: Nanos,
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
    nodelay: bool,
    /// A chunk that is not full waits for more until then.
    pub(crate) fill_until: Option<Time>,
    /// The connection is over.
    pub(crate) dead: bool,
}

impl Flow {
    /// Takes a connection as it is: `info` was asked just now, stamps are switched on already.
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        queue: usize,
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
            queue: Queue::new(queue),
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
                    self.above.handed(now, taken as u32, self.held_since.is_some());
                    self.counters.chunks += 1;
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

    /// Reads the stamps that wait and tells the controller.
    pub(crate) fn read_stamps(&mut self, fd: &OwnedFd, reader: &mut Reader) {
        if self.source == Source::Info {
            return;
        }
        while let Ok(more) = reader.read(fd, self.v6) {
            let mut group: Option<(u64, Time)> = None;
            for stamp in &reader.stamps {
                let upto = stamps::position(stamp.id, self.acked).min(self.above.next());
                let at = self.local(stamp.at);
                match (stamp.event, &mut group) {
                    (Event::Left, _) if reader.clock_was_set => {}
                    (Event::Left, _) => {
                        if let Some(waited) = self.above.left(upto, at) {
                            self.below = waited;
                        }
                    }
                    (Event::Acked, Some((end, since))) if at <= *since + ONE_ACK => *end = upto.max(*end),
                    (Event::Acked, group) => {
                        if let Some((end, at)) = group.replace((upto, at)) {
                            self.deliver(fd, end, at, reader.clock_was_set);
                        }
                    }
                }
            }
            if let Some((end, at)) = group {
                self.deliver(fd, end, at, reader.clock_was_set);
            }
            if !more {
                break;
            }
        }
    }

    /// Everything below `upto` was acknowledged `at` that time, or at one that is not known.
    fn deliver(&mut self, fd: &OwnedFd, upto: u64, at: Time, unsure: bool) {
        if upto <= self.acked {
            return;
        }
        let now = self.local(clock::now());
        let many = self.all_is_stamped() && upto - self.acked > MANY * u64::from(self.mss);
        // Without stamps the look is what tells.
        if self.source != Source::Info && (many || self.repairing || now - self.looked_at >= LOOK) {
            self.look(fd, now);
        }
        let repaired = self.repairing || unsure;
        self.acked = upto;
        self.counters.delivered = upto;
        self.counters.marked += u64::from(repaired);
        let took = if self.source == Source::Info { self.took() } else { Took::Told };
        self.above.delivered(now, &Delivered { upto, at, repaired, took, arrived: Arrived::Unknown });
        self.news_at = now;
        self.note_rtt(now);
        self.plan_burst();
        self.look_at = if self.above.in_flight() == 0 { Time::NEVER } else { now + self.patience() };
    }

    /// How long a chunk took that was found acknowledged by the newest look.
    fn took(&self) -> Took {
        Took::Within { since: self.looked_before, rtt: self.rtt_between }
    }

    /// Takes the newest RTT, tells it to the group, and hears what the group knows.
    pub(crate) fn note_rtt(&mut self, now: Time) {
        let sample = self.above.take_rtt();
        self.rtt = sample.or(self.rtt);
        let Some(group) = &self.group else { return };
        if let Some(min) = group.exchange(self.epoch + (now - Time::ZERO), sample, &mut self.path_told) {
            self.above.on_path(now, min);
        }
    }

    /// Packets of a chunk at the present rate.
    pub(crate) fn chunk(&self) -> u32 {
        let bytes = self.above.rate().bytes_in(CHUNK_TIME);
        let mss = u64::from(self.mss);
        ((bytes + mss / 2) / mss).clamp(1, MAX_CHUNK) as u32
    }

    /// Asks `TCP_INFO`: is TCP repairing losses, did it time out, does it hold bytes back?
    pub(crate) fn look(&mut self, fd: &OwnedFd, now: Time) {
        let Ok(info) = Info::of(fd) else { return };
        let last = std::mem::replace(&mut self.info, info);
        self.looked_before = std::mem::replace(&mut self.looked_at, now);
        self.rtt_between = info.rtt_since(&last);
        let resent = info.retransmits.wrapping_sub(last.retransmits);
        self.repairing = resent > 0 || last.has_holes() || info.has_holes();
        if info.timed_out() && (!last.timed_out() || info.backoff > last.backoff) {
            self.counters.timeouts += 1;
            self.above.timeout(now, u32::from(info.backoff.max(1)));
        }
        self.held_since = (info.unsent > 0).then(|| self.held_since.unwrap_or(now));
        let held = self.held_since.is_some_and(|since| now - since >= self.above.rtt().smoothed().unwrap_or(LOOK));
        // A burst may be in TCP for a moment.
        self.stamp_departures(fd, if self.comes_in_bursts() { held } else { info.unsent > 0 });
        if held {
            self.above.blocked(now);
        }
        if self.base.is_none() && info.is_quiet() {
            self.base = info.acked.checked_sub(self.above.next());
        }
        // The end of the stream counts as a byte.
        self.told = self.base.map_or(0, |base| info.acked.saturating_sub(base).min(self.above.next()));
        if (last.is_repairing() || info.is_repairing()) && !last.timed_out() && !info.timed_out() {
            self.above.lost(now, resent);
        }
        self.note_ahead(now);
        if info.is_dead() {
            self.die();
        }
    }

    /// Tells the controller of what has arrived behind a loss. After a time-out nobody knows where.
    fn note_ahead(&mut self, now: Time) {
        if self.info.sacked == 0 || self.info.timed_out() || self.inline.is_some() || self.framed.is_some() {
            return;
        }
        let una = self.told.max(self.acked);
        let (upto, bytes) = self.info.ahead(self.above.next() - una);
        let took = self.took();
        if self.above.arrived_ahead(now, una + upto, bytes, took) {
            self.news_at = now;
            self.note_rtt(now);
        }
    }

    /// Departures are stamped while TCP `holds` bytes back.
    fn stamp_departures(&mut self, fd: &OwnedFd, holds: bool) {
        let before = self.departures_are_stamped();
        self.clear = if holds { 0 } else { self.clear.saturating_add(1) };
        let after = self.departures_are_stamped();
        if let Source::Stamps { sure } = self.source
            && before != after
        {
            stamps::set(fd, sure, true, after);
            self.burst.speaks();
            self.below = Nanos::ZERO;
        }
    }

    pub(crate) fn departures_are_stamped(&self) -> bool {
        self.clear < CLEAR
    }

    /// The socket can be written to again.
    pub(crate) fn writable(&mut self) {
        self.blocked = false;
    }

    /// The connection may be over: looks whether it is.
    pub(crate) fn hung_up(&mut self, fd: &OwnedFd) {
        self.look(fd, self.local(clock::now()));
    }

    /// A time has come: the controller's clock, and the look at what happened without a word.
    pub(crate) fn timer(&mut self, fd: &OwnedFd, reader: &mut Reader) {
        let now = self.local(clock::now());
        if self.inline.is_some() {
            if self.look_at <= now && !self.dead {
                self.steer(fd, now);
            }
            return;
        }
        self.above.tick(now);
        if self.look_at > now || self.dead {
            return;
        }
        if let Some(framed) = &self.framed {
            let unheard = framed.has_ended();
            self.look(fd, now);
            self.blocked = false;
            self.look_at = if self.above.in_flight() == 0 || unheard { Time::NEVER } else { now + self.patience() };
            return;
        }
        self.read_stamps(fd, reader);
        if self.source != Source::Info && self.told > self.acked {
            // The queue was read to its end since this was told: the stamp is lost, and so is the time. Or there was none.
            if self.all_is_stamped() {
                self.counters.stamps_lost += (self.told - self.acked).div_ceil(u64::from(self.mss));
            }
            self.deliver(fd, self.told, now, true);
        }
        self.look(fd, now);
        if self.source == Source::Info {
            self.deliver(fd, self.told, now, false);
        }
        // TCP says that it can take more, unless what it waited for was never needed.
        self.blocked = false;
        let soon = self.told > self.acked && self.info.sacked == 0;
        self.look_at = match self.above.in_flight() {
            0 if self.queue.is_empty() => Time::NEVER,
            _ if soon => now + LOOK,
            _ => now + self.patience(),
        };
    }

    /// How long silence is no news.
    pub(crate) fn patience(&self) -> Nanos {
        match self.source {
            _ if self.framed.is_none() && self.info.sacked > 0 => {
                (self.looked_at - self.news_at).mul_div(1, LOOKS).clamp(CLOSE_LOOK, SILENCE)
            }
            Source::Info if self.framed.is_none() => {
                self.above.rtt().smoothed().unwrap_or(LOOK).mul_div(1, ROUND_LOOKS).clamp(CLOSE_LOOK, LOOK)
            }
            _ => self.above.rtt().smoothed().unwrap_or(SILENCE).mul_div(2, 1).max(SILENCE),
        }
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

/// Payload bytes of a full packet, as a controller is told.
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
