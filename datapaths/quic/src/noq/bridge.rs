//! From noq's calls to a controller's: the translation, without clock and sockets.
//!
//! Source: `noq_proto::congestion::Controller` of noq-proto 1.4.0 and where its connection calls it. [`Numbered`] keeps the packets.
//! Against quinn's, noq's calls name each packet, as it leaves, arrives and is lost, and its pacer takes a rate. What differs from
//! paceline's own datapaths:
//!
//! - noq reports losses and marks after what was delivered. What one acknowledgement says is kept until noq asks or sends, and reaches the
//!   controller in our order.
//! - Several packets may leave in one call, all at its moment.
//! - There is no call for a probe timeout: a timeout means persistent congestion (RFC 9002 section 7.6).
//! - A late arrival is reported only where everything that was declared lost in the last two probe timeouts has arrived.
//! - A mark is reported once an acknowledgement, without the number of marked packets.
//! - A lost MTU probe is not reported, nor are packets whose keys were dropped: they are forgotten by their age.
//! - noq's pacer has a rate, and lets ten packets go at once. Where a loop [runs the clock](super::Ticker), packets leave at the controller's
//!   own pace: until it lets the next one go, the window is closed. Elsewhere the pacer has its rate.
//! - Ticks come at the next call, each for its own time, where no loop runs them.

use std::collections::BTreeMap;

use paceline_cc::{Controller, Nanos, Pacing, Rate, Time};
use paceline_telemetry::ReportInbox;
use paceline_transport::{FlowLimit, Numbered, NumberedNews, SenderConfig};

use crate::ticks::Ticks;

/// A controller driven by noq's calls. Times count from any one moment.
pub struct Bridge {
    flow: Numbered,
    /// A loop runs its clock.
    ticked: bool,
    ticks: Ticks,
    /// Packets without an end, by noq's number and ours: when they left, and their bytes. Three number spaces share noq's numbers during a
    /// handshake.
    packets: BTreeMap<(u64, u64), (Time, u16)>,
    /// Number of the newest packet.
    number: u64,
    /// The newest packet when noq last stood before a full window; nothing once something newer was delivered.
    full: Option<u64>,
    news: News,
    now: Time,
    samples: Vec<(Time, Nanos)>,
}

/// What one acknowledgement says, as far as it has been reported.
#[derive(Debug, Default)]
struct News {
    waits: bool,
    /// When noq says that it came, and when it was heard.
    at: Time,
    heard: Time,
    acked: Vec<u64>,
    lost: Vec<u64>,
    in_flight: Option<u64>,
    congested: bool,
    persistent: bool,
    marked: bool,
    spurious: bool,
    dry: bool,
}

/// When something was reported: by noq, and by the clock of its caller. Not the same where noq read its clock before the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// noq's time.
    pub at: Time,
    /// No earlier than that.
    pub heard: Time,
}

impl Bridge {
    /// Drives `controller`, made for packets of `mtu` bytes.
    pub fn new(controller: Box<dyn Controller>, mtu: u16) -> Self {
        let config = SenderConfig::new(u32::from(mtu.max(1)));
        Self {
            flow: Numbered::new(&config, controller),
            ticked: false,
            ticks: Ticks::default(),
            packets: BTreeMap::new(),
            number: 0,
            full: None,
            news: News::default(),
            now: Time::ZERO,
            samples: Vec::new(),
        }
    }

    /// The same, its clock run by a loop that calls [`Bridge::tick`] when [`Bridge::next_tick`] has come, and then asks noq for packets.
    #[must_use]
    pub fn ticked(self) -> Self {
        Self { ticked: true, ..self }
    }

    /// The same, informed of what the path's hops report, at the next call of the stack or its clock.
    #[must_use]
    pub fn informed(mut self, reports: Option<ReportInbox>) -> Self {
        self.ticks = self.ticks.informed(reports);
        self
    }

    /// Packet `pn` of `bytes` left.
    pub fn on_packet_sent(&mut self, now: Time, bytes: u16, pn: u64) {
        self.advance(now);
        self.number += 1;
        let time = self.now;
        let limit = if self.full.is_some() { FlowLimit::Window } else { FlowLimit::Unknown };
        // noq does not say what waits; a controller asks only whether a chirp can be filled.
        self.flow.sent(time, self.number, u32::from(bytes), u64::MAX, limit);
        self.packets.insert((pn, self.number), (now, bytes));
    }

    /// Packet `pn` that left at `sent_at` was acknowledged. `app_limited`: before that, the application had nothing to send.
    pub fn on_ack(&mut self, report: Report, sent_at: Time, pn: u64, app_limited: bool) {
        if self.news.in_flight.is_some() {
            self.settle();
        }
        self.hear(report);
        self.news.dry |= app_limited;
        let mut known = self.packets.range((pn, 0)..=(pn, u64::MAX));
        if let Some((&key, _)) = known.find(|(_, (left_at, _))| *left_at == sent_at) {
            self.packets.remove(&key);
            self.news.acked.push(key.1);
        }
    }

    /// The acknowledgement is complete and `in_flight` bytes are left.
    pub fn on_end_acks(&mut self, report: Report, in_flight: u64, app_limited: bool) {
        self.hear(report);
        self.news.dry |= app_limited;
        self.news.in_flight = Some(in_flight);
    }

