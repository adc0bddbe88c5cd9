//! The half of a sender that feeds a controller: measures, keeps its clock and its pace, and makes every event it sees.
//!
//! A datapath knows its packets; what a controller needs besides (RTT, delivery rate, ticks, pacing, silence,
//! application-limited and window-limited times) is the same everywhere and stands here. A datapath calls
//! [`Driver::restart`] and [`Driver::sent`] as packets leave, [`Driver::delivered`] and [`Driver::acknowledge`] as news
//! of them comes, [`Driver::lose`] and [`Driver::timeout`] where it finds them lost, and [`Driver::tick`] at
//! [`Driver::next_tick`]; it reads [`Driver::window`] and [`Driver::due`] before each packet. Nothing else in the project
//! makes an [`Ack`], a [`Sent`], a [`Loss`] or a [`Timeout`], but for a receiver half that runs a controller on arrivals (rLEDBAT).

use paceline_cc::{
    Ack, Acked, BadFeedback, Controller, Loss, Lost, Nanos, Nature, Pacing, Permit, Phase, Rate, RateSample, Restart,
    Sent, Telemetry, Time, Timeout,
};

use crate::arrivals::{ArrivalTime, Lookup};
use crate::causes::Causes;
use crate::config::{PaceStyle, SenderConfig};
use crate::pacer::Pacer;
use crate::packet::SentPacket;
use crate::rate::RateSampler;
use crate::rtt::Rtt;

/// Packets that leave unpaced at the start of a flow (Linux `TCP_INIT_CWND`).
const UNPACED: u64 = 10;

/// A controller and the measurements it lives on. Sans-IO.
pub struct Driver {
    pub(crate) config: SenderConfig,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) nature: Nature,
    pub(crate) rtt: Rtt,
    rate: RateSampler,
    /// Deliveries are counted by [`Driver::arrived`].
    counts_apart: bool,
    pacer: Pacer,
    /// Scratch for one acknowledgement.
    acked: Vec<Acked>,
    /// What the controller answered at the last [`Driver::refresh`] or packet.
    pub(crate) permit: Permit,
    heartbeat_at: Time,
    /// When the last packet left.
    last_sent_at: Option<Time>,
    /// The application had nothing to send when last asked.
    pub(crate) ran_dry: bool,
    packets: u64,
    /// No departure is reported to the controller as earlier than this; of use where departures become known late.
    pub(crate) informed: Time,
    /// Bytes that left at the moment of the packet that leaves next.
    ahead: u32,
    pub(crate) causes: Causes,
}

/// What is on its way as a packet leaves, the packet included.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Departing {
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes that the application has written and that have not been sent; [`u64::MAX`] where the datapath does not know.
    pub unsent: u64,
    /// Nothing else is outstanding.
    pub first: bool,
}

/// What a set of newly delivered packets says.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// Their payload bytes.
    pub bytes: u64,
    /// How many there are.
    pub packets: usize,
    /// RTT of the newest one that was never retransmitted and [follows](SentPacket::follows) none.
    pub rtt: Option<Nanos>,
    /// The delivery rate.
    pub rate: Option<RateSample>,
    /// The newest packet.
    pub newest: Option<SentPacket>,
}

/// What the receiver's clock said at the arrivals of newly delivered packets.
#[derive(Clone, Copy, Debug)]
pub enum ArrivalClock<'a> {
    /// Nothing that is sure.
    Unknown,
    /// At that of the newest.
    Newest(Time),
    /// At each that is listed.
    Each(&'a [ArrivalTime]),
}

/// Where a flow stands after an acknowledgement.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckProgress {
    /// Bytes in flight before.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// Bytes found lost by it, which [`Driver::lose`] has reported.
    pub lost_bytes: u64,
    /// Everything below this position has been delivered.
    pub una: u64,
    /// Position of the next new byte.
    pub next: u64,
    /// Where loss recovery stands.
    pub phase: Phase,
    /// What it says of congestion marks.
    pub marks: Marks,
}

