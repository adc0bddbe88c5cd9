//! From quinn's calls to a controller's: the translation, without clock and sockets.
//!
//! Source: `quinn_proto::congestion::Controller` of quinn-proto 0.11.19 and where its connection calls it; RFC 9002
//! section 7 for episodes. What differs from paceline's own datapaths, because quinn tells no more:
//!
//! - Departures come a batch at a time, and with them packets that are never acknowledged (pure ACKs).
//! - Losses are reported after the acknowledgement that showed them.
//! - An episode lasts until something sent after its start is acknowledged (RFC 9002 section 7.3.2), and the window counts
//!   at once: no proportional rate reduction.
//! - There is no call for a probe timeout: [`Controller::on_timeout`] means persistent congestion (section 7.6).
//! - Spurious losses are not reported: [`Controller::on_spurious`] never comes.
//! - A mark is reported without the number of marked bytes. To a controller that does not use ECN it is the loss of one
//!   packet, since quinn sends ECT(0) whatever the controller (RFC 3168 section 5 asks for the same answer).
//! - A rate becomes a window: see [`Credit`].
//! - Ticks come late, each for its own time, at the next call; the last one that is due at an acknowledgement comes after it.

use paceline_cc::{Cause, Controller, Ecn, Lost, Nanos, Pacing, Phase, Rate, Time};
use paceline_transport::{AckProgress, ArrivalClock, Delivery, Departing, Driver, Marks, SenderConfig, SentPacket};

use crate::flight::{self, Flight};

/// Most ticks made up for at one call (our choice: 5 s of Verus's epochs); after a longer silence one stands for the rest.
const TICKS: u32 = 1000;
/// Longest time for which credit is saved up (our choice: acknowledgements may come in lumps of this length; more is a
/// burst).
const LUMP: Nanos = Nanos::from_millis(10);
/// Least bound of the credit in packets (our choice: what quinn's own pacer lets go at once).
const LEAST_CREDIT: u64 = 10;

/// A controller driven by quinn's calls. Times count from any one moment.
pub struct Bridge {
    driver: Driver,
    flight: Flight,
    credit: Credit,
    /// As quinn last said, and what left or was lost since.
    in_flight: u64,
    /// In flight before the batch of acknowledgements that is coming in.
    prior: Option<u64>,
    acked: Vec<SentPacket>,
    front: Front,
    lost: Vec<Lost>,
    /// Lost bytes that no acknowledgement has reported.
    lost_bytes: u64,
    next: u64,
    serial: u64,
    phase: Phase,
    /// When the last episode began.
    episode: Option<Time>,
    timeouts: u32,
    /// When quinn last called.
    now: Time,
    /// Between the last two ticks.
    tick_interval: Nanos,
    window: u64,
}

/// The newest packet ever acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    sent_at: Time,
    /// The end of its bytes.
    end: u64,
    tag: u64,
}

/// What losses mean for the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    SameEpisode,
    NewEpisode,
    /// Persistent congestion.
    Persistent,
}

/// How a rate is expressed by a window, quinn's controllers having nothing else: what the rate has allowed since the last
/// call may be in flight beside what is. It accrues with time, up to [`LUMP`]'s worth, so that the rate is kept on average
/// whatever the RTT; quinn's own pacer (5/4 of the window each smoothed RTT, bursts of 10 packets) spreads it. A rate above
/// that pacer's is kept without: credit would only hold the flow between two calls and let it go in bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Credit {
    rate: Option<Rate>,
    most: u64,
    bytes: u64,
    at: Time,
}

impl Bridge {
    /// Drives `controller`, made for packets of `mtu` bytes.
    pub fn new(controller: Box<dyn Controller>, mtu: u16) -> Self {
        let mtu = u32::from(mtu.max(1));
        let mut bridge = Self {
            driver: Driver::new(&SenderConfig { mss: mtu, ..SenderConfig::default() }, controller),
            flight: Flight::default(),
            credit: Credit::default(),
            in_flight: 0,
            prior: None,
            acked: Vec::new(),
            front: Front::default(),
            lost: Vec::new(),
            lost_bytes: 0,
            next: 0,
            serial: 0,
            phase: Phase::Open,
            episode: None,
            timeouts: 0,
            now: Time::ZERO,
            tick_interval: Nanos::ZERO,
            window: 0,
        };
        bridge.refresh();
        bridge
    }

