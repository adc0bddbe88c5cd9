//! A controller for a TCP that is known by its counters alone: a kernel flow, whose agent learns now and then how much was
//! sent, delivered, lost, marked and sent again.
//!
//! Sans-IO. [`Counted`] turns each [`Counters`] into the calls of [`Driver`] that the packets in between would have made.
//! Counters count from the start of the flow, so a report that never came costs detail and no byte. What they do not say is
//! reconstructed:
//! - Packets are full, but for the last of what was sent since the report before. They left evenly spread between the first
//!   and the last moment of sending.
//! - Which packets are holes is not reported, only how many: the lowest are taken for them, as in [`crate::above`].
//! - Several acknowledgements are one event. It has the RTT of the newest, and [`Rtt`] the smallest.
//!
//! Loss recovery is that of the TCP; so is the bytes' reduction in it, where the controller [leaves it](Counted::glides) to the
//! datapath.

mod outstanding;
#[cfg(test)]
mod tests;

use paceline_cc::{Controller, Lost, Nanos, Pacing, Phase, Rate, Telemetry, Time};

use crate::config::SenderConfig;
use crate::driver::{AckProgress, ArrivalClock, Delivery, Departing, Driver, Marks};
use crate::packet::SentPacket;
use crate::prr::glides;
use crate::rtt::Rtt;

use outstanding::Outstanding;

/// Where a flow stands, and what it has counted since it began. Positions count bytes of the stream.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Counters {
    /// When this was so.
    pub at: Time,
    /// Everything below this position has been delivered.
    pub una: u64,
    /// Position of the next new byte to send.
    pub next: u64,
    /// One past the highest position known to be delivered.
    pub highest: u64,
    /// Packets delivered above `una` (Linux `sacked_out`).
    pub ahead: u32,
    /// Packets in flight (RFC 6675 pipe; Linux `tcp_packets_in_flight`).
    pub in_flight: u32,
    /// Payload bytes of a full packet.
    pub mss: u32,
    /// Bytes that the application has written and that have not been sent.
    pub unsent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Delivered packets that carried a mark, as far as the receiver says so.
    pub marked: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Reductions begun for another reason: an ECN echo, a loss that a probe repaired.
    pub echoes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Of these, the last in a row.
    pub backoff: u32,
    /// Reductions undone, because what was thought lost was not.
    pub undone: u64,
    /// RTT samples since the report before.
    pub rtt: Option<Samples>,
    /// Smoothed RTT, where the TCP has one.
    pub srtt: Option<Nanos>,
    /// The first and the last moment since the report before when something was sent, where known.
    pub departures: Option<(Time, Time)>,
    /// Where loss recovery stands.
    pub phase: Phase,
    /// What limits the flow.
    pub limit: FlowLimit,
}

impl Counters {
    /// Of a flow that has done nothing.
    pub const fn start(mss: u32) -> Self {
        Self {
            at: Time::ZERO,
            una: 0,
            next: 0,
            highest: 0,
            ahead: 0,
            in_flight: 0,
            mss,
            unsent: 0,
            lost: 0,
            resent: 0,
            marked: 0,
            recoveries: 0,
            echoes: 0,
            timeouts: 0,
            backoff: 0,
            undone: 0,
            rtt: None,
            srtt: None,
            departures: None,
            phase: Phase::Open,
            limit: FlowLimit::Unknown,
        }
    }
}

/// RTT samples of packets that were sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// That of the newest packet.
    pub newest: Nanos,
    /// The smallest.
    pub least: Nanos,
}

/// What keeps a flow from sending more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlowLimit {
    /// Something else, or it is not known.
    #[default]
    Unknown,
    /// The congestion window.
    Window,
    /// The application has written nothing more.
    Application,
}

/// A flow known by its counters, and the controller that steers it.
pub struct Counted {
    driver: Driver,
    board: Outstanding,
    seen: Counters,
    /// Bytes of the packets that were taken for delivered.
    named: u64,
    /// Bytes in flight between two reports.
    in_flight: u64,
    /// A recovery has begun whose losses have not been reported.
    episode_due: bool,
    /// The window grew by what the last report delivered.
    follows: bool,
    /// Scratch for the losses of a report.
    lost: Vec<Lost>,
}

