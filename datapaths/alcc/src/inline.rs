//! Inline mode: no queue of ours and no copy. The application writes to the kernel, as it always did; the controller's
//! window becomes the rate to which the kernel spreads what it sends.
//!
//! Our choice, since nothing bounds TCP's window from outside: `SO_MAX_PACING_RATE`, set at each look so that the bytes in
//! flight are the window ([`law`]). It is set when TCP's own window first exceeds the controller's: from then on each burst costs a timer
//! of the kernel's. Above the open window there is a better way: it takes a number that can be no rate for [a window](Limit::Window),
//! and needs no timer.
//!
//! What the controller learns comes from `TCP_INFO`, several times a round trip while something is in flight or waits, and never
//! otherwise: bytes sent and acknowledged since the look before, and the RTT. The kernel's samples have the time in them for which packets
//! that leave together wait for each other, and a controller would take it for a queue: it gets the RTT
//! without that, and on fast links the smallest, as far as the kernel's mean deviation shows it.
//!
//! `SO_SNDBUF` is left to the kernel: setting it would end its own tuning and cap it at `net.core.wmem_max`, while
//! `TCP_NOTSENT_LOWAT` already bounds what waits.

mod law;

use std::os::fd::OwnedFd;

use paceline_cc::datapath::OPEN_WINDOW;
use paceline_cc::{Nanos, Pacing, Rate, Time};
use paceline_linux::sockopt::{MaxPacingRate, NotSentLowat, getsockopt, send_queue, setsockopt};
use paceline_linux::tcp::TcpInfo;
use paceline_transport::{ArrivalClock, Delivered, Took};
use rustix::net::sockopt::tcp_congestion;

use crate::clock;
use crate::link::{LOOK, Link};
use law::Law;

/// Bytes that may wait unsent in the kernel, at least and at most, and the time in which they leave: the application wakes up
/// when half of them have (our choice: plain TCP lets its whole send buffer wait, 4 MB by Linux's `tcp_wmem`).
const NOT_SENT: (u64, u64) = (128 * 1024, 4 * 1024 * 1024);
const NOT_SENT_TIME: Nanos = Nanos::from_millis(200);
/// A change of them by less than this factor is not worth a call.
const NOT_SENT_WORTH: u64 = 2;
/// Changes smaller than this share are not worth a call.
const WORTH: f64 = 0.02;
/// Looks in a round trip, and the shortest time between two: as many as queue mode without stamps takes, since each is a
/// sample of the RTT, and the flight is off by what changed since (our choice).
const LOOKS: (u64, Nanos) = (16, LOOK);
/// The same from [`FAST`] on: Copa still has a look in the half round trip whose smallest RTT it takes (our choice: each look wakes
/// the thread).
const FAST_LOOKS: (u64, Nanos) = (2, Nanos::from_millis(10));
/// 40 Mbit/s, from which on queue mode sends in bursts (our choice).
const FAST: Rate = Rate::from_bytes_per_sec(5_000_000);
/// How a window for [`OPEN_WINDOW`] is distinguished from a rate (the crate `kernel`, `open_window.h`).
const OPEN_WINDOW_SHIFT: u32 = 32;
const OPEN_WINDOW_BYTES: (u64, u64) = (512, 64 << 20);
/// What may be in flight before the first look (RFC 6928).
const INITIAL_PACKETS: u64 = 10;

/// What bounds the flight.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// TCP's own window, so far.
    Below,
    /// The rate to which the kernel spreads what it sends.
    Rate(Rate),
    /// A window in bytes, which the open window takes for its own.
    Window(u64),
}

impl Limit {
    /// As `SO_MAX_PACING_RATE` says it.
    fn raw(self) -> u64 {
        match self {
            Self::Below => u64::MAX,
            Self::Rate(rate) => rate.as_bytes_per_sec(),
            Self::Window(bytes) => bytes.clamp(OPEN_WINDOW_BYTES.0, OPEN_WINDOW_BYTES.1) << OPEN_WINDOW_SHIFT,
        }
    }
}