    /// A batch of `bytes` left at `now`.
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        if self.in_flight == 0 {
            self.driver.restart(now);
        }
        let mut left = bytes;
        while left > 0 {
            let size = left.min(u64::from(self.mtu())) as u32;
            self.send(now, size);
            left -= u64::from(size);
        }
        self.refresh();
    }

    fn send(&mut self, now: Time, bytes: u32) {
        let first = self.in_flight == 0;
        self.in_flight = self.in_flight.saturating_add(u64::from(bytes));
        self.serial += 1;
        let mut packet = SentPacket::new(self.next, bytes, now);
        packet.serial = self.serial;
        // quinn does not say what waits; a controller asks only whether a chirp can be filled.
        self.driver.sent(now, &mut packet, &Departing { in_flight: self.in_flight, unsent: u64::MAX, first });
        self.flight.push(packet);
        self.next = self.next.saturating_add(u64::from(bytes));
        self.credit.bytes = self.credit.bytes.saturating_sub(u64::from(bytes));
    }

    /// A packet of `bytes` that left at `sent_at` was acknowledged. `app_limited`: before that, the application had
    /// nothing to send.
    pub fn on_ack(&mut self, now: Time, sent_at: Time, bytes: u64, app_limited: bool) {
        self.begin(now, app_limited);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.acked.extend(self.flight.acked(sent_at, bytes));
    }

    /// A batch of acknowledgements begins.
    fn begin(&mut self, now: Time, app_limited: bool) {
        if self.prior.is_some() {
            return;
        }
        self.credit.accrue(now);
        // What the last tick allows could not leave before the acknowledgement, so it must count from the flight after it.
        self.tick(now, self.tick_interval);
        self.prior = Some(self.in_flight);
        if app_limited {
            self.driver.run_dry(now, self.in_flight);
        }
    }

    /// The batch is complete and `in_flight` bytes are left. Answers the RTT of its newest packet.
    pub fn on_end_acks(&mut self, now: Time, in_flight: u64, app_limited: bool) -> Option<Nanos> {
        self.begin(now, app_limited);
        let prior_in_flight = self.prior.take().unwrap_or(in_flight);
        self.in_flight = in_flight;
        let before = self.front.sent_at;
        let sample = if self.acked.is_empty() { None } else { self.deliver(now, prior_in_flight, app_limited) };
        self.acked.clear();
        if in_flight == 0 {
            self.flight.clear();
        } else if let Some(srtt) = self.driver.rtt().smoothed() {
            self.flight.forget(flight::horizon(now, before, srtt.max(sample.unwrap_or(srtt))));
        }
        self.driver.refresh();
        self.driver.tick(now);
        self.refresh();
        sample
    }

    fn deliver(&mut self, now: Time, prior_in_flight: u64, app_limited: bool) -> Option<Nanos> {
        let mut delivery = self.driver.delivered(now, &mut self.acked, false, &ArrivalClock::Unknown);
        let newest = delivery.newest.as_mut()?;
        newest.window_limited &= !app_limited;
        let sent_at = newest.sent_at;
        // RFC 9002 section 5.1: only where the newest packet ever acknowledged is among them.
        if sent_at < self.front.sent_at {
            delivery.rtt = None;
        } else {
            self.front = Front { sent_at, end: self.front.end.max(newest.end()), tag: newest.tag };
        }
        if let Some(sample) = delivery.rtt {
            self.driver.sample(sample, self.front.end, self.next);
        }
        if self.episode.is_some_and(|start| sent_at > start) {
            self.phase = Phase::Open;
            self.timeouts = 0;
        }
        let lost_bytes = std::mem::take(&mut self.lost_bytes);
        let progress = AckProgress { prior_in_flight, lost_bytes, ..self.progress() };
        self.driver.acknowledge(now, &delivery, &progress);
        delivery.rtt
    }

    fn mtu(&self) -> u32 {
        self.driver.config().mss
    }

    fn progress(&self) -> AckProgress {
        AckProgress { phase: self.phase, ..AckProgress::at(self.front.end, self.next, self.in_flight) }
    }

    /// `lost_bytes` were declared lost, the last of them sent at `sent_at`; zero: a packet sent then was marked.
    pub fn on_congestion_event(&mut self, now: Time, sent_at: Time, persistent: bool, lost_bytes: u64) {
        self.advance(now);
        let severity = if persistent {
            Severity::Persistent
        } else if self.episode.is_none_or(|start| sent_at > start) {
            Severity::NewEpisode
        } else {
            Severity::SameEpisode
        };
        if lost_bytes > 0 {
            self.lose(now, sent_at, severity, lost_bytes);
        } else if severity != Severity::SameEpisode {
            self.mark(now, sent_at);
        }
        self.refresh();
    }

    fn lose(&mut self, now: Time, sent_at: Time, severity: Severity, bytes: u64) {
        let prior_in_flight = self.in_flight;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.lost_bytes = self.lost_bytes.saturating_add(bytes);
        self.lost.clear();
        self.flight.lost(sent_at, bytes, &mut self.lost);
        let starts = severity != Severity::SameEpisode;
        if starts {
            self.phase = if severity == Severity::Persistent { Phase::Loss } else { Phase::Recovery };
            self.episode = Some(now);
        }
        if severity == Severity::Persistent {
            self.timeouts = self.timeouts.saturating_add(1);
            let count = self.timeouts;
            self.driver.timeout(now, &mut self.lost, prior_in_flight, self.in_flight, count);
            return;
        }
        if self.lost.is_empty() {
            self.lost.push(Lost {
                seq: self.front.end,
                bytes: bytes.min(u64::from(self.mtu())) as u32,
                sent_at,
                tag: self.front.tag,
                cause: Cause::Unknown,
            });
        }
        self.driver.lose(now, &mut self.lost, prior_in_flight, self.in_flight, starts);
    }

    /// The first mark of an episode.
    fn mark(&mut self, now: Time, sent_at: Time) {
        self.episode = Some(now);
        if self.driver.nature().ecn == Ecn::Off {
            self.phase = Phase::Recovery;
            self.lost.clear();
            let Front { end, tag, .. } = self.front;
            let seq = end.saturating_sub(u64::from(self.mtu()));
            self.lost.push(Lost { seq, bytes: self.mtu(), sent_at, tag, cause: Cause::Unknown });
            self.driver.lose(now, &mut self.lost, self.in_flight, self.in_flight, true);
        } else {
            self.phase = Phase::Cwr;
            let marks = Marks { bytes: u64::from(self.mtu()), packets: 1, echo: true };
            self.driver.acknowledge(now, &Delivery::default(), &AckProgress { marks, ..self.progress() });
        }
    }

    /// Packets have `mtu` bytes from now on.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.driver.set_mss(self.now, u32::from(mtu.max(1)));
        self.refresh();
    }

    /// quinn's window: a packet leaves while what is in flight plus one packet stays *below* it. There is always room for
    /// one, so that the flow cannot stop for ever.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }

    /// Time goes on to `now`: credit accrues, ticks come.
    fn advance(&mut self, now: Time) {
        self.credit.accrue(now);
        self.tick(now, Nanos::ZERO);
    }

    /// The ticks that were due `ago`, each for its own time.
    fn tick(&mut self, now: Time, ago: Nanos) {
        self.now = now;
        for _ in 0..TICKS {
            let due = self.driver.next_tick();
            if due + ago > now {
                return;
            }
            self.driver.tick(due);
            let next = self.driver.next_tick();
            if next <= due {
                break;
            }
            self.tick_interval = next - due;
        }
        self.driver.tick(now);
    }

    /// Asks the controller again.
    fn refresh(&mut self) {
        let mtu = u64::from(self.mtu());
        self.driver.refresh();
        let rate = match self.driver.controller().pacing() {
            Pacing::Free => None,
            Pacing::Rate(rate) => Some(rate),
            Pacing::Gap(gap) => Some(Rate::from_bytes_in(mtu, gap)),
        };
        // Before the first RTT the window alone counts.
        let srtt = self.driver.rtt().smoothed();
        self.credit.set(rate.filter(|_| srtt.is_some()), LEAST_CREDIT * mtu);
        let own = self.driver.window();
        // What the window forbids is not saved up: a slower pace shows at once.
        self.credit.bytes = self.credit.bytes.min(own.saturating_sub(self.in_flight));
        let pacer = srtt.map_or(Rate::INFINITY, |srtt| Rate::from_bytes_in(own.saturating_add(own / 4), srtt));
        let slower = self.credit.rate.is_some_and(|rate| rate < pacer);
        let room = if slower { self.in_flight.saturating_add(self.credit.bytes) } else { u64::MAX };
        self.window = own.min(room).max(mtu).saturating_add(1);
    }
}

impl Credit {
    fn accrue(&mut self, now: Time) {
        if let Some(rate) = self.rate {
            self.bytes = self.bytes.saturating_add(rate.bytes_in(now - self.at)).min(self.most);
        }
        self.at = self.at.max(now);
    }

    fn set(&mut self, rate: Option<Rate>, least: u64) {
        self.most = rate.map_or(0, |rate| rate.bytes_in(LUMP).max(least));
        self.bytes = if self.rate.is_none() { self.most } else { self.bytes.min(self.most) };
        self.rate = rate;
    }
}