/// Congestion marks of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Marks {
    /// Delivered bytes that carried one.
    pub bytes: u64,
    /// Their packets.
    pub packets: u32,
    /// A reduction is due ([`Ack::echo`]).
    pub echo: bool,
}

impl Driver {
    /// Drives `controller` from the start of a flow.
    pub fn new(config: &SenderConfig, controller: Box<dyn Controller>) -> Self {
        let mut driver = Self {
            config: *config,
            nature: controller.nature(),
            permit: controller.permit(),
            controller,
            rtt: Rtt::new(),
            rate: RateSampler::new(),
            counts_apart: false,
            pacer: Pacer::new(config.burst),
            acked: Vec::new(),
            heartbeat_at: Time::NEVER,
            last_sent_at: None,
            ran_dry: false,
            packets: 0,
            informed: Time::ZERO,
            ahead: 0,
            causes: Causes::new(),
        };
        driver.refresh();
        driver
    }

    /// A packet leaves. It takes with it what its delivery or loss will need; the answer is the note for the controller's
    /// receiver half.
    #[inline(always)]
    pub fn sent(&mut self, now: Time, packet: &mut SentPacket, load: &Departing) -> u64 {
        let note = self.stamp(now, packet, load);
        let bytes = packet.bytes.saturating_add(std::mem::take(&mut self.ahead));
        self.departed(now, bytes);
        self.limit(packet, load);
        note
    }

    /// As [`Driver::sent`], for a packet that leaves at the same moment as the one that follows: pacing counts from the last of
    /// them on, for all their bytes.
    #[inline]
    pub fn sent_ahead(&mut self, now: Time, packet: &mut SentPacket, load: &Departing) {
        self.stamp(now, packet, load);
        self.packets += 1;
        self.ahead = self.ahead.saturating_add(packet.bytes);
        self.limit(packet, load);
    }

    #[inline(always)]
    fn stamp(&mut self, now: Time, packet: &mut SentPacket, load: &Departing) -> u64 {
        if load.first {
            self.rate.restart(now);
        }
        packet.depart(&self.rate.stamp(now, packet.retransmitted));
        self.ran_dry = false;
        let mut sent = Sent::new(now.max(self.informed), packet.seq, packet.bytes);
        sent.in_flight = load.in_flight;
        sent.retransmission = packet.retransmitted;
        sent.app_limited = packet.app_limited;
        sent.unsent = load.unsent;
        let stamp = self.controller.on_sent(&sent);
        packet.tag = stamp.tag;
        stamp.note
    }

    #[inline(always)]
    fn limit(&self, packet: &mut SentPacket, load: &Departing) {
        if !packet.retransmitted {
            // Linux `tcp_is_cwnd_limited` in slow start.
            packet.window_limited = load.in_flight.saturating_mul(2) > self.permit.window;
        }
    }

    /// An empty packet leaves at position `seq`. Its stamp does not come back.
    pub fn sent_empty(&mut self, now: Time, seq: u64, load: &Departing) -> u64 {
        let mut sent = Sent::new(now, seq, 0);
        sent.in_flight = load.in_flight;
        sent.app_limited = self.rate.is_app_limited();
        sent.unsent = load.unsent;
        let stamp = self.controller.on_sent(&sent);
        self.departed(now, 0);
        stamp.note
    }

    /// Something left: the controller answers for the next packet.
    #[inline(always)]
    fn departed(&mut self, now: Time, bytes: u32) {
        self.packets += 1;
        self.last_sent_at = Some(now);
        if !self.permit.outlasts_departures {
            self.permit = self.controller.permit();
        }
        let pacing = self.paced(&self.permit);
        if bytes > 0 {
            self.pacer.sent(now, bytes, pacing);
        } else {
            self.pacer.refresh(pacing);
        }
        self.heartbeat_at = self.nature.heartbeat.map_or(Time::NEVER, |silence| now + silence);
    }

