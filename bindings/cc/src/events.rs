//! The structures of C as the types of [`paceline_cc`], and back. Numbers of the header stand here alone.

use paceline_cc::{
    Ability, Ack, Acked, Carrier, Cause, Ecn, Env, Hop, Loss, Lost, Nanos, Nature, Pacing, Permit, Phase, Rate,
    RateSample, Recovery, Sent, Spec, Telemetry, Time, Timeout,
};
use paceline_transport::FlowLimit;

use crate::outcome::{Code, Failure};
use crate::passing::{List, flags, reserved};
use crate::structs::{
    paceline_ack, paceline_acked, paceline_env, paceline_hop, paceline_loss, paceline_lost, paceline_nature,
    paceline_permit, paceline_sent, paceline_telemetry, paceline_timeout,
};

const ENV_PACED: u32 = 1;

const RETRANSMITTED: u32 = 1;
const APP_LIMITED: u32 = 2;
const CE: u32 = 4;
const RECEIVED_AT: u32 = 8;

const ACK_RTT: u32 = 1;
const ACK_RATE: u32 = 2;
const ACK_RATE_APP_LIMITED: u32 = 4;
const ACK_RATE_RETRANSMITTED: u32 = 8;
const ACK_ECHO: u32 = 16;
const ACK_WINDOW_LIMITED: u32 = 32;

const NEW_EPISODE: u32 = 1;

const TELEMETRY_PACKET: u32 = 1;

const PERMIT_HOLDS_AGAINST_MARKS: u32 = 1;
const PERMIT_CRUISES: u32 = 2;
const PERMIT_BUDGET: u32 = 4;
const PERMIT_OUTLASTS_DEPARTURES: u32 = 8;

/// The bit of an ability: `PACELINE_CAN_*`.
fn bit(ability: Ability) -> u32 {
    match ability {
        Ability::ReceiverHalf => 1,
        Ability::ExactGaps => 2,
        Ability::ExactMarks => 4,
        Ability::Telemetry => 8,
        Ability::ArrivalTimes => 16,
        Ability::Ect1 => 32,
    }
}

/// What a controller cannot work without.
pub(crate) fn needs(spec: &Spec) -> u32 {
    Ability::ALL.into_iter().filter(|ability| spec.needs(*ability)).map(bit).sum()
}

impl paceline_env {
    pub(crate) fn env(&self) -> Result<Env, Failure> {
        let given = flags(self.flags, ENV_PACED, "paceline_env.flags")?;
        let known = Ability::ALL.into_iter().map(bit).sum();
        flags(self.offers, known, "paceline_env.offers")?;
        let mss = if self.mss == 0 { Env::default().mss } else { self.mss };
        Ok(Env::new(mss).with_seed(self.seed).with_paced(given & ENV_PACED != 0))
    }

    /// Whether the host has what the controller cannot work without.
    pub(crate) fn fits(&self, spec: &Spec) -> Result<(), Failure> {
        let lacks = |ability: &Ability| spec.needs(*ability) && self.offers & bit(*ability) == 0;
        let lacking: Vec<_> = Ability::ALL.into_iter().filter(lacks).map(Ability::name).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let lacking = lacking.join(", ");
        Err(Failure::new(
            Code::Misfit,
            format!(
                "{spec} needs of its host: {lacking}; say so in paceline_env.offers where it has it, or take another controller"
            ),
        ))
    }
}

/// Where loss recovery stands.
pub(crate) fn phase(number: u32, what: &str) -> Result<Phase, Failure> {
    match number {
        0 => Ok(Phase::Open),
        1 => Ok(Phase::Cwr),
        2 => Ok(Phase::Recovery),
        3 => Ok(Phase::Loss),
        _ => Err(Failure::invalid(format!(
            "{what}: {number} is not a phase; set it to PACELINE_PHASE_OPEN or another of these"
        ))),
    }
}

/// What limits a flow.
pub(crate) fn limit(number: u32, what: &str) -> Result<FlowLimit, Failure> {
    match number {
        0 => Ok(FlowLimit::Unknown),
        1 => Ok(FlowLimit::Window),
        2 => Ok(FlowLimit::Application),
        _ => Err(Failure::invalid(format!(
            "{what}: {number} is not a limit; set it to PACELINE_LIMIT_UNKNOWN or another of these"
        ))),
    }
}

fn cause(number: u32) -> Result<Cause, Failure> {
    match number {
        0 => Ok(Cause::Unknown),
        1 => Ok(Cause::Congestion),
        2 => Ok(Cause::Aqm),
        3 => Ok(Cause::Policer),
        4 => Ok(Cause::Medium),
        5 => Ok(Cause::Handover),
        _ => Err(Failure::invalid(format!(
            "cause: {number} is not one; set it to PACELINE_CAUSE_UNKNOWN or another of these"
        ))),
    }
}

