//! What every sender has: a controller, and what it must be told.

use paceline_cc::{Ack, Acked, Controller, Lost, Nanos, Pacing, Phase, Rate, RateSample, Restart, Sent, Time};

use crate::arrivals::Lookup;
use crate::config::{Config, Pace};
use crate::pacer::Pacer;
use crate::rate::RateSampler;
use crate::rtt::Rtt;
use crate::scoreboard::Packet;
use crate::segment::ArrivalTime;

/// Packets that leave unpaced at the start of a flow (Linux `TCP_INIT_CWND`).
const UNPACED: u64 = 10;

/// A controller and the measurements it lives on.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) rtt: Rtt,
    pub(crate) rate: RateSampler,
    pub(crate) pacer: Pacer,
    /// Scratch for one acknowledgement.
    pub(crate) acked: Vec<Acked>,
    /// Scratch for one round of loss detection.
    pub(crate) lost: Vec<Lost>,
    /// When the controller wants its tick.
    pub(crate) tick_at: Time,
    /// When an empty packet is due.
    pub(crate) heartbeat_at: Time,
    /// When the last packet left.
    pub(crate) last_sent_at: Option<Time>,
    /// The application had nothing to send when last asked.
    pub(crate) ran_dry: bool,
    packets: u64,
}

/// What a set of newly delivered packets says.
pub(crate) struct Delivery {
    pub(crate) bytes: u64,
    /// RTT of the newest packet that was never retransmitted.
    pub(crate) rtt: Option<Nanos>,
    pub(crate) rate: Option<RateSample>,
    pub(crate) window_limited: bool,
    /// The newest packet.
    pub(crate) newest: Option<Packet>,
}

/// What the receiver's clock said at the arrivals of newly delivered packets.
#[derive(Clone, Copy, Debug)]
pub enum Arrived<'a> {
    /// Nothing that is sure.
    Unknown,
    /// At that of the newest.
    Newest(Time),
    /// At each that is listed.
    Each(&'a [ArrivalTime]),
}

impl Core {
    pub(crate) fn new(config: &Config, controller: Box<dyn Controller>) -> Self {
        let mut core = Self {
            config: *config,
            controller,
            rtt: Rtt::new(),
            rate: RateSampler::new(),
            pacer: Pacer::new(config.burst),
            acked: Vec::new(),
            lost: Vec::new(),
            tick_at: Time::NEVER,
            heartbeat_at: Time::NEVER,
            last_sent_at: None,
            ran_dry: false,
            packets: 0,
        };
        core.refresh();
        core
    }

    /// A packet leaves; `in_flight` counts it, `unsent` does not, and nothing else is outstanding when it is the `first`.
    /// Answers the note for the receiver half.
    pub(crate) fn sent(&mut self, now: Time, packet: &mut Packet, in_flight: u64, unsent: u64, first: bool) -> u64 {
        let bytes = packet.bytes;
        packet.depart(&self.rate.stamp(now, first, packet.retransmitted));
        self.ran_dry = false;
        let stamp = self.controller.on_sent(&Sent {
            now,
            seq: packet.seq,
            bytes,
            in_flight,
            retransmission: packet.retransmitted,
            app_limited: packet.app_limited,
            unsent,
        });
        packet.tag = stamp.tag;
        self.departed(now, bytes);
        stamp.note
    }

    /// An empty packet leaves. Its stamp does not come back.
    pub(crate) fn sent_empty(&mut self, now: Time, seq: u64, in_flight: u64, unsent: u64) -> u64 {
        let app_limited = self.rate.is_app_limited();
        let sent = Sent { now, seq, bytes: 0, in_flight, retransmission: false, app_limited, unsent };
        let stamp = self.controller.on_sent(&sent);
        self.departed(now, 0);
        stamp.note
    }

    /// Something left: the controller answers for the next packet.
    fn departed(&mut self, now: Time, bytes: u32) {
        self.packets += 1;
        self.last_sent_at = Some(now);
        let answer = self.pacing();
        if bytes > 0 {
            self.pacer.sent(now, bytes, answer);
        } else {
            self.pacer.refresh(answer);
        }
        self.tick_at = self.controller.next_tick();
        self.heartbeat_at = self.controller.heartbeat().map_or(Time::NEVER, |silence| now + silence);
    }