    /// A handshake has been answered, `sample` after it left.
    pub fn connected(&mut self, now: Time, sample: Nanos, progress: &AckProgress) {
        self.rtt.sample(sample);
        self.rtt.observe(sample);
        self.acknowledge(now, &Delivery::default(), progress);
        self.refresh();
    }

    /// Takes in newly delivered packets, in any order, and measures RTT and rate; [`Driver::acknowledge`] informs the
    /// controller. `ce`: they carried a congestion mark.
    pub fn delivered(
        &mut self,
        now: Time,
        fresh: &mut [SentPacket],
        ce: bool,
        received: &ArrivalClock<'_>,
    ) -> Delivery {
        if fresh.len() > 1 && !fresh.is_sorted_by_key(SentPacket::order) {
            fresh.sort_unstable_by_key(SentPacket::order);
        }
        let mut arrivals = Lookup::new(match received {
            ArrivalClock::Each(list) => list,
            ArrivalClock::Newest(_) | ArrivalClock::Unknown => &[],
        });
        let mut delivery = self.begin_delivery();
        for packet in &*fresh {
            self.take_in(now, packet, ce, arrivals.find(packet.seq), &mut delivery);
        }
        self.end_delivery(now, received, &mut delivery);
        delivery
    }

    /// `total` bytes have arrived since the start of the flow, of whichever packets. For a datapath to which TCP says how much
    /// arrived behind a hole and not of what: the packets that it names by a guess are not counted again, so that no rate is
    /// measured of a guess. To be called before each [`Driver::delivered`].
    pub(crate) fn arrived(&mut self, now: Time, total: u64) {
        self.counts_apart = true;
        self.rate.count(now, total);
    }

    /// The first step of [`Driver::delivered`], for a datapath that has no list of the packets.
    pub(crate) fn begin_delivery(&mut self) -> Delivery {
        self.acked.clear();
        Delivery::default()
    }