impl paceline_sent {
    #[inline]
    pub(crate) fn event(&self, now: Time) -> Result<Sent, Failure> {
        let given = flags(self.flags, RETRANSMITTED | APP_LIMITED, "paceline_sent.flags")?;
        reserved(self.reserved, "paceline_sent.reserved")?;
        let Self { bytes, seq, in_flight, unsent, .. } = *self;
        let (retransmission, app_limited) = (given & RETRANSMITTED != 0, given & APP_LIMITED != 0);
        let mut sent = Sent::new(now, seq, bytes);
        sent.in_flight = in_flight;
        sent.retransmission = retransmission;
        sent.app_limited = app_limited;
        sent.unsent = unsent;
        Ok(sent)
    }
}

impl paceline_acked {
    #[inline]
    pub(crate) fn packet(&self) -> Result<Acked, Failure> {
        let given = flags(self.flags, RETRANSMITTED | APP_LIMITED | CE | RECEIVED_AT, "paceline_acked.flags")?;
        let mut acked = Acked::new(self.seq, self.bytes, Time::from_nanos(self.sent_at));
        acked.tag = self.tag;
        acked.retransmitted = given & RETRANSMITTED != 0;
        acked.app_limited = given & APP_LIMITED != 0;
        acked.ce = given & CE != 0;
        acked.received_at = (given & RECEIVED_AT != 0).then(|| Time::from_nanos(self.received_at));
        Ok(acked)
    }
}

impl paceline_lost {
    #[inline]
    pub(crate) fn packet(&self) -> Result<Lost, Failure> {
        let Self { seq, bytes, tag, .. } = *self;
        let mut lost = Lost::new(seq, bytes, Time::from_nanos(self.sent_at)).with_cause(cause(self.cause)?);
        lost.tag = tag;
        Ok(lost)
    }
}

/// The sum that the host gives, or that of its packets.
fn sum(given: u64, packets: impl Iterator<Item = u32>) -> u64 {
    if given > 0 { given } else { packets.map(u64::from).fold(0, u64::saturating_add) }
}

impl paceline_ack {
    pub(crate) fn list(&self) -> List<paceline_acked> {
        List { first: self.packets, count: self.packet_count, stride: self.packet_size }
    }

    #[inline]
    pub(crate) fn event<'a>(&self, now: Time, packets: &'a [Acked]) -> Result<Ack<'a>, Failure> {
        const RATE: u32 = ACK_RATE | ACK_RATE_APP_LIMITED | ACK_RATE_RETRANSMITTED;
        let given = flags(self.flags, ACK_RTT | RATE | ACK_ECHO | ACK_WINDOW_LIMITED, "paceline_ack.flags")?;
        let has = |flag| given & flag != 0;
        if has(ACK_RATE) && self.rate_interval == 0 {
            return Err(Failure::invalid(
                "paceline_ack.rate_interval: an interval is never 0; leave PACELINE_ACK_RATE out",
            ));
        }
        let rate = has(ACK_RATE).then(|| {
            let mut sample = RateSample::new(self.rate_delivered, Nanos::from_nanos(self.rate_interval));
            sample.prior_delivered = self.rate_prior_delivered;
            sample.app_limited = has(ACK_RATE_APP_LIMITED);
            sample.retransmission = has(ACK_RATE_RETRANSMITTED);
            sample
        });
        let mut ack = Ack::new(now, packets);
        ack.bytes = sum(self.bytes, packets.iter().map(|packet| packet.bytes));
        ack.rtt = has(ACK_RTT).then(|| Nanos::from_nanos(self.rtt));
        ack.srtt = Nanos::from_nanos(self.srtt);
        ack.min_rtt = if self.min_rtt == 0 { Nanos::MAX } else { Nanos::from_nanos(self.min_rtt) };
        ack.rate = rate;
        ack.prior_in_flight = self.prior_in_flight;
        ack.in_flight = self.in_flight;
        ack.lost_bytes = self.lost_bytes;
        ack.ce_bytes = self.ce_bytes;
        ack.ce_packets = self.ce_packets;
        ack.echo = has(ACK_ECHO);
        ack.delivered = self.delivered;
        ack.una = self.una;
        ack.next = self.next;
        ack.phase = phase(self.phase, "paceline_ack.phase")?;
        ack.window_limited = has(ACK_WINDOW_LIMITED);
        Ok(ack)
    }
}

impl paceline_loss {
    pub(crate) fn list(&self) -> List<paceline_lost> {
        List { first: self.packets, count: self.packet_count, stride: self.packet_size }
    }

    pub(crate) fn event<'a>(&self, now: Time, packets: &'a [Lost]) -> Result<Loss<'a>, Failure> {
        let given = flags(self.flags, NEW_EPISODE, "paceline_loss.flags")?;
        if packets.is_empty() {
            return Err(Failure::invalid(
                "paceline_loss.packets: a loss names its packets; list them, or leave the call out",
            ));
        }
        let bytes = sum(self.bytes, packets.iter().map(|packet| packet.bytes));
        let Self { prior_in_flight, in_flight, .. } = *self;
        let mut loss = Loss::new(now, packets);
        loss.bytes = bytes;
        loss.prior_in_flight = prior_in_flight;
        loss.in_flight = in_flight;
        loss.new_episode = given & NEW_EPISODE != 0;
        Ok(loss)
    }
}