    /// Packet `pn` of `bytes` was declared lost.
    pub fn on_packet_lost(&mut self, report: Report, bytes: u16, pn: u64) {
        self.hear(report);
        let known = || self.packets.range((pn, 0)..=(pn, u64::MAX));
        // Of those that share the number, the one of this size.
        let alike = known().find(|(_, (_, size))| *size == bytes);
        if let Some((&key, _)) = alike.or_else(|| known().next()).filter(|_| bytes > 0) {
            self.packets.remove(&key);
            self.news.lost.push(key.1);
        }
    }

    /// The packets that were lost mean congestion, or the acknowledgement reported more marks than any before it.
    pub fn on_congestion_event(&mut self, report: Report, persistent: bool, is_ecn: bool) {
        self.hear(report);
        self.news.persistent |= persistent;
        self.news.marked |= is_ecn;
        self.news.congested |= !is_ecn;
    }

    /// Everything that was declared lost of late has arrived. The acknowledgement that proves it follows.
    pub fn on_spurious_congestion_event(&mut self) {
        self.settle();
        self.news.spurious = true;
    }

    /// There was something to send, and the window was full.
    pub fn on_cwnd_limited(&mut self) {
        let packet = u64::from(self.flow.config().mss);
        if !self.is_early() || self.flow.in_flight().saturating_add(packet) > self.flow.window() {
            self.full = Some(self.number);
        }
    }

    /// Packets have `mtu` bytes from now on.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.settle();
        self.flow.set_mss(self.now, u32::from(mtu));
    }

    /// noq's window: a packet leaves while what is in flight and one full packet stay up to it. There is always room for one, so that the
    /// flow cannot stop for ever; but none before the next one is due.
    pub fn window(&mut self) -> u64 {
        if self.is_early() { 0 } else { self.own_window() }
    }

    /// The window without regard to when packets are due.
    pub fn own_window(&mut self) -> u64 {
        self.settle();
        self.flow.window().max(u64::from(self.flow.config().mss))
    }

    /// The rate at which packets leave; nothing where the window alone limits them. A gap is the rate that it makes.
    pub fn rate(&mut self) -> Option<Rate> {
        self.settle();
        match self.flow.controller().pacing() {
            Pacing::Free => None,
            Pacing::Rate(rate) => Some(rate),
            Pacing::Gap(gap) => Some(Rate::from_bytes_in(u64::from(self.flow.config().mss), gap)),
        }
    }

    /// The rate of noq's pacer, where it is not left to it: that of the controller; more where packets leave when they are due, so that the pacer
    /// does not hold them back as well.
    pub fn pacer(&mut self) -> Option<Rate> {
        let rate = self.rate()?;
        Some(if self.ticked { rate.mul_f64(1.25) } else { rate })
    }

    /// The next packet is not due yet.
    fn is_early(&mut self) -> bool {
        self.settle();
        self.ticked && self.flow.due() > self.now
    }

    /// The slow-start threshold, where it is known.
    pub fn threshold(&self) -> Option<u64> {
        Some(self.flow.controller().permit().threshold).filter(|threshold| *threshold != u64::MAX)
    }

    /// When [`Bridge::tick`] wants to be called.
    pub fn next_tick(&mut self) -> Time {
        let due = if self.is_early() { self.flow.due() } else { Time::NEVER };
        self.flow.next_tick().min(due)
    }

    /// Runs the controller's clock.
    pub fn tick(&mut self, now: Time) {
        self.advance(now);
    }

    /// RTT samples since this was last asked, with the times at which they were heard.
    pub fn samples(&mut self) -> impl Iterator<Item = (Time, Nanos)> {
        self.settle();
        self.samples.drain(..)
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.flow.controller()
    }

    /// Time goes on to `now`: ticks come. It never runs back, although noq's is behind that at which something was heard.
    fn advance(&mut self, now: Time) {
        self.settle();
        self.now = self.now.max(now);
        self.ticks.run(&mut self.flow, self.now);
    }

    /// News of this moment begin or go on.
    fn hear(&mut self, report: Report) {
        if self.news.waits && self.news.at != report.at {
            self.settle();
        }
        self.news.waits = true;
        self.news.at = report.at;
        self.news.heard = report.heard;
    }

    /// The news are complete: the controller is informed of them.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.news.waits) {
            return;
        }
        let News { heard, ref acked, ref lost, in_flight, persistent, marked, spurious, dry, congested, .. } =
            self.news;
        self.now = self.now.max(heard);
        let now = self.now;
        let flow = &mut self.flow;
        self.ticks.run_before_news(flow, now);
        if spurious {
            flow.spurious(now);
        }
        if dry {
            flow.run_dry(now);
        }
        if self.full.is_some_and(|full| acked.iter().any(|number| *number > full)) {
            self.full = None;
        }
        let ce_packets = u32::from(marked);
        let mut news = NumberedNews::default().with_lost(lost).with_ce_packets(ce_packets).with_in_flight(in_flight);
        news.persistent = persistent;
        if let Some(rtt) = flow.acked(now, acked.iter().copied(), &news) {
            self.samples.push((now, rtt));
        }
        if congested && lost.is_empty() && !persistent {
            flow.lost_unknown(now);
        }
        flow.tick(now);
        let oldest = flow.oldest();
        while let Some(entry) = self.packets.first_entry()
            && oldest.is_none_or(|oldest| entry.key().1 < oldest)
        {
            entry.remove();
        }
        let News { mut acked, mut lost, at, heard, .. } = std::mem::take(&mut self.news);
        acked.clear();
        lost.clear();
        self.news = News { acked, lost, at, heard, ..News::default() };
    }
}