    /// The second step, for each packet in the order of their departures.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        now: Time,
        packet: &SentPacket,
        ce: bool,
        received_at: Option<Time>,
        delivery: &mut Delivery,
    ) {
        delivery.packets += 1;
        delivery.bytes += u64::from(packet.bytes);
        if !packet.retransmitted && !packet.follows {
            delivery.rtt = Some(now - packet.sent_at);
        }
        delivery.newest = Some(*packet);
        let mut acked = Acked::new(packet.seq, packet.bytes, packet.sent_at);
        acked.tag = packet.tag;
        acked.retransmitted = packet.retransmitted;
        acked.app_limited = packet.app_limited;
        acked.ce = ce;
        acked.received_at = received_at;
        self.acked.push(acked);
    }

    /// The last step.
    #[inline]
    pub(crate) fn end_delivery(&mut self, now: Time, received: &ArrivalClock<'_>, delivery: &mut Delivery) {
        let (Some(newest), Some(last)) = (&delivery.newest, self.acked.last_mut()) else { return };
        if let ArrivalClock::Newest(at) = received {
            last.received_at = Some(*at);
        }
        if let Some(rtt) = delivery.rtt {
            self.rtt.observe(rtt);
        }
        if !self.counts_apart {
            self.rate.count(now, self.rate.delivered() + delivery.bytes);
        }
        delivery.rate = self.rate.sample(now, &newest.departure(), self.rtt.min);
    }

    /// An RTT sample for the smoothed RTT and the timeout, where the datapath takes one from this acknowledgement; everything
    /// below `una` has been delivered and `next` is the position of the next new byte.
    pub fn sample(&mut self, sample: Nanos, una: u64, next: u64) {
        self.rtt.sample(sample);
        self.rtt.advance(una, next, self.config.min_rto);
    }

    /// Informs the controller of an acknowledgement that delivered something or carried marks.
    pub fn acknowledge(&mut self, now: Time, delivery: &Delivery, progress: &AckProgress) {
        let packets = if delivery.packets > 0 { self.acked.as_slice() } else { &[] };
        let mut ack = Ack::new(now, packets);
        ack.bytes = delivery.bytes;
        ack.rtt = delivery.rtt;
        ack.srtt = self.rtt.smoothed.unwrap_or(Nanos::ZERO);
        ack.min_rtt = self.rtt.min;
        ack.rate = delivery.rate;
        ack.prior_in_flight = progress.prior_in_flight;
        ack.in_flight = progress.in_flight;
        ack.lost_bytes = progress.lost_bytes;
        ack.ce_bytes = progress.marks.bytes;
        ack.ce_packets = progress.marks.packets;
        ack.echo = progress.marks.echo;
        ack.delivered = self.rate.delivered();
        ack.una = progress.una;
        ack.next = progress.next;
        ack.phase = progress.phase;
        ack.window_limited = delivery.newest.is_some_and(|newest| newest.window_limited);
        self.controller.on_ack(&ack);
    }

    /// Packets were found lost, in sending order; nothing is reported where there are none. `new_episode`: a reduction is due.
    /// Those whose cause is unknown get that of the newest report of the hops, while it is fresh.
    pub fn lose(&mut self, now: Time, packets: &mut [Lost], prior_in_flight: u64, in_flight: u64, new_episode: bool) {
        if packets.is_empty() {
            return;
        }
        self.causes.fill(now, packets);
        let mut loss = Loss::new(now, packets);
        loss.prior_in_flight = prior_in_flight;
        loss.in_flight = in_flight;
        loss.new_episode = new_episode;
        self.controller.on_loss(&loss);
    }

    /// Another reduction is due for packets that [`Driver::lose`] has reported; `oldest` is the first of them.
    #[cfg(feature = "endpoints")]
    pub(crate) fn reduce_again(&mut self, now: Time, oldest: Lost, prior_in_flight: u64, in_flight: u64) {
        let packets = [oldest];
        let mut loss = Loss::new(now, &packets);
        loss.prior_in_flight = prior_in_flight;
        loss.in_flight = in_flight;
        loss.new_episode = true;
        self.controller.on_loss(&loss);
    }

    /// Why packets were lost has become known after [`Driver::lose`] or [`Driver::timeout`] reported them.
    pub fn explain(&mut self, now: Time, packets: &[Lost]) {
        if !packets.is_empty() {
            self.controller.on_cause(now, packets);
            self.refresh();
        }
    }

    /// The retransmission timer fired for the `count`th time in a row and declared `packets` lost, as far as they are known.
    /// Their causes are filled in as in [`Driver::lose`].
    pub fn timeout(&mut self, now: Time, packets: &mut [Lost], prior_in_flight: u64, in_flight: u64, count: u32) {
        self.causes.fill(now, packets);
        let mut timeout = Timeout::new(now, packets);
        timeout.prior_in_flight = prior_in_flight;
        timeout.in_flight = in_flight;
        timeout.count = count;
        self.controller.on_timeout(&timeout);
    }

    /// The last reduction answered a spurious loss.
    pub fn spurious(&mut self, now: Time) {
        self.controller.on_spurious(now);
    }

    /// The hops of the path reported. What the report says of losses explains those found while it is fresh: until the next
    /// report, and no longer than [`Telemetry::fresh_for`].
    pub fn telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.causes.report(telemetry);
        self.controller.on_telemetry(telemetry);
        self.refresh();
    }

    /// Another flow over the same path, which shares what it knows, measured an RTT of `min`.
    pub fn shared_rtt(&mut self, now: Time, min: Nanos) {
        self.controller.on_shared_rtt(now, min);
        self.refresh();
    }

    /// A blob from the controller's receiver half arrived.
    ///
    /// # Errors
    /// [`BadFeedback`] when the controller cannot read it.
    pub fn feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        let read = self.controller.on_feedback(now, blob);
        self.refresh();
        read
    }

    /// Full packets have `mss` payload bytes from now on.
    pub fn set_mss(&mut self, now: Time, mss: u32) {
        if mss != self.config.mss {
            self.config.mss = mss;
            self.controller.on_mss(now, mss);
            self.refresh();
        }
    }

    /// Reads the controller's answers again. To be called after the events of one acknowledgement, and when an application
    /// that had nothing to send has written.
    #[inline(always)]
    pub fn refresh(&mut self) {
        self.permit = self.controller.permit();
        let pacing = self.paced(&self.permit);
        self.pacer.refresh(pacing);
    }

    /// The pacing here, where the controller permits this.
    #[inline]
    fn paced(&self, permit: &Permit) -> Pacing {
        match permit.pacing {
            Pacing::Free if self.config.pace == PaceStyle::Linux => self.linux_pacing(permit),
            pacing => pacing,
        }
    }

    fn linux_pacing(&self, permit: &Permit) -> Pacing {
        let Some(srtt) = self.rtt.smoothed.filter(|_| self.packets >= UNPACED) else {
            return Pacing::Free;
        };
        let percent = if permit.window < permit.threshold / 2 { 200 } else { 120 };
        Pacing::Rate(Rate::from_bytes_in(permit.window.saturating_mul(percent) / 100, srtt))
    }

    /// Runs the controller's clock, where [`Driver::next_tick`] has come.
    pub fn tick(&mut self, now: Time) {
        if self.permit.next_tick <= now {
            self.controller.on_tick(now);
            self.refresh();
        }
    }

    /// The application has nothing to send although the window is open.
    pub fn run_dry(&mut self, now: Time, in_flight: u64) {
        self.rate.mark_app_limited(in_flight);
        if !self.ran_dry {
            self.ran_dry = true;
            self.controller.on_app_limited(now, in_flight);
            self.refresh();
        }
    }

    /// New data is about to leave although nothing is in flight.
    pub fn restart(&mut self, now: Time) {
        if let Some(last) = self.last_sent_at.filter(|_| self.ran_dry) {
            let rto = self.rtt.rto(&self.config);
            self.controller.on_restart(&Restart::new(now.max(self.informed), now - last, rto));
            self.refresh();
        }
    }

    /// The flow is asked once in `interval`: where it is paced by a rate it may catch up by this much, and by
    /// [`SenderConfig::burst`] at least.
    pub fn set_batch_interval(&mut self, interval: Nanos) {
        self.pacer.set_burst(interval.max(self.config.burst));
    }

    /// The earliest time at which pacing lets the next packet go.
    pub fn due(&self) -> Time {
        self.pacer.due()
    }

    /// When [`Driver::tick`] wants to be called.
    pub fn next_tick(&self) -> Time {
        self.permit.next_tick
    }

    /// When an empty packet is due ([`Nature::heartbeat`]).
    pub fn heartbeat_at(&self) -> Time {
        self.heartbeat_at
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.controller.window()
    }

    /// The RTT estimator.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Payload bytes delivered since the start of the flow.
    pub fn bytes_delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// The options that it was made with.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// What the controller is, as read when the flow began.
    pub fn nature(&self) -> &Nature {
        &self.nature
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }
}

impl Departing {
    /// So many bytes in flight, the packet included, and so many that wait; `first` where nothing else is outstanding.
    pub const fn new(in_flight: u64, unsent: u64, first: bool) -> Self {
        Self { in_flight, unsent, first }
    }
}

impl Marks {
    /// On so many delivered bytes, of so many packets; `echo` where a reduction is due.
    pub const fn new(bytes: u64, packets: u32, echo: bool) -> Self {
        Self { bytes, packets, echo }
    }
}

impl AckProgress {
    /// No loss, no mark, and as much in flight as before.
    pub fn at(una: u64, next: u64, in_flight: u64) -> Self {
        Self {
            prior_in_flight: in_flight,
            in_flight,
            lost_bytes: 0,
            una,
            next,
            phase: Phase::Open,
            marks: Marks::default(),
        }
    }
}