impl Counted {
    /// Steers a flow from `now` on. What is outstanding counts as sent at this moment.
    pub fn new(config: &SenderConfig, controller: Box<dyn Controller>, now: &Counters) -> Self {
        let mut flow = Self {
            driver: Driver::new(&SenderConfig { mss: now.mss.max(1), ..*config }, controller),
            board: Outstanding::default(),
            seen: Counters { next: now.una, departures: None, ..*now },
            named: 0,
            in_flight: 0,
            episode_due: false,
            follows: false,
            lost: Vec::new(),
        };
        if let Some(samples) = now.rtt {
            flow.driver.connected(now.at, samples.newest, &AckProgress::at(now.una, now.una, 0));
        }
        flow.driver.informed = now.at;
        flow.depart(now.at, &Counters { departures: None, ..*now });
        flow.seen = *now;
        flow.driver.refresh();
        flow
    }

    /// Takes in a report. One that is older than the last, or contradicts it, is ignored.
    pub fn report(&mut self, now: &Counters) {
        let seen = self.seen;
        if now.at < seen.at || now.una < seen.una || now.next < seen.next.max(now.una) {
            return;
        }
        // A tick may have come after what is reported now.
        let at = now.at.max(self.driver.informed);
        self.driver.set_mss(self.driver.informed, now.mss.max(1));
        let window = self.driver.window();
        let mut repairs = now.resent.saturating_sub(seen.resent);
        let waiting = self.board.waiting() as u64;
        // Repairs of losses that the report before showed left when it did.
        let first = now.departures.map_or(at, |(first, _)| first).clamp(seen.at, at);
        repairs -= self.resend(first, now, repairs.min(waiting));
        self.depart(at, now);
        self.driver.informed = at;

        let prior_in_flight = self.in_flight;
        self.board.fresh.clear();
        self.board.deliver_below(now.una);
        self.board.deliver_ahead(now.highest.min(now.next), now.ahead);
        self.lost.clear();
        self.board.lose(now.lost.saturating_sub(seen.lost), &mut self.lost);
        let lost_bytes = self.lost.iter().map(|lost| u64::from(lost.bytes)).sum();
        let outstanding = now.next - now.una;
        let in_flight = (u64::from(now.in_flight) * u64::from(now.mss)).min(outstanding);
        self.in_flight = in_flight;

        let delivery = self.deliver(at, now);
        if now.undone > seen.undone {
            self.driver.spurious(at);
        }
        self.episode_due |= now.recoveries > seen.recoveries;
        if now.timeouts > seen.timeouts {
            self.episode_due = false;
            self.driver.timeout(at, &mut self.lost, prior_in_flight, in_flight, now.backoff.max(1));
        } else if !self.lost.is_empty() {
            let new_episode = std::mem::take(&mut self.episode_due);
            self.driver.lose(at, &mut self.lost, prior_in_flight, in_flight, new_episode);
        }
        let marks = self.marks(now, &delivery);
        if delivery.packets > 0 || marks.packets > 0 || marks.echo {
            let Counters { una, next, phase, .. } = *now;
            let progress = AckProgress { prior_in_flight, in_flight, lost_bytes, una, next, phase, marks };
            self.driver.acknowledge(at, &delivery, &progress);
        }
        self.resend(at, now, repairs);
        if now.limit == FlowLimit::Application {
            self.driver.run_dry(at, in_flight);
        }
        self.driver.refresh();
        self.seen = *now;
        self.follows = delivery.bytes > 0 && self.driver.window().saturating_sub(window) >= delivery.bytes;
    }

    /// What was sent for the first time.
    fn depart(&mut self, at: Time, now: &Counters) {
        let mss = u64::from(now.mss.max(1));
        let count = (now.next - self.seen.next).div_ceil(mss);
        let (first, last) = now.departures.unwrap_or((at, at));
        let (first, last) = (first.clamp(self.seen.at, at), last.clamp(self.seen.at, at));
        let mut position = self.seen.next;
        for number in 0..count {
            let sent_at = first + (last - first).mul_div(number, (count - 1).max(1));
            let bytes = (now.next - position).min(mss);
            let empty = self.board.is_empty();
            if empty {
                self.driver.restart(sent_at);
            }
            let mut packet = SentPacket::new(position, bytes as u32, sent_at);
            position += bytes;
            self.in_flight += bytes;
            let load =
                Departing { in_flight: self.in_flight, unsent: now.unsent + (now.next - position), first: empty };
            self.driver.sent(sent_at, &mut packet, &load);
            match now.limit {
                FlowLimit::Window => packet.window_limited = true,
                FlowLimit::Application => packet.window_limited = false,
                FlowLimit::Unknown => {}
            }
            self.board.push(packet);
        }
    }

