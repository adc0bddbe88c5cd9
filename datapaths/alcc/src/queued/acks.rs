//! The news of what TCP got through: stamps, and looks at `TCP_INFO`.

use std::os::fd::OwnedFd;

use paceline_cc::{Nanos, Time};
use paceline_transport::{Arrived, Delivered, News, Took};

use super::{Flow, LOOK, SILENCE, Source};
use crate::clock;
use crate::info::Info;
use crate::stamps::{self, Event, Reader};

/// The same while holes are open, where TCP reports what arrives behind them and nothing else does: as often as stamps are
/// taken (our choice). Without news the looks become rarer: no more of them than [`LOOKS`] in the time of the silence.
const CLOSE_LOOK: Nanos = Nanos::from_millis(1);
const LOOKS: u64 = 8;
/// So many readings per round trip where nothing else reports, no further apart than [`LOOK`]: Copa takes the smallest RTT of half
/// a round trip for that of the standing queue, and must see the queue when it is short (our choice).
const ROUND_LOOKS: u64 = 16;
/// Stamps that lie closer together belong to one acknowledgement.
const ONE_ACK: Nanos = Nanos::from_micros(10);
/// An acknowledgement that covers more packets is suspected to have waited for a retransmission: receivers acknowledge
/// every second one (RFC 5681 section 4.2), or what one aggregate held.
const MANY: u64 = 3;
/// Looks in a row at which TCP held nothing back after which departures are not stamped any more: they are the hand-overs
/// then, and each stamp wakes the thread. 200: a second.
const CLEAR: u32 = 200;
impl Flow {
    /// Reads the stamps that wait and informs the controller.
    pub(crate) fn read_stamps(&mut self, fd: &OwnedFd, reader: &mut Reader) {
        if self.source == Source::Info {
            return;
        }
        while let Ok(more) = reader.read(fd, self.v6) {
            let mut group: Option<(u64, Time)> = None;
            for stamp in &reader.stamps {
                let upto = stamps::position(self.own_number(stamp.id), self.acked).min(self.above.next());
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
        // Without stamps only the reading of `TCP_INFO` informs.
        if self.source != Source::Info && (many || self.repairing || now - self.looked_at >= LOOK) {
            self.look(fd, now);
        }
        let repaired = self.repairing || unsure;
        self.acked = upto;
        self.note_progress(now);
        self.counters.delivered = upto;
        self.counters.marked += u64::from(repaired);
        let took = if self.source == Source::Info { self.took() } else { Took::Told };
        let news = self.above.delivered(now, &Delivered { upto, at, repaired, took, arrived: Arrived::Unknown });
        self.news_at = now;
        self.note_rtt(now, news);
        self.plan_burst();
        self.look_at = if self.above.in_flight() == 0 { Time::NEVER } else { now + self.patience() };
    }

    /// How long a chunk took that was found acknowledged by the newest look.
    fn took(&self) -> Took {
        Took::Within { since: self.looked_before, rtt: self.rtt_between }
    }

    /// Passes the newest RTT on to the group, and the smallest of the group to the controller.
    pub(crate) fn note_rtt(&mut self, now: Time, news: Option<News>) {
        let sample = news.and_then(|news| news.rtt);
        self.rtt = sample.or(self.rtt);
        let Some(group) = &self.group else { return };
        if let Some(min) = group.exchange(self.epoch + (now - Time::ZERO), sample, &mut self.path_told) {
            self.above.shared_rtt(now, min);
        }
    }

    /// Asks `TCP_INFO`: is TCP repairing losses, did it time out, does it hold bytes back?
    pub(crate) fn look(&mut self, fd: &OwnedFd, now: Time) {
        let Ok(info) = Info::of(fd) else { return };
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

    /// Reports to the controller what has arrived behind a loss. After a timeout it is not known where.
    fn note_ahead(&mut self, now: Time) {
        if self.info.sacked == 0 || self.info.timed_out() || self.inline.is_some() || self.framed.is_some() {
            return;
        }
        let una = self.told.max(self.acked);
        let (upto, bytes) = self.info.ahead(self.above.next() - una);
        let took = self.took();
        let news = self.above.arrived_ahead(now, una + upto, bytes, took);
        if news.is_some() {
            self.news_at = now;
            self.note_rtt(now, news);
        }
    }

    /// Departures are stamped while TCP `holds` bytes back.
    pub(super) fn stamp_departures(&mut self, fd: &OwnedFd, holds: bool) {
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

    /// The connection may be over, or have gone on without a word: looks whether it has.
    pub(crate) fn look_now(&mut self, fd: &OwnedFd) {
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
            // The queue was read to its end since this was reported: the stamp is lost, and so is the time. Or there was none.
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
}