/// What inline mode needs.
pub(crate) struct Inline {
    /// What was set in the kernel last.
    limit: Limit,
    /// Bytes that were taken for sent and never were: the kernel counts segments, and not all were full.
    never_sent: u64,
    /// `SO_MAX_PACING_RATE`, as set last.
    rate: u64,
    /// `TCP_NOTSENT_LOWAT`, as wanted last; the program's own while it is left to itself.
    not_sent: Option<u64>,
    /// Bytes that the kernel had been given, at most, at the newest look since which the program may have written.
    given: u64,
    /// Bytes that had arrived by the newest look, and whether some were on their way.
    arrived: u64,
    on_their_way: bool,
    /// How fast they arrive.
    delivery: Rate,
}

/// Before the congestion control `lower` is selected: where it is the open window, it must not begin wide open.
pub(crate) fn begin(fd: &OwnedFd, lower: &str, mss: u32) {
    if lower == OPEN_WINDOW {
        let _ = setsockopt(fd, MaxPacingRate, &Limit::Window(INITIAL_PACKETS * u64::from(mss)).raw());
    }
}

impl Inline {
    /// Begins it; the queue is empty.
    pub(crate) fn new(link: &mut Link, fd: &OwnedFd) -> Self {
        // Positions count from what is acknowledged now where they could not be known before.
        let before = link.info.acked.saturating_sub(link.acked);
        link.base.get_or_insert(before);
        let window = link.above.controller().window();
        let limit = match tcp_congestion(fd) {
            Ok(name) if name == OPEN_WINDOW => Limit::Window(window),
            _ => Limit::Below,
        };
        link.obeys = limit != Limit::Below;
        let (arrived, on_their_way) = (link.info.arrived(), false);
        let rate = link.program.pacing;
        let (given, delivery) = (u64::MAX, Rate::ZERO);
        let mut inline = Self { limit, never_sent: 0, rate, not_sent: None, given, arrived, on_their_way, delivery };
        link.look_at = Time::NEVER;
        inline.watch(link, fd);
        inline
    }

    /// The application writes to the kernel: looks at the connection from now on, and steers it.
    pub(crate) fn watch(&mut self, link: &mut Link, fd: &OwnedFd) {
        if link.look_at == Time::NEVER {
            link.look_at = link.local(clock::now()) + LOOK;
            self.steer(link, fd);
            if self.not_sent.is_none() {
                self.bound(link, fd, NOT_SENT.0);
            }
        }
    }

    /// What the kernel is to go by at present is set.
    fn steer(&mut self, link: &Link, fd: &OwnedFd) {
        let rate = match self.limit {
            Limit::Below | Limit::Rate(_) => self.limit.raw().min(link.program.pacing),
            Limit::Window(_) => self.limit.raw(),
        };
        if rate != self.rate {
            self.rate = rate;
            // Where it is refused, what the kernel's own control permits is sent.
            let _ = setsockopt(fd, MaxPacingRate, &rate);
        }
    }

    /// What may wait in the kernel is set.
    fn bound(&mut self, link: &Link, fd: &OwnedFd, bytes: u64) {
        self.not_sent = Some(bytes);
        // A kernel that does not know it lets more wait; nothing else changes.
        let _ = setsockopt(fd, NotSentLowat, &link.program.not_sent(bytes));
    }

    /// The program's own rate holds, and nothing is looked at before the program writes.
    fn rest(&mut self, link: &mut Link) {
        self.rate = link.program.pacing;
        link.look_at = Time::NEVER;
    }

    /// The program's own options hold until it writes.
    pub(crate) fn let_go(&mut self, link: &mut Link, fd: &OwnedFd) {
        link.program.restore(fd);
        self.not_sent = None;
        self.rest(link);
    }

    /// Right after a look, before which `waiting` bytes were in the kernel's send queue: another has written past the library, and the
    /// program has `written` nothing since the look before. An end of the stream counts as a byte there.
    fn is_bypassed(&mut self, info: &TcpInfo, fd: &OwnedFd, waiting: Option<u64>, written: bool) -> bool {
        if written {
            self.given = waiting.map_or(u64::MAX, |waiting| info.acked + waiting);
        }
        send_queue(fd).is_ok_and(|waiting| info.acked + waiting > self.given.saturating_add(1))
    }

    /// The program has set bounds of its own.
    pub(crate) fn set_program(&mut self, link: &Link, fd: &OwnedFd) {
        // It is not known what the kernel has.
        self.rate = 0;
        self.steer(link, fd);
        match self.not_sent {
            Some(bytes) => self.bound(link, fd, bytes),
            None => drop(setsockopt(fd, NotSentLowat, &link.program.not_sent)),
        }
    }

