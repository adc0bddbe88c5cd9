//! The sender behind streams and datagrams: sends what window and pacing permit, keeps the timers.
//!
//! Sources: RFC 5681, 6298, 6937, 8985 (RACK-TLP), 5682 and 3522 (undo of timeouts), 3168; Linux `tcp_output.c`,
//! `tcp_input.c`, `tcp_recovery.c`. What differs:
//! - A packet keeps its boundaries when it is sent again, so the scoreboard is by packets.
//! - No receive window: the receiver reads at once (our choice; flow control is not part of the question).
//! - A lost handshake is repeated after the initial RTO, doubled each time, and costs no window: the time stamp gives its
//!   RTT (RFC 6298 section 5.7 and RFC 5681 section 3.1 are for senders without it).
//! - Empty packets (heartbeats) ignore window and pacing, and are not followed.
//! - Spurious timeouts are found by time stamps (RFC 3522) and by acknowledgements of originals (RFC 5682 step 3.b);
//!   RFC 5682 step 2.b, new data instead of repairs, is left out since time stamps are always there.

use paceline_cc::{Controller, Ecn, Lost, Nanos, Phase, Telemetry, Time};

use crate::config::SenderConfig;
use crate::driver::{AckProgress, Departing, Driver};
use crate::endpoint::{Sender, SenderStats, Steering};
use crate::packet::{SentPacket, State};
use crate::prr::Prr;
use crate::recovery::{Reordering, Undo, probe_timeout};
use crate::scoreboard::Scoreboard;
use crate::segment::{AckSegment, Segment};

/// What happens to lost payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is sent again: a stream.
    Reliable,
    /// It is gone: datagrams.
    Unreliable,
}

/// How far the exchange before any data has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// Its packet must leave.
    Due,
    /// Its packet must leave again.
    DueAgain,
    /// Its packet is on its way.
    Sent,
    /// It is over, or there is none.
    Done,
}

/// A tail loss probe on its way (RFC 8985 `TLP.end_seq`, `TLP.is_retrans`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) end: u64,
    /// The packet as it was before it was sent again; `None` when the probe carried new data.
    pub(crate) repaired: Option<SentPacket>,
}

/// What an acknowledgement said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest {
    /// The RTT that the controller learned.
    pub(crate) rtt: Option<Nanos>,
    /// Packets found lost.
    pub(crate) lost: u32,
    /// The last reduction was undone: it answered a spurious loss.
    pub(crate) undone: bool,
}

/// What the timers found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fired {
    /// No loss.
    Nothing,
    /// This many packets lost, by the reordering timer.
    Losses(u32),
    /// A timeout.
    Timeout,
}

/// A sender of a stream or of datagrams.
pub(crate) struct FlowSender {
    pub(crate) driver: Driver,
    pub(crate) board: Scoreboard,
    /// Scratch for one round of loss detection.
    pub(crate) lost: Vec<Lost>,
    pub(crate) delivery: Delivery,
    pub(crate) stats: SenderStats,
    handshake: Handshake,
    /// Everything below is settled.
    pub(crate) una: u64,
    /// Position of the next new byte.
    pub(crate) next: u64,
    /// One past the last byte that the application handed over.
    end: u64,
    pub(crate) phase: Phase,
    /// The phase is over when everything below has been settled.
    pub(crate) recovery_point: u64,
    pub(crate) prr: Option<Prr>,
    pub(crate) undo: Option<Undo>,
    pub(crate) reordering: Reordering,
    /// Duplicates that the receiver reported (Linux `dsack_dups`).
    pub(crate) duplicates: u64,
    /// Timeouts in a row.
    pub(crate) backoff: u32,
    pub(crate) probe: Option<Probe>,
    probe_due: bool,
    /// Serial and departure of the empty packet whose answer is waited for.
    pub(crate) empty: Option<(u64, Time)>,
    pub(crate) cwr_due: bool,
    /// Accurate counters as last reported.
    pub(crate) ce_bytes: u64,
    pub(crate) ce_packets: u64,
    pub(crate) rto_at: Time,
    pub(crate) probe_at: Time,
    pub(crate) reordering_at: Time,
    /// When pacing lets the next packet go that the window permits.
    wake_at: Time,
    /// Data was held back when last asked.
    blocked: bool,
}