    /// Up to `count` packets were sent again, those first that wait for it. Answers how many.
    fn resend(&mut self, at: Time, now: &Counters, count: u64) -> u64 {
        for done in 0..count {
            let Some((packet, was_lost)) = self.board.resend(at) else { return done };
            if was_lost {
                self.in_flight += u64::from(packet.bytes);
            }
            let load = Departing { in_flight: self.in_flight, unsent: now.unsent, first: false };
            self.driver.sent(at, packet, &load);
        }
        count
    }

    /// The driver takes in the fresh packets.
    fn deliver(&mut self, at: Time, now: &Counters) -> Delivery {
        let fresh = &mut self.board.fresh;
        match now.rtt {
            Some(samples) => {
                let once = fresh.iter_mut().filter(|packet| !packet.retransmitted);
                if let Some(newest) = once.max_by_key(|packet| packet.serial) {
                    newest.sent_at = at - samples.newest;
                }
            }
            // Linux takes no sample where it is not sure which transmission was delivered.
            None => fresh.iter_mut().for_each(|packet| packet.retransmitted = true),
        }
        self.named += fresh.iter().map(|packet| u64::from(packet.bytes)).sum::<u64>();
        // Where holes are repaired, those behind the left edge turn out to be others than were taken for holes.
        let ahead_of_time = u64::from(self.board.held.saturating_sub(now.ahead)) * u64::from(now.mss);
        self.driver.arrived(at, self.named.saturating_sub(ahead_of_time));
        let delivery = self.driver.delivered(at, fresh, false, &ArrivalClock::Unknown);
        if let Some(samples) = now.rtt {
            self.driver.rtt.observe(samples.least);
            self.driver.sample(samples.newest, now.una, now.next);
        }
        if now.srtt.is_some() {
            self.driver.rtt.smoothed = now.srtt;
        }
        delivery
    }

    fn marks(&self, now: &Counters, delivery: &Delivery) -> Marks {
        let packets = now.marked.saturating_sub(self.seen.marked).min(u64::from(u32::MAX));
        let bytes = (packets * u64::from(now.mss)).min(delivery.bytes);
        Marks { bytes, packets: packets as u32, echo: now.echoes > self.seen.echoes }
    }

    /// The hops of the path reported.
    pub fn telemetry(&mut self, telemetry: &Telemetry<'_>) {
        let now = self.reach(telemetry.now);
        let mut telemetry = *telemetry;
        telemetry.now = now;
        self.driver.telemetry(&telemetry);
    }

    /// Runs the controller's clock, where [`Counted::next_tick`] has come.
    pub fn tick(&mut self, now: Time) {
        let now = self.reach(now);
        self.driver.tick(now);
    }

    /// A moment, as the controller is informed of it: its time does not go backwards, although a report may be of what was before the
    /// last tick.
    fn reach(&mut self, at: Time) -> Time {
        self.driver.informed = self.driver.informed.max(at);
        self.driver.informed
    }

    /// When [`Counted::tick`] wants to be called.
    pub fn next_tick(&self) -> Time {
        self.driver.next_tick()
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.driver.window()
    }

    /// The rate at which packets leave on average; `None` where the window alone limits them. A gap is the rate that it makes.
    pub fn pacing(&self) -> Option<Rate> {
        match self.driver.controller().pacing() {
            Pacing::Free => None,
            Pacing::Rate(rate) => Some(rate),
            Pacing::Gap(gap) => Some(Rate::from_bytes_in(u64::from(self.seen.mss), gap)),
        }
    }

    /// The window grew by at least what the last report delivered, as in slow start. A datapath that applies it late may let it grow by
    /// what is delivered until the next answer.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// What was delivered since the last report makes no room for more ([`paceline_cc::Permit::is_budget`]).
    pub fn is_budget(&self) -> bool {
        self.driver.controller().permit().is_budget
    }

    /// The datapath shapes the window while losses are repaired ([`paceline_cc::Recovery::Prr`]).
    pub fn glides(&self) -> bool {
        glides(self.driver.controller())
    }

    /// The RTT estimator.
    pub fn rtt(&self) -> &Rtt {
        self.driver.rtt()
    }

    /// Payload bytes delivered since the start.
    pub fn bytes_delivered(&self) -> u64 {
        self.driver.bytes_delivered()
    }

    /// The report taken in last.
    pub fn last(&self) -> &Counters {
        &self.seen
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }
}