    /// What was set at another socket by mistake is the program's own again: of this one's, since the other has most likely the same
    /// listener's.
    pub(crate) fn take_back(&self, link: &Link, fd: &OwnedFd) {
        if !self.is_taken(fd) {
            let _ = setsockopt(fd, MaxPacingRate, &link.program.pacing);
        }
        if self
            .not_sent
            .is_some_and(|ours| getsockopt(fd, NotSentLowat).is_ok_and(|now| now == link.program.not_sent(ours)))
        {
            let _ = setsockopt(fd, NotSentLowat, &link.program.not_sent);
        }
    }

    /// Another rate was set: another process holds the socket, and its rate is not ours to change.
    fn is_taken(&self, fd: &OwnedFd) -> bool {
        getsockopt(fd, MaxPacingRate).is_ok_and(|rate| rate != self.rate)
    }

    /// A time has come: reads `TCP_INFO`, informs the controller, and sets the rate. A program that writes past the library is not steered: another
    /// process, `io_uring` or system calls of the program's own have the socket as the program has it, until `has_written` says that it
    /// writes through the library again.
    pub(crate) fn timer(&mut self, link: &mut Link, fd: &OwnedFd, has_written: impl Fn() -> bool) {
        let now = link.local(clock::now());
        if link.look_at > now || link.dead {
            return;
        }
        let (since, last) = (link.looked_at, link.info);
        let waiting = send_queue(fd).ok();
        link.look(fd, now);
        let info = link.info;
        if self.is_bypassed(&info, fd, waiting, has_written()) {
            if self.is_taken(fd) {
                self.rest(link);
            } else {
                self.let_go(link, fd);
            }
            return;
        }
        self.note_arrived(&info, now - since);
        let mut acked = (info.acked.saturating_sub(link.base.unwrap_or(info.acked)) + self.never_sent).max(link.acked);
        let flight = u64::from(info.unacked) * u64::from(info.mss);
        note_sent(link, since, now, acked + flight);
        link.counters.delivered = acked - self.never_sent;
        if info.is_quiet() {
            // Else they would be in flight for ever.
            let more = link.above.next().saturating_sub(acked);
            self.never_sent += more;
            acked += more;
            link.counters.written = link.counters.written.saturating_sub(more);
        }
        if acked > link.acked {
            link.acked = acked;
            link.counters.marked += u64::from(link.repairing);
            // When what was written left is known to a look, no better.
            let of_late = info.smallest_rtt_of_late().filter(|_| matches!(self.limit, Limit::Window(_)));
            let rtt = match of_late {
                Some(rtt) => rtt,
                None if is_fast(link) => info.smallest_rtt(),
                None => self.rtt_without_burst(link),
            };
            let took = if rtt > Nanos::ZERO { Took::Known(rtt) } else { Took::Reported };
            let delivered =
                Delivered { upto: acked, at: now, repaired: link.repairing, took, arrived: ArrivalClock::Unknown };
            let news = link.above.delivered(now, &delivered);
            link.note_rtt(now, news);
        }
        // After the news: a controller that permits an amount for each tick knows what was sent by the last one.
        link.above.tick(now);
        // What waits in the kernel is what the application has written and the controller has not permitted.
        link.above.cut();
        link.above.queued(u64::from(info.unsent));
        link.above.poll(now);
        if link.obeys && info.unsent > 0 && info.held_by_receiver == last.held_by_receiver {
            link.above.filled();
        }
        // A controller with a clock permits this much until it rings again.
        let rings = link.above.controller().next_tick().max(now + LOOK);
        let next = (now + look_gap(link)).min(rings);
        if self.is_taken(fd) {
            self.rest(link);
            return;
        }
        self.set_limit(link, fd, next - now);
        link.look_at = next;
        if info.is_quiet() {
            // While it is not looked at it has no rate of ours: another holder may write to it.
            if self.rate != link.program.pacing {
                let _ = setsockopt(fd, MaxPacingRate, &link.program.pacing);
            }
            self.rest(link);
        }
    }