impl FlowSender {
    pub(crate) fn new(config: &SenderConfig, controller: Box<dyn Controller>, delivery: Delivery, start: u64) -> Self {
        Self {
            driver: Driver::new(config, controller),
            board: Scoreboard::new(config.mss),
            lost: Vec::new(),
            delivery,
            stats: SenderStats::default(),
            handshake: if config.handshake { Handshake::Due } else { Handshake::Done },
            una: start,
            next: start,
            end: start,
            phase: Phase::Open,
            recovery_point: start,
            prr: None,
            undo: None,
            reordering: Reordering::new(),
            duplicates: 0,
            backoff: 0,
            probe: None,
            probe_due: false,
            empty: None,
            cwr_due: false,
            ce_bytes: 0,
            ce_packets: 0,
            rto_at: Time::NEVER,
            probe_at: Time::NEVER,
            reordering_at: Time::NEVER,
            wake_at: Time::NEVER,
            blocked: false,
        }
    }

    /// Bytes handed over and not yet sent once.
    pub(crate) fn unsent(&self) -> u64 {
        self.end - self.next
    }

    /// The window or pacing holds back data that the application handed over before now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent() > 0 && self.blocked
    }

    /// Something was sent and is neither delivered nor, for datagrams, given up.
    fn has_outstanding(&self) -> bool {
        match self.delivery {
            Delivery::Reliable => !self.board.is_empty(),
            Delivery::Unreliable => self.board.in_flight > 0,
        }
    }

    pub(crate) fn rto(&self) -> Nanos {
        let config = &self.driver.config;
        self.driver.rtt.rto(config).mul_div(1 << self.backoff.min(20), 1).min(config.max_rto)
    }

    /// Restarts the retransmission timer.
    pub(crate) fn arm_rto(&mut self, now: Time) {
        self.rto_at = if self.has_outstanding() { now + self.rto() } else { Time::NEVER };
    }

    /// Restarts the probe timer.
    pub(crate) fn arm_probe(&mut self, now: Time) {
        let quiet = matches!(self.phase, Phase::Open | Phase::Cwr) && self.board.held() == 0;
        self.probe_at = if self.driver.config.tail_probe && quiet && self.probe.is_none() && self.board.in_flight > 0 {
            let delayed = self.delivery == Delivery::Reliable && self.board.len() == 1;
            let timeout = probe_timeout(&self.driver.rtt, &self.driver.config, delayed);
            (now + timeout).min(self.rto_at)
        } else {
            Time::NEVER
        };
    }

    #[inline]
    fn segment(&mut self, now: Time, seq: u64, bytes: u32, retransmission: bool, note: u64) -> Segment {
        let ecn = match self.driver.nature.ecn {
            // RFC 3168 section 6.1.5: retransmissions are not ECN-capable.
            Ecn::Classic if retransmission || bytes == 0 => Ecn::Off,
            ecn => ecn,
        };
        let cwr = self.cwr_due && !retransmission && bytes > 0;
        if cwr {
            self.cwr_due = false;
        }
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += u64::from(bytes);
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes);
        }
        Segment { seq, bytes, sent_at: now, retransmission, syn: false, cwr, ecn, note }
    }

    /// Data may leave.
    pub(crate) fn is_connected(&self) -> bool {
        self.handshake == Handshake::Done
    }

    /// The handshake's packet, of which no controller is informed. It is not ECN-capable (RFC 3168 section 6.1.1).
    #[cold]
    fn send_syn(&mut self, now: Time, again: bool) -> Segment {
        self.handshake = Handshake::Sent;
        self.rto_at = now + self.rto();
        self.stats.retransmits += u64::from(again);
        Segment { syn: true, ecn: Ecn::Off, ..self.segment(now, self.next, 0, again, 0) }
    }

    /// The handshake's answer arrived, or one that comes too late or too early to measure anything.
    pub(crate) fn take_answer(&mut self, now: Time, ack: &AckSegment) {
        if ack.syn && !self.is_connected() {
            self.handshake = Handshake::Done;
            self.rto_at = Time::NEVER;
            self.backoff = 0;
            let progress = AckProgress::at(self.next, self.next, 0);
            self.driver.connected(now, now - ack.echo_sent_at, &progress);
        }
    }

    #[inline(always)]
    fn send_new(&mut self, now: Time, bytes: u32) -> Option<Segment> {
        let first = !self.has_outstanding();
        if first {
            self.driver.restart(now);
        }
        let mut packet = SentPacket::new(self.next, bytes, now);
        let in_flight = self.board.in_flight + u64::from(bytes);
        let unsent = self.unsent() - u64::from(bytes);
        let note = self.driver.sent(now, &mut packet, &Departing { in_flight, unsent, first });
        self.board.push(packet);
        self.next = packet.end();
        if self.rto_at == Time::NEVER {
            self.arm_rto(now);
        }
        self.arm_probe(now);
        Some(self.segment(now, packet.seq, bytes, false, note))
    }

    fn send_again(&mut self, now: Time, number: u64) -> Option<Segment> {
        let before = self.board.in_flight;
        let old = *self.board.get(number)?;
        let in_flight = if old.state == State::Lost { before + u64::from(old.bytes) } else { before };
        let unsent = self.unsent();
        let packet = self.board.resend(number, now)?;
        let note = self.driver.sent(now, packet, &Departing { in_flight, unsent, first: false });
        if number == self.board.first_number() {
            self.arm_rto(now);
        }
        if let Some(undo) = &mut self.undo {
            undo.on_repair(now);
        }
        self.stats.retransmits += 1;
        Some(self.segment(now, old.seq, old.bytes, true, note))
    }

    fn send_empty(&mut self, now: Time) -> Segment {
        let load = Departing { in_flight: self.board.in_flight, unsent: self.unsent(), first: false };
        let note = self.driver.sent_empty(now, self.next, &load);
        self.empty_segment(now, note)
    }

    /// An empty packet that carries `note`. One at a time is waited for, so that even heartbeats closer than a round trip
    /// give an RTT.
    pub(crate) fn empty_segment(&mut self, now: Time, note: u64) -> Segment {
        if self.empty.is_none_or(|(_, sent_at)| sent_at + self.rto() <= now) {
            self.empty = Some((self.board.skip_serial(), now));
        }
        self.segment(now, self.next, 0, false, note)
    }

    /// RFC 8985 section 7.3: new data if there is any, else the last packet again. For datagrams an empty packet
    /// stands for the latter.
    #[cold]
    fn send_probe(&mut self, now: Time) -> Option<Segment> {
        if self.board.in_flight == 0 {
            return None;
        }
        self.stats.probes += 1;
        let bytes = self.unsent().min(u64::from(self.driver.config.mss)) as u32;
        let (segment, repaired) = if bytes > 0 {
            (self.send_new(now, bytes)?, None)
        } else if self.delivery == Delivery::Unreliable {
            self.empty = None;
            (self.send_empty(now), None)
        } else {
            let number = self.board.last_undelivered()?;
            let packet = *self.board.get(number)?;
            // A probe is not a repair of a declared loss: it must not count towards an undo.
            let undo = self.undo.take();
            let segment = self.send_again(now, number)?;
            self.undo = undo;
            (segment, Some(packet))
        };
        self.probe = Some(Probe { end: self.next, repaired });
        self.probe_at = Time::NEVER;
        self.arm_rto(now);
        Some(segment)
    }

    /// RFC 6298 section 5: what is overdue is lost, the timeout doubles.
    fn on_rto(&mut self, now: Time) {
        let prior_in_flight = self.board.in_flight;
        // Within a recovery it is of the same losses, which were real (Linux `tcp_enter_loss`: no F-RTO).
        let fresh = matches!(self.phase, Phase::Open | Phase::Cwr);
        self.lost.clear();
        self.board.lose_overdue(now, &mut self.lost);
        if self.delivery == Delivery::Unreliable && self.driver.rtt.smoothed.is_some() {
            self.board.measure_no_lost();
        }
        let lost = self.lost.len() as u64;
        self.stats.packets_lost += lost;
        self.stats.timeouts += 1;
        self.backoff = self.backoff.saturating_add(1);
        self.phase = Phase::Loss;
        self.recovery_point = self.next;
        self.prr = None;
        self.probe = None;
        self.probe_due = false;
        self.reordering_at = Time::NEVER;
        self.probe_at = Time::NEVER;
        if fresh {
            let mut undo = Undo::new(self.una, self.next);
            undo.by_timeout = true;
            if self.delivery == Delivery::Unreliable {
                undo.open = lost;
            }
            self.undo = Some(undo);
        }
        self.driver.timeout(now, &mut self.lost, prior_in_flight, self.board.in_flight, self.backoff);
        self.settle(now);
        self.arm_rto(now);
    }

    /// Runs the timers that are due.
    pub(crate) fn fire(&mut self, now: Time) -> Fired {
        self.driver.tick(now);
        if !self.is_connected() {
            if self.rto_at <= now {
                self.rto_at = Time::NEVER;
                self.backoff = self.backoff.saturating_add(1);
                self.handshake = Handshake::DueAgain;
            }
            return Fired::Nothing;
        }
        let mut fired = Fired::Nothing;
        if self.reordering_at <= now {
            let prior_in_flight = self.board.in_flight;
            self.find_losses(now, prior_in_flight);
            fired = Fired::Losses(self.lost.len() as u32);
            self.reduce(0, false);
            self.settle(now);
            self.driver.refresh();
        }
        if self.rto_at <= now && self.probe_at > now {
            self.on_rto(now);
            fired = Fired::Timeout;
            self.driver.refresh();
        }
        if self.probe_at <= now {
            self.probe_at = Time::NEVER;
            self.probe_due = true;
            self.arm_rto(now);
        }
        fired
    }
}