    /// The handshake has been answered, `sample` after it left; `next` is the position of the first byte.
    pub(crate) fn connected(&mut self, now: Time, sample: Nanos, next: u64) {
        self.rtt.sample(sample);
        self.rtt.min = self.rtt.min.min(sample);
        self.controller.on_ack(&Ack {
            now,
            packets: &[],
            bytes: 0,
            rtt: None,
            srtt: self.rtt.smoothed.unwrap_or(sample),
            min_rtt: self.rtt.min,
            rate: None,
            prior_in_flight: 0,
            in_flight: 0,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: 0,
            una: next,
            next,
            phase: Phase::Open,
            window_limited: false,
        });
        self.refresh();
    }

    /// Asks the controller again after an event.
    pub(crate) fn refresh(&mut self) {
        let answer = self.pacing();
        self.pacer.refresh(answer);
        self.tick_at = self.controller.next_tick();
    }

    fn pacing(&self) -> Pacing {
        match self.controller.pacing() {
            Pacing::Free if self.config.pace == Pace::Linux => self.linux_pacing(),
            answer => answer,
        }
    }

    fn linux_pacing(&self) -> Pacing {
        let Some(srtt) = self.rtt.smoothed.filter(|_| self.packets >= UNPACED) else {
            return Pacing::Free;
        };
        let window = self.controller.window();
        let percent = if window < self.controller.threshold() / 2 { 200 } else { 120 };
        Pacing::Rate(Rate::from_bytes_in(window.saturating_mul(percent) / 100, srtt))
    }

    /// Runs the controller's clock.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.tick_at <= now {
            self.controller.on_tick(now);
            self.refresh();
        }
    }

    /// The application has nothing to send although the window is open.
    pub(crate) fn run_dry(&mut self, now: Time, in_flight: u64) {
        self.rate.mark_app_limited(in_flight);
        if !self.ran_dry {
            self.ran_dry = true;
            self.controller.on_app_limited(now, in_flight);
            self.refresh();
        }
    }

    /// New data leaves although nothing is in flight.
    pub(crate) fn restart(&mut self, now: Time) {
        if let Some(last) = self.last_sent_at.filter(|_| self.ran_dry) {
            let rto = self.rtt.rto(&self.config);
            self.controller.on_restart(&Restart { now, idle: now - last, rto });
        }
    }

    /// Takes in newly delivered packets: fills `acked` in sending order and samples RTT and rate.
    pub(crate) fn digest(&mut self, now: Time, fresh: &mut [Packet], ce: bool, received: &Arrived<'_>) -> Delivery {
        let mut arrivals = Lookup::new(match received {
            Arrived::Each(list) => list,
            Arrived::Newest(_) | Arrived::Unknown => &[],
        });
        self.acked.clear();
        let mut delivery = Delivery { bytes: 0, rtt: None, rate: None, window_limited: false, newest: None };
        if fresh.len() > 1 && !fresh.is_sorted_by_key(|packet| packet.serial) {
            fresh.sort_unstable_by_key(|packet| packet.serial);
        }
        for packet in &*fresh {
            delivery.bytes += u64::from(packet.bytes);
            if !packet.retransmitted {
                delivery.rtt = Some(now - packet.sent_at);
            }
            self.acked.push(Acked {
                seq: packet.seq,
                bytes: packet.bytes,
                sent_at: packet.sent_at,
                tag: packet.tag,
                retransmitted: packet.retransmitted,
                app_limited: packet.app_limited,
                ce,
                received_at: arrivals.find(packet.seq),
            });
        }
        let (Some(newest), Some(last)) = (fresh.last(), self.acked.last_mut()) else {
            return delivery;
        };
        if let Arrived::Newest(at) = received {
            last.received_at = Some(*at);
        }
        if let Some(rtt) = delivery.rtt {
            self.rtt.observe(rtt);
        }
        delivery.window_limited = newest.window_limited;
        delivery.newest = Some(*newest);
        delivery.rate = self.rate.deliver(now, delivery.bytes, &newest.departure(), self.rtt.min);
        delivery
    }
}
