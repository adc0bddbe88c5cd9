//! From quinn's calls to a controller's: the translation, without clock and sockets.
//!
//! Source: `quinn_proto::congestion::Controller` of quinn-proto 0.11.19 and where its connection calls it. [`Numbered`] keeps the
//! packets. What differs from paceline's own datapaths, because quinn tells no more:
//!
//! - Departures come a batch at a time, and with them packets that are never acknowledged (pure ACKs).
//! - Losses are reported after the acknowledgement that showed them.
//! - There is no call for a probe timeout: [`Controller::on_timeout`] means persistent congestion (section 7.6).
//! - Spurious losses are not reported: [`Controller::on_spurious`] never comes.
//! - A mark is reported without the number of marked bytes, once an acknowledgement.
//! - A rate becomes a window: see [`Credit`].
//! - Ticks come late, each for its own time, at the next call; the last one that is due at an acknowledgement comes after it.

use paceline_cc::{Controller, Nanos, Pacing, Rate, Time};
use paceline_telemetry::ReportInbox;
use paceline_transport::{FlowLimit, Numbered, NumberedNews, SenderConfig};

use crate::batches::Batches;
use crate::ticks::Ticks;

/// Longest time for which credit is saved up (our choice: acknowledgements may come in lumps of this length; more is a
/// burst).
const LUMP: Nanos = Nanos::from_millis(10);
/// Least bound of the credit in packets (our choice: what quinn's own pacer lets go at once).
const LEAST_CREDIT: u64 = 10;

/// A controller driven by quinn's calls. Times count from any one moment.
pub struct Bridge {
    flow: Numbered,
    batches: Batches,
    credit: Credit,
    /// A batch of acknowledgements is coming in.
    acking: bool,
    acked: Vec<u64>,
    lost: Vec<u64>,
    /// Number of the newest packet.
    number: u64,
    /// The latest time at which quinn called.
    now: Time,
    ticks: Ticks,
    window: u64,
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
            flow: Numbered::new(&SenderConfig::new(mtu), controller),
            batches: Batches::default(),
            credit: Credit::default(),
            acking: false,
            acked: Vec::new(),
            lost: Vec::new(),
            number: 0,
            now: Time::ZERO,
            ticks: Ticks::default(),
            window: 0,
        };
        bridge.refresh();
        bridge
    }

    /// The same, informed of what the path's hops report, at the next call of the stack or its clock.
    #[must_use]
    pub fn informed(mut self, reports: Option<ReportInbox>) -> Self {
        self.ticks = self.ticks.informed(reports);
        self
    }

    /// A batch of `bytes` left at `now`.
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        let (sent_at, now) = (now, self.advance(now));
        let (first, size) = (self.number + 1, u64::from(self.mtu()));
        let mut left = bytes;
        while left > 0 {
            let bytes = left.min(size);
            self.number += 1;
            // quinn does not say what waits; a controller asks only whether a chirp can be filled.
            self.flow.sent(now, self.number, bytes as u32, u64::MAX, FlowLimit::Unknown);
            left -= bytes;
        }
        self.credit.bytes = self.credit.bytes.saturating_sub(bytes);
        if bytes > 0 {
            self.batches.push(sent_at, first..self.number + 1, size, bytes);
        }
        self.refresh();
    }

    /// A packet of `bytes` that left at `sent_at` was acknowledged. `app_limited`: before that, the application had
    /// nothing to send.
    pub fn on_ack(&mut self, now: Time, sent_at: Time, bytes: u64, app_limited: bool) {
        self.begin(now, app_limited);
        self.batches.acked(sent_at, bytes, |number| self.acked.push(number));
    }

    /// A batch of acknowledgements begins.
    fn begin(&mut self, now: Time, app_limited: bool) {
        if std::mem::replace(&mut self.acking, true) {
            return;
        }
        let now = self.later(now);
        self.credit.accrue(now);
        self.ticks.run_before_news(&mut self.flow, now);
        if app_limited {
            self.flow.run_dry(now);
        }
    }

    /// The batch is complete and `in_flight` bytes are left. Answers the RTT of its newest packet.
    pub fn on_end_acks(&mut self, now: Time, in_flight: u64, app_limited: bool) -> Option<Nanos> {
        self.begin(now, app_limited);
        let now = self.later(now);
        self.acking = false;
        let news = NumberedNews::default().with_in_flight(Some(in_flight));
        let sample = self.flow.acked(now, self.acked.drain(..), &news);
        self.batches.forget(self.flow.oldest());
        self.flow.tick(now);
        self.refresh();
        sample
    }

    fn mtu(&self) -> u32 {
        self.flow.config().mss
    }

    /// `lost_bytes` were declared lost, the last of them sent at `sent_at`; zero: a packet sent then was marked.
    pub fn on_congestion_event(&mut self, now: Time, sent_at: Time, persistent: bool, lost_bytes: u64) {
        let now = self.advance(now);
        self.lost.clear();
        self.batches.lost(sent_at, lost_bytes, |number| self.lost.push(number));
        if lost_bytes == 0 {
            let news = NumberedNews::default().with_ce_packets(1);
            self.flow.acked(now, [0_u64; 0], &news);
        } else if self.lost.is_empty() && !persistent {
            self.flow.lost_unknown(now);
        } else {
            self.flow.lost(now, &self.lost, persistent);
        }
        self.refresh();
    }

    /// Packets have `mtu` bytes from now on.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.flow.set_mss(self.now, u32::from(mtu));
        self.refresh();
    }

    /// quinn's window: a packet leaves while what is in flight plus one packet stays *below* it. There is always room for
    /// one, so that the flow cannot stop for ever.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.flow.controller()
    }

    /// Time goes on to `now`: credit accrues, ticks come. Answers the present.
    fn advance(&mut self, now: Time) -> Time {
        let now = self.later(now);
        self.credit.accrue(now);
        self.ticks.run(&mut self.flow, now);
        now
    }

    /// The present never runs back, although quinn's is behind that at which something was heard.
    fn later(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Asks the controller again.
    fn refresh(&mut self) {
        let mtu = u64::from(self.mtu());
        let rate = match self.flow.controller().pacing() {
            Pacing::Free => None,
            Pacing::Rate(rate) => Some(rate),
            Pacing::Gap(gap) => Some(Rate::from_bytes_in(mtu, gap)),
        };
        // Before the first RTT the window alone counts.
        let srtt = self.flow.rtt().smoothed();
        self.credit.set(rate.filter(|_| srtt.is_some()), LEAST_CREDIT * mtu);
        let own = self.flow.window();
        // What the window forbids is not saved up: a slower pace shows at once.
        self.credit.bytes = self.credit.bytes.min(own.saturating_sub(self.flow.in_flight()));
        let pacer = srtt.map_or(Rate::INFINITY, |srtt| Rate::from_bytes_in(own.saturating_add(own / 4), srtt));
        let slower = self.credit.rate.is_some_and(|rate| rate < pacer);
        let room = if slower { self.flow.in_flight().saturating_add(self.credit.bytes) } else { u64::MAX };
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