impl Steering for FlowSender {
    fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
        self.driver.refresh();
    }

    fn cut(&mut self) -> u64 {
        let unsent = self.unsent();
        self.end = self.next;
        unsent
    }

    fn next_timeout(&self) -> Time {
        let timers = self.rto_at.min(self.probe_at).min(self.reordering_at);
        timers.min(self.wake_at).min(self.driver.next_tick()).min(self.driver.heartbeat_at())
    }

    fn on_timeout(&mut self, now: Time) {
        self.fire(now);
    }

    fn paced_until(&self) -> Time {
        self.driver.due()
    }

    fn is_idle(&self) -> bool {
        // Datagrams: `una` counts lost ones as settled.
        self.una == self.end
    }

    fn in_flight(&self) -> u64 {
        self.board.in_flight
    }

    fn window(&self) -> u64 {
        match (&self.prr, self.phase) {
            (Some(prr), Phase::Recovery) => prr.window,
            (Some(prr), Phase::Cwr) if !self.driver.controller.permit().holds_against_marks => prr.window,
            _ => self.driver.permit.window,
        }
    }

    fn srtt(&self) -> Option<Nanos> {
        self.driver.rtt.smoothed()
    }

    fn stats(&self) -> SenderStats {
        SenderStats {
            bytes_delivered: self.driver.bytes_delivered(),
            lost_by_medium: self.driver.causes.medium,
            lost_by_congestion: self.driver.causes.congestion,
            lost_by_policer: self.driver.causes.policer,
            ..self.stats
        }
    }

    fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }
}