impl paceline_timeout {
    pub(crate) fn list(&self) -> List<paceline_lost> {
        List { first: self.packets, count: self.packet_count, stride: self.packet_size }
    }

    pub(crate) fn event<'a>(&self, now: Time, packets: &'a [Lost]) -> Timeout<'a> {
        let Self { prior_in_flight, in_flight, count, .. } = *self;
        let mut timeout = Timeout::new(now, packets);
        timeout.prior_in_flight = prior_in_flight;
        timeout.in_flight = in_flight;
        timeout.count = count.max(1);
        timeout
    }
}

impl paceline_hop {
    pub(crate) fn hop(&self) -> Result<Hop, Failure> {
        let given = flags(self.known, 0x7ff, "paceline_hop.known")?;
        fn known<T>(given: u32, number: u32, value: T) -> Option<T> {
            (given & 1 << number != 0).then_some(value)
        }
        let mut hop = Hop::new(self.id);
        hop.arrived_at = known(given, 0, Time::from_nanos(self.arrived_at));
        hop.delay = known(given, 1, Nanos::from_nanos(self.delay));
        hop.queue_bytes = known(given, 2, self.queue_bytes);
        hop.capacity = known(given, 3, Rate::from_bytes_per_sec(self.capacity));
        hop.arrival = known(given, 4, Rate::from_bytes_per_sec(self.arrival));
        hop.room_packets = known(given, 5, self.room_packets);
        hop.limit_packets = known(given, 6, self.limit_packets);
        hop.flows = known(given, 7, self.flows);
        hop.drops = known(given, 8, self.drops);
        hop.signal_dbm = known(given, 9, self.signal_dbm);
        hop.radio_retry_share = known(given, 10, self.radio_retry_share);
        Ok(hop)
    }
}

impl paceline_telemetry {
    pub(crate) fn list(&self) -> List<paceline_hop> {
        List { first: self.hops, count: self.hop_count, stride: self.hop_size }
    }

    pub(crate) fn event<'a>(&self, now: Time, hops: &'a [Hop]) -> Result<Telemetry<'a>, Failure> {
        let given = flags(self.flags, TELEMETRY_PACKET, "paceline_telemetry.flags")?;
        reserved(self.reserved, "paceline_telemetry.reserved")?;
        let carrier = Carrier::new(self.seq, Time::from_nanos(self.sent_at), self.tag);
        let mut telemetry = Telemetry::new(now, cause(self.verdict)?, Nanos::from_nanos(self.fresh_for), hops);
        telemetry.packet = (given & TELEMETRY_PACKET != 0).then_some(carrier);
        Ok(telemetry)
    }
}

fn recovery(recovery: Recovery) -> u32 {
    match recovery {
        Recovery::Prr => 0,
        Recovery::Controller => 1,
    }
}

/// Which pacing, and its number.
fn pace(pacing: Pacing) -> (u32, u64) {
    match pacing {
        Pacing::Free => (0, 0),
        Pacing::Rate(rate) => (1, rate.as_bytes_per_sec()),
        Pacing::Gap(gap) => (2, gap.as_nanos()),
    }
}

impl paceline_nature {
    pub(crate) fn of(nature: &Nature, start: Recovery, needs: u32) -> Self {
        let ecn = match nature.ecn {
            Ecn::Off => 0,
            Ecn::Classic => 1,
            Ecn::Exact => 2,
            Ecn::L4s => 3,
        };
        let heartbeat = nature.heartbeat.map_or(0, Nanos::as_nanos);
        let receiver_half = needs & bit(Ability::ReceiverHalf);
        Self { recovery: recovery(start), ecn, needs, heartbeat, receiver_half, ..Self::zero() }
    }
}

impl From<Permit> for paceline_permit {
    #[inline]
    fn from(permit: Permit) -> Self {
        let (pacing, pace) = pace(permit.pacing);
        let flag = |so: bool, flag| if so { flag } else { 0 };
        Self {
            size: size_of::<Self>() as u32,
            flags: flag(permit.holds_against_marks, PERMIT_HOLDS_AGAINST_MARKS)
                | flag(permit.cruises, PERMIT_CRUISES)
                | flag(permit.is_budget, PERMIT_BUDGET)
                | flag(permit.outlasts_departures, PERMIT_OUTLASTS_DEPARTURES),
            window: permit.window,
            next_tick: permit.next_tick.as_nanos(),
            threshold: permit.threshold,
            pacing,
            recovery: recovery(permit.recovery),
            pace,
        }
    }
}
