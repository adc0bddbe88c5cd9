//! What a controller answers: what it is ([`Nature`]), and what it permits at present ([`Permit`]).

use crate::units::{Nanos, Rate, Time};

/// What a controller is, from the start of its flow to the end.
///
/// There is no `Default`: a controller that stands around another passes the whole value on, and a new field has to be thought
/// about wherever a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nature {
    /// Use of ECN. A sender marks its packets by it and answers echoes by it, a receiver echoes by it.
    pub ecn: Ecn,
    /// When nothing was sent for this long, `transport::Driver` has an empty packet sent (Sprout's heartbeat).
    pub heartbeat: Option<Nanos>,
}

impl Nature {
    /// Packets are not ECN-capable, and nothing is sent when there is nothing to send.
    pub const PLAIN: Self = Self { ecn: Ecn::Off, heartbeat: None };
}

/// Everything that a controller permits until the next event.
///
/// There is no `Default`; an algorithm begins from [`Permit::up_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permit {
    /// Bytes that may be in flight. A packet may leave while bytes in flight plus its payload do not exceed this.
    pub window: u64,
    /// When the next packet may leave.
    pub pacing: Pacing,
    /// When [`Controller::on_tick`](super::Controller::on_tick) wants to be called; [`Time::NEVER`] for controllers without
    /// a clock of their own.
    pub next_tick: Time,
    /// The slow-start threshold in bytes, [`u64::MAX`] where none is known: a datapath that paces what is [`Pacing::Free`]
    /// does so by 200 % of the window while this is below half of it, so that slow start can double, and by 120 % after that
    /// (Linux `tcp_update_pacing_rate`).
    pub threshold: u64,
    /// Who shapes the rate during recovery. Read as an episode begins: the answer may change from one to the next.
    pub recovery: Recovery,
    /// Marks are observed and not answered (a start-up that paces itself): the datapath neither enters
    /// [`Phase::Cwr`](super::Phase::Cwr) nor reduces on its own.
    pub holds_against_marks: bool,
    /// The pacing rate is the rate that was measured, and is meant to bound what is in flight by itself (BBR's ProbeBW): a
    /// datapath whose source says so may let more than `window` be in flight, up to a ceiling of its own.
    pub cruises: bool,
    /// The window is what is in flight and a budget on top of it: what is delivered makes no room for more. A datapath that applies
    /// a window some time after it was given must take off what was delivered since.
    pub is_budget: bool,
    /// [`Controller::on_sent`](super::Controller::on_sent) changes none of this: a datapath need not ask again after each packet.
    pub outlasts_departures: bool,
}

impl Permit {
    /// Up to `window` bytes in flight, and the rest as it is for most: unpaced, without a clock or a known threshold, the datapath
    /// repairs losses and answers marks for the controller, and asks again after each packet.
    pub const fn up_to(window: u64) -> Self {
        Self {
            window,
            pacing: Pacing::Free,
            next_tick: Time::NEVER,
            threshold: u64::MAX,
            recovery: Recovery::Prr,
            holds_against_marks: false,
            cruises: false,
            is_budget: false,
            outlasts_departures: false,
        }
    }
}

/// The answer to "when may the next packet leave?": the time from the start of the packet last sent to the start of
/// the next one. Asked after each packet, and again after any event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// As soon as the window allows.
    Free,
    /// On average this rate: the gap is the size of the packet last sent over the rate. A datapath may send small
    /// bursts (its timer's step) that keep the average.
    Rate(Rate),
    /// Exactly this gap: no bursts, no catching up (a chirp's gap, a guard interval). [`Nanos::MAX`] holds the flow
    /// until another event.
    Gap(Nanos),
}

/// Who shapes the sending rate while losses are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The datapath glides to the controller's reduced window by proportional rate reduction (RFC 6937).
    Prr,
    /// The controller's window counts at every moment (BBR, Copa, Verus, Sprout).
    Controller,
}

/// How a controller uses explicit congestion notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Packets are not ECN-capable.
    Off,
    /// ECT(0); the receiver latches ECE until CWR (RFC 3168).
    Classic,
    /// ECT(0); the receiver echoes each packet's mark (RFC 8257).
    Exact,
    /// ECT(1); the receiver echoes each packet's mark (RFC 9331).
    L4s,
}
