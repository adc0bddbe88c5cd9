//! From s2n-quic's calls to a controller's: the translation, without clock and sockets.
//!
//! Source: `CongestionController` of s2n-quic-core 0.91.0 and where s2n-quic-transport 0.91.0 calls it. [`Numbered`] keeps the packets. The
//! order of calls for one acknowledgement is ours: losses, marks, what was delivered. What differs from paceline's own datapaths:
//!
//! - Packets of the handshake are not the controller's: it is told of the RTT alone, as of that of TCP's.
//! - An acknowledgement names its newest packet and the sum of bytes: the packets before it are taken for the rest. They are the right ones but
//!   for a hole that is not declared lost yet.
//! - The number of marked packets is exact, which ones is not known. None is reported in the first round trip, which s2n-quic validates ECN in.
//! - There is no call for a probe timeout: a timeout means persistent congestion (RFC 9002 section 7.6). No reduction is undone.
//! - Lost MTU probes and packets whose keys were dropped are reported by their bytes: they are forgotten by their age.
//! - Ticks come at the next call, each for its own time, where no loop [runs them](super::Watch).

use paceline_cc::{Controller, Nanos, Pacing, Time};
use paceline_telemetry::ReportInbox;
use paceline_transport::{FlowLimit, Numbered, NumberedNews, PaceStyle, SenderConfig};

use crate::ticks::Ticks;

/// Longest time for which packets leave in one call of the kernel, where it takes several (our choice: as noq's pacer).
const QUANTUM: Nanos = Nanos::from_millis(2);

/// What s2n-quic is to call a packet of the handshake by. Those of the flow count from 1.
const HANDSHAKE: u64 = 0;

/// A controller driven by s2n-quic's calls. Times count from any one moment.
pub struct Bridge {
    flow: Numbered,
    ticks: Ticks,
    /// Number of the newest packet.
    number: u64,
    /// Bytes in flight as s2n-quic counts them.
    in_flight: u64,
    losses: Losses,
    /// Marked packets that no acknowledgement has taken to the controller.
    marks: u32,
    now: Time,
    counts: PacketCounts,
}

/// Losses since the last other call.
#[derive(Debug, Default)]
struct Losses {
    numbers: Vec<u64>,
    bytes: u64,
    persistent: bool,
    at: Time,
}

/// What happened to a flow's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that left, acknowledgements alone not counted.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
    /// Losses and marks reported to the controller, one acknowledgement or timer at a time.
    pub congestion_events: u64,
}

impl Bridge {
    /// Drives `controller`, made for packets of `mtu` bytes. `paced`: packets are spread where the controller sets no pace.
    pub fn new(controller: Box<dyn Controller>, mtu: u16, paced: bool) -> Self {
        let pace = if paced { PaceStyle::Linux } else { PaceStyle::Off };
        let mut config = SenderConfig::new(u32::from(mtu.max(1)));
        config.pace = pace;
        Self {
            flow: Numbered::new(&config, controller),
            ticks: Ticks::default(),
            number: 0,
            in_flight: 0,
            losses: Losses::default(),
            marks: 0,
            now: Time::ZERO,
            counts: PacketCounts::default(),
        }
    }

    /// The same, informed of what the path's hops report, at the next call of the stack or its clock.
    #[must_use]
    pub fn informed(mut self, reports: Option<ReportInbox>) -> Self {
        self.ticks = self.ticks.informed(reports);
        self
    }

    /// A packet of `bytes` left, none for one of acknowledgements alone. `app_limited`: there is nothing to send behind it although the window
    /// is open; nothing for a packet of the handshake. Answers what s2n-quic is to call the packet by.
    pub fn on_packet_sent(&mut self, now: Time, bytes: u32, app_limited: Option<bool>) -> u64 {
        let now = self.advance(now);
        self.counts.sent += u64::from(bytes > 0);
        self.in_flight = self.in_flight.saturating_add(u64::from(bytes));
        let Some(dry) = app_limited else { return HANDSHAKE };
        if bytes == 0 {
            return self.number;
        }
        self.number += 1;
        let (unsent, limit) = if dry { (0, FlowLimit::Application) } else { (u64::MAX, FlowLimit::Unknown) };
        self.flow.sent(now, self.number, bytes, unsent, limit);
        if dry {
            self.flow.run_dry(now);
        }
        self.number
    }

    /// An acknowledgement that follows took `rtt`.
    pub fn on_rtt_update(&mut self, now: Time, rtt: Nanos) {
        if self.number == HANDSHAKE && self.flow.rtt().smoothed().is_none() {
            let now = self.later(now);
            self.flow.connected(now, rtt);
        }
    }

