//! A packet from its departure to its end.

use paceline_cc::{Lost, Time};

use crate::rate::Departure;

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    InFlight,
    Lost,
    Delivered,
}

/// A packet that was sent. The datapath keeps it until it is delivered or lost.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// Position of its first payload byte.
    pub seq: u64,
    /// Payload bytes.
    pub bytes: u32,
    /// When it was last sent.
    pub sent_at: Time,
    /// Number of its last transmission: transmissions count up in the order of departure.
    pub serial: u64,
    /// The controller's own ([`paceline_cc::Stamp::tag`]).
    pub tag: u64,
    /// Its payload was sent more than once.
    pub retransmitted: bool,
    /// The application limited the flow when it left.
    pub app_limited: bool,
    /// The window limited the flow then.
    pub window_limited: bool,
    /// It waited behind others that left at the same moment: its RTT says nothing of the path.
    pub follows: bool,
    pub(crate) state: State,
    /// State of the rate sampler at sending.
    prior_delivered: u64,
    prior_delivered_at: Time,
    first_sent_at: Time,
}

impl SentPacket {
    /// `bytes` from position `seq` on, which leave at `now` for the first time.
    pub fn new(seq: u64, bytes: u32, now: Time) -> Self {
        Self {
            seq,
            bytes,
            sent_at: now,
            serial: 0,
            tag: 0,
            retransmitted: false,
            app_limited: false,
            window_limited: false,
            follows: false,
            state: State::InFlight,
            prior_delivered: 0,
            prior_delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
        }
    }

    /// One past the position of its last byte.
    pub fn end(&self) -> u64 {
        self.seq.saturating_add(u64::from(self.bytes))
    }

    /// Its last transmission was lost, and why is not known.
    pub fn lost(&self) -> Lost {
        let mut lost = Lost::new(self.seq, self.bytes, self.sent_at);
        lost.tag = self.tag;
        lost
    }

    pub(crate) fn order(&self) -> u64 {
        self.serial
    }

    /// Takes the rate sampler's state with it.
    pub(crate) fn depart(&mut self, departure: &Departure) {
        self.prior_delivered = departure.prior_delivered;
        self.prior_delivered_at = departure.prior_delivered_at;
        self.first_sent_at = departure.first_sent_at;
        self.app_limited = departure.app_limited;
    }

    /// What [`SentPacket::depart`] took.
    pub(crate) fn departure(&self) -> Departure {
        Departure {
            sent_at: self.sent_at,
            prior_delivered: self.prior_delivered,
            prior_delivered_at: self.prior_delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited,
            retransmission: self.retransmitted,
        }
    }
}