impl Sender for FlowSender {
    fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        self.wake_at = Time::NEVER;
        if !self.is_connected() {
            return match self.handshake {
                Handshake::Due => Some(self.send_syn(now, false)),
                Handshake::DueAgain => Some(self.send_syn(now, true)),
                Handshake::Sent | Handshake::Done => None,
            };
        }
        if self.probe_due {
            self.probe_due = false;
            if let Some(segment) = self.send_probe(now) {
                return Some(segment);
            }
        }
        let repair = match self.delivery {
            Delivery::Reliable => self.board.next_waiting(),
            Delivery::Unreliable => None,
        };
        let bytes = match repair.and_then(|number| self.board.get(number)) {
            Some(packet) => packet.bytes,
            None => self.unsent().min(u64::from(self.driver.config.mss)) as u32,
        };
        let window = self.window();
        self.blocked = bytes > 0;
        if bytes == 0 {
            if self.board.in_flight + u64::from(self.driver.config.mss) <= window {
                self.driver.run_dry(now, self.board.in_flight);
                self.board.end_burst(false);
            }
        } else if self.board.in_flight + u64::from(bytes) > window {
            self.board.end_burst(true);
        } else if self.driver.due() > now {
            self.wake_at = self.driver.due();
        } else {
            return match repair {
                Some(number) => self.send_again(now, number),
                None => self.send_new(now, bytes),
            };
        }
        (self.driver.heartbeat_at() <= now).then(|| self.send_empty(now))
    }

    fn on_ack(&mut self, now: Time, ack: &AckSegment) -> Option<Nanos> {
        if let Some(blob) = &ack.feedback {
            self.stats.bad_feedback += u64::from(self.driver.feedback(now, blob).is_err());
        }
        self.take_ack(now, ack).rtt
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.driver.telemetry(telemetry);
    }
}