    /// Packet `number` of `bytes` was declared lost. `persistent`: and all around it, for the persistent congestion period.
    pub fn on_packet_lost(&mut self, now: Time, bytes: u32, number: u64, persistent: bool) {
        let bytes = u64::from(bytes);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.counts.lost += 1;
        self.counts.bytes_lost = self.counts.bytes_lost.saturating_add(bytes);
        if number == HANDSHAKE {
            return;
        }
        let losses = &mut self.losses;
        losses.numbers.push(number);
        losses.bytes = losses.bytes.saturating_add(bytes);
        losses.persistent |= persistent;
        losses.at = now;
    }

    /// The acknowledgement that follows says that `count` more packets arrived with a mark.
    pub fn on_explicit_congestion(&mut self, count: u64) {
        self.marks = self.marks.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// An acknowledgement delivered `bytes`, packet `newest` the last of them. Answers the RTT, where one was measured.
    pub fn on_ack(&mut self, now: Time, bytes: u64, newest: u64) -> Option<Nanos> {
        let now = self.later(now);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if newest == HANDSHAKE {
            return None;
        }
        self.ticks.run_before_news(&mut self.flow, now);
        let (losses, marks) = (&self.losses, std::mem::take(&mut self.marks));
        self.counts.congestion_events += u64::from(marks > 0 || !losses.numbers.is_empty());
        let in_flight = Some(self.in_flight.saturating_add(losses.bytes));
        let mut news =
            NumberedNews::default().with_lost(&losses.numbers).with_ce_packets(marks).with_in_flight(in_flight);
        news.persistent = losses.persistent;
        let sample = self.flow.acked_bytes(now, bytes, newest, &news);
        self.forget_losses();
        self.flow.tick(now);
        sample
    }

    /// Packets of `bytes` together left the flight, and it means nothing.
    pub fn on_packet_discarded(&mut self, bytes: u64) {
        self.settle();
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Packets have `mtu` bytes from now on.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.settle();
        self.flow.set_mss(self.now, u32::from(mtu));
    }

    /// The window. There is always room for one packet, so that the flow cannot stop for ever.
    pub fn window(&mut self) -> u64 {
        self.settle();
        self.flow.window().max(self.mtu())
    }

    /// Bytes in flight as s2n-quic counts them.
    pub fn in_flight(&mut self) -> u64 {
        self.settle();
        self.in_flight
    }

    /// Another full packet would not fit into the window, or the controller lets nothing go before it has heard or waited. This wait has
    /// no moment for its end: s2n-quic would look at nothing before one that it was given.
    pub fn is_full(&mut self) -> bool {
        let window = self.window();
        self.flow.due() == Time::NEVER || self.in_flight.saturating_add(self.mtu()) > window
    }

    /// The earliest time for the next packet; nothing where any will do.
    pub fn due(&mut self) -> Option<Time> {
        self.settle();
        Some(self.flow.due()).filter(|due| *due != Time::ZERO && *due != Time::NEVER)
    }

    /// How many bytes may leave in one call of the kernel, at most; nothing where this is not to be limited.
    pub fn quantum(&mut self) -> Option<u64> {
        self.settle();
        match self.flow.controller().pacing() {
            Pacing::Free => None,
            Pacing::Rate(rate) => Some(rate.bytes_in(QUANTUM).max(self.mtu())),
            Pacing::Gap(_) => Some(1),
        }
    }

    /// When [`Bridge::tick`] wants to be called.
    pub fn next_tick(&mut self) -> Time {
        self.settle();
        self.flow.next_tick()
    }

    /// Runs the controller's clock.
    pub fn tick(&mut self, now: Time) {
        self.advance(now);
    }

    /// What happened so far.
    pub fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.flow.controller()
    }

    fn mtu(&self) -> u64 {
        u64::from(self.flow.config().mss)
    }

    /// Time goes on to `now`: ticks come. Answers the present.
    fn advance(&mut self, now: Time) -> Time {
        self.settle();
        let now = self.later(now);
        self.ticks.run(&mut self.flow, now);
        now
    }

    /// The present never runs back.
    fn later(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Losses that a timer found are complete.
    fn settle(&mut self) {
        if self.losses.numbers.is_empty() {
            return;
        }
        let (now, losses) = (self.later(self.losses.at), &self.losses);
        self.counts.congestion_events += 1;
        self.flow.lost(now, &losses.numbers, losses.persistent);
        self.forget_losses();
    }

    fn forget_losses(&mut self) {
        self.losses.numbers.clear();
        (self.losses.bytes, self.losses.persistent) = (0, false);
    }
}