    /// The RTT of what was acknowledged since the look before, without the time that a burst takes to pass. The kernel's samples
    /// are of packets that leave in twos and are acknowledged together: the first has waited for the second, which a
    /// controller would take for a queue. Half a packet more is what the mean of a look lies above its smallest (our
    /// choice, by measurement: with two packets Copa sees no queue where there is one, and with one it does not see that one has emptied).
    fn rtt_without_burst(&self, link: &Link) -> Nanos {
        let info = &link.info;
        let waited = self.delivery.time_for(u64::from(info.mss) * 3 / 2);
        (link.rtt_between - waited).max(info.min_rtt.min(info.rtt))
    }

    /// Takes the delivery rate on.
    fn note_arrived(&mut self, info: &TcpInfo, span: Nanos) {
        // It says nothing when there was nothing to arrive.
        if self.on_their_way {
            let bytes = info.arrived().saturating_sub(self.arrived);
            self.delivery = law::average(self.delivery, bytes, span, info.min_rtt, info.mss);
        }
        // A repair moves bytes from one count to the other.
        self.arrived = self.arrived.max(info.arrived());
        self.on_their_way = info.unacked > 0;
    }

    fn set_limit(&mut self, link: &Link, fd: &OwnedFd, gap: Nanos) {
        let info = &link.info;
        if info.rtt == Nanos::ZERO {
            return;
        }
        let window = link.above.controller().window();
        let pacing = match link.above.controller().pacing() {
            Pacing::Rate(rate) => rate,
            Pacing::Free | Pacing::Gap(_) => Rate::INFINITY,
        };
        let law = Law {
            window,
            flight: info.pipe(),
            pacing,
            delivery: self.delivery,
            usual: info.rate,
            gap,
            rtt: info.min_rtt,
            mss: info.mss,
        };
        let rate = law.rate();
        let limit = match self.limit {
            Limit::Window(_) => Limit::Window(window),
            Limit::Below if info.window() <= window => Limit::Below,
            Limit::Below | Limit::Rate(_) => Limit::Rate(rate),
        };
        let before = self.limit.raw();
        if limit.raw().abs_diff(before) as f64 > before as f64 * WORTH {
            self.limit = limit;
            if !info.is_quiet() {
                self.steer(link, fd);
            }
        }
        let not_sent = rate.bytes_in(NOT_SENT_TIME).clamp(NOT_SENT.0, NOT_SENT.1);
        let before = self.not_sent.unwrap_or(NOT_SENT.0);
        if not_sent >= before * NOT_SENT_WORTH || not_sent * NOT_SENT_WORTH <= before {
            self.bound(link, fd, not_sent);
        }
    }
}

/// Time between two looks.
fn look_gap(link: &Link) -> Nanos {
    let (looks, least) = if is_fast(link) { FAST_LOOKS } else { LOOKS };
    // Not the present RTT: after an outage that is long, and the path fast again.
    least.max(link.info.min_rtt.mul_div(1, looks))
}

/// A look comes rarely for what passes meanwhile.
fn is_fast(link: &Link) -> bool {
    link.above.rate() >= FAST
}

/// The kernel has sent everything below `position` since the look before, evenly as far as is known.
fn note_sent(link: &mut Link, since: Time, now: Time, position: u64) {
    let new = position.saturating_sub(link.above.next());
    if new == 0 {
        return;
    }
    link.counters.written += new;
    link.above.cut();
    link.above.queued(new);
    let span = (now - since).min(look_gap(link));
    let chunk = u64::from(link.mss) * u64::from(link.chunk());
    let mut sent = 0;
    while sent < new {
        let bytes = chunk.min(new - sent);
        sent += bytes;
        let at = now - span + span.mul_div(sent, new);
        link.above.handed(at, bytes as u32, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_taken_for_a_window_and_no_window_for_a_rate() {
        // From 2^40 on it is a window, and the largest number is neither (the kernel crate's `open_window.h`).
        let window_from = 1 << 40;
        assert!(Limit::Rate(Rate::from_mbps(1_000_000.0)).raw() < window_from);
        assert_eq!(Limit::Window(14_480).raw(), 14_480 << 32);
        for bytes in [0, 1, 1 << 40, u64::MAX] {
            assert!((window_from..u64::MAX).contains(&Limit::Window(bytes).raw()), "{bytes}");
        }
        assert_eq!(Limit::Below.raw(), u64::MAX);
    }
}
