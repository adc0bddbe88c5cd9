//! The news of what TCP got through: stamps, and looks at `TCP_INFO`.

use std::os::fd::OwnedFd;

use paceline_cc::{Nanos, Time};
use paceline_transport::{Ahead, ArrivalClock, Delivered, Took};

use super::{Queued, Source};
use crate::clock;
use crate::link::{LOOK, Link, SILENCE};
use crate::stamps::{self, Event, Reader, Stamped};

/// Shortest time between two looks while holes are open, where TCP reports what arrives behind them and nothing else does: as often as stamps are
/// taken (our choice). Without news the looks become rarer: no more of them than [`LOOKS`] in the time of the silence.
const CLOSE_LOOK: Nanos = Nanos::from_millis(1);
const LOOKS: u64 = 8;
/// This many readings per round trip where nothing else reports, no further apart than [`LOOK`]: Copa takes the smallest RTT of half
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

impl Queued {
    /// Reads the stamps that wait and informs the controller.
    pub(crate) fn read_stamps(&mut self, link: &mut Link, fd: &OwnedFd, reader: &mut Reader) {
        if self.source == Source::Info {
            return;
        }
        while let Ok(more) = reader.read(fd, self.v6) {
            let mut group: Option<(u64, Time)> = None;
            for stamp in &reader.stamps {
                let upto = stamps::position(link.own_number(stamp.id), link.acked).min(link.above.next());
                let at = link.local(stamp.at);
                match (stamp.event, &mut group) {
                    (Event::Left, _) if reader.clock_was_set => {}
                    (Event::Left, _) => {
                        if let Some(waited) = link.above.left(upto, at) {
                            link.below = waited;
                        }
                    }
                    (Event::Acked, Some((end, since))) if at <= *since + ONE_ACK => *end = upto.max(*end),
                    (Event::Acked, group) => {
                        if let Some((end, at)) = group.replace((upto, at)) {
                            self.deliver(link, fd, end, at, reader.clock_was_set);
                        }
                    }
                }
            }
            if let Some((end, at)) = group {
                self.deliver(link, fd, end, at, reader.clock_was_set);
            }
            if !more {
                break;
            }
        }
    }

    /// Everything below `upto` was acknowledged `at` that time, or, where that is `unsure`, at one that is not known.
    fn deliver(&mut self, link: &mut Link, fd: &OwnedFd, upto: u64, at: Time, unsure: bool) {
        if upto <= link.acked {
            return;
        }
        let now = link.local(clock::now());
        let many = self.burst.all_is_stamped(link) && upto - link.acked > MANY * u64::from(link.mss);
        // Without stamps only the reading of `TCP_INFO` informs.
        if self.source != Source::Info && (many || link.repairing || now - link.looked_at >= LOOK) {
            self.look(link, fd, now);
        }
        let repaired = link.repairing || unsure;
        link.acked = upto;
        link.note_progress(now);
        link.counters.delivered = upto;
        link.counters.marked += u64::from(repaired);
        let took = if self.source == Source::Info { took(link) } else { Took::Reported };
        let news = link.above.delivered(now, &Delivered { upto, at, repaired, took, arrived: ArrivalClock::Unknown });
        self.news_at = now;
        link.note_rtt(now, news);
        match self.source {
            Source::Stamps(_) => self.burst.plan(link),
            Source::Info => link.above.set_chunk(link.chunk()),
        }
        link.look_at = if link.above.in_flight() == 0 { Time::NEVER } else { now + self.patience(link) };
    }

    /// Asks `TCP_INFO`.
    pub(crate) fn look(&mut self, link: &mut Link, fd: &OwnedFd, now: Time) {
        if !link.look(fd, now) {
            return;
        }
        // A burst may be in TCP for a moment.
        let holds = if self.burst.is_on() { link.is_held(now) } else { link.info.unsent > 0 };
        self.stamp_departures(link, fd, holds);
        self.note_ahead(link, now);
    }

    /// Reports to the controller what has arrived behind a loss. After a timeout it is not known where.
    fn note_ahead(&mut self, link: &mut Link, now: Time) {
        if link.info.sacked == 0 || link.info.timed_out() {
            return;
        }
        let una = link.acked_by_info.max(link.acked);
        let (upto, bytes) = link.info.ahead(link.above.next() - una);
        let news = link.above.arrived_ahead(now, &Ahead { una, upto: una + upto, bytes, took: took(link) });
        if news.is_some() {
            self.news_at = now;
            link.note_rtt(now, news);
        }
    }

    /// Departures are stamped while TCP `holds` bytes back.
    pub(super) fn stamp_departures(&mut self, link: &mut Link, fd: &OwnedFd, holds: bool) {
        let before = self.stamped();
        self.clear = if holds { 0 } else { self.clear.saturating_add(1) };
        let after = self.stamped();
        if let Source::Stamps(zero) = self.source
            && before != after
        {
            stamps::set(fd, zero, after);
            self.burst.speaks();
            link.below = Nanos::ZERO;
        }
    }

    /// What a chunk that is stamped gets.
    pub(super) fn stamped(&self) -> Stamped {
        if self.clear < CLEAR { Stamped::DeparturesAndAcks } else { Stamped::Acks }
    }

    /// A time has come: the controller's clock, and the look at what happened without a word.
    pub(crate) fn timer(&mut self, link: &mut Link, fd: &OwnedFd, reader: &mut Reader) {
        let now = link.local(clock::now());
        link.above.tick(now);
        if link.look_at > now || link.dead {
            return;
        }
        self.read_stamps(link, fd, reader);
        if self.source != Source::Info && link.acked_by_info > link.acked {
            // The queue was read to its end since this was reported: the stamp is lost, and so is the time. Or there was none.
            if self.burst.all_is_stamped(link) {
                link.counters.stamps_lost += (link.acked_by_info - link.acked).div_ceil(u64::from(link.mss));
            }
            self.deliver(link, fd, link.acked_by_info, now, true);
        }
        self.look(link, fd, now);
        if self.source == Source::Info {
            self.deliver(link, fd, link.acked_by_info, now, false);
        }
        // TCP says that it can take more, unless what it waited for was never needed.
        link.blocked = false;
        let soon = link.acked_by_info > link.acked && link.info.sacked == 0;
        link.look_at = match link.above.in_flight() {
            0 if link.queue.is_empty() => Time::NEVER,
            _ if soon => now + LOOK,
            _ => now + self.patience(link),
        };
    }

    /// How long silence means nothing.
    pub(super) fn patience(&self, link: &Link) -> Nanos {
        match self.source {
            _ if link.info.sacked > 0 => (link.looked_at - self.news_at).mul_div(1, LOOKS).clamp(CLOSE_LOOK, SILENCE),
            Source::Info => link.above.rtt().smoothed().unwrap_or(LOOK).mul_div(1, ROUND_LOOKS).clamp(CLOSE_LOOK, LOOK),
            Source::Stamps(_) => link.patience(),
        }
    }
}

/// How long a chunk took that was found acknowledged by the newest look.
fn took(link: &Link) -> Took {
    Took::Within { since: link.looked_before, rtt: link.rtt_between }
}
