//! How code outside of this crate makes the events and answers: what must be known is an argument; everything else is as of a flow of
//! which nothing more is known, and is set afterwards.
//!
//! ```
//! use paceline_cc::{Ack, Acked, Env, Nanos, Spec, Time};
//! let mut reno = "reno".parse::<Spec>()?.build(&Env::new(1200));
//! let (sent_at, now) = (Time::ZERO, Time::from_millis(20));
//! let packets = [Acked::new(0, 1200, sent_at)];
//! let mut ack = Ack::new(now, &packets);
//! ack.rtt = Some(now - sent_at);
//! ack.in_flight = 10_800;
//! reno.on_ack(&ack);
//! assert_eq!(reno.window(), 11 * 1200);
//! # Ok::<(), paceline_cc::SpecError>(())
//! ```

use super::{
    Ack, Acked, Arrival, BadFeedback, Carrier, Cause, Env, Hop, Loss, Lost, Phase, RateSample, Remembered, Restart,
    Sent, Stamp, Telemetry, Timeout,
};
use crate::units::{Nanos, Time};

impl Env {
    /// Full packets of `mss` payload bytes, seed 1, unpaced, and nothing remembered.
    pub const fn new(mss: u32) -> Self {
        Self { mss, seed: 1, paced: false, remembered: None }
    }

    /// The same with this [seed](Env::seed).
    #[must_use]
    pub const fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same over a datapath that [paces](Env::paced), or not.
    #[must_use]
    pub const fn with_paced(self, paced: bool) -> Self {
        Self { paced, ..self }
    }

    /// The same with what an earlier flow [learnt](Env::remembered).
    #[must_use]
    pub const fn with_remembered(self, remembered: Option<Remembered>) -> Self {
        Self { remembered, ..self }
    }
}

impl Remembered {
    /// `window` bytes in a round trip, and its smallest RTT, this long ago.
    pub const fn new(window: u64, min_rtt: Nanos, age: Nanos) -> Self {
        Self { window, min_rtt, age }
    }
}

impl Sent {
    /// `bytes` from position `seq` on left for the first time, alone in flight; what waits behind them is not known.
    pub const fn new(now: Time, seq: u64, bytes: u32) -> Self {
        let in_flight = bytes as u64;
        Self { now, seq, bytes, in_flight, retransmission: false, app_limited: false, unsent: u64::MAX }
    }
}

impl Stamp {
    /// For the sender, and for the receiver half.
    pub const fn new(tag: u64, note: u64) -> Self {
        Self { tag, note }
    }
}

impl Acked {
    /// `bytes` from position `seq` on that were sent once, then; unmarked, and without a tag.
    pub const fn new(seq: u64, bytes: u32, sent_at: Time) -> Self {
        Self { seq, bytes, sent_at, tag: 0, retransmitted: false, app_limited: false, ce: false, received_at: None }
    }
}

impl RateSample {
    /// So many bytes in this time, measured by a packet that was sent once, before any other was delivered.
    pub const fn new(delivered: u64, interval: Nanos) -> Self {
        Self { delivered, interval, prior_delivered: 0, app_limited: false, retransmission: false }
    }
}

impl<'a> Ack<'a> {
    /// Everything that was ever sent are these packets, which the window limited: without an RTT or a rate, unmarked, and with nothing
    /// lost or left in flight.
    #[inline]
    pub fn new(now: Time, packets: &'a [Acked]) -> Self {
        let bytes = packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        let end = packets.iter().map(|packet| packet.seq.saturating_add(u64::from(packet.bytes))).max().unwrap_or(0);
        Self {
            now,
            packets,
            bytes,
            rtt: None,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            rate: None,
            prior_in_flight: bytes,
            in_flight: 0,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: bytes,
            una: end,
            next: end,
            phase: Phase::Open,
            window_limited: true,
        }
    }
}

impl Lost {
    /// `bytes` from position `seq` on that were sent then; without a tag, and nothing is known of why.
    pub const fn new(seq: u64, bytes: u32, sent_at: Time) -> Self {
        Self { seq, bytes, sent_at, tag: 0, cause: Cause::Unknown }
    }

    /// The same, lost for this reason.
    #[must_use]
    pub const fn with_cause(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }
}

impl<'a> Loss<'a> {
    /// These packets begin an episode, and nothing else is in flight.
    #[inline]
    pub fn new(now: Time, packets: &'a [Lost]) -> Self {
        let bytes = packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        Self { now, packets, bytes, prior_in_flight: bytes, in_flight: 0, new_episode: true }
    }
}

impl<'a> Timeout<'a> {
    /// The first in a row, which declares these packets lost, and nothing else is in flight.
    #[inline]
    pub fn new(now: Time, packets: &'a [Lost]) -> Self {
        let prior_in_flight = packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        Self { now, packets, prior_in_flight, in_flight: 0, count: 1 }
    }
}

impl Restart {
    /// After a silence of `idle`, by a flow with this timeout.
    pub const fn new(now: Time, idle: Nanos, rto: Nanos) -> Self {
        Self { now, idle, rto }
    }
}

impl Hop {
    /// The hop with this number, which has reported nothing.
    pub const fn new(id: u32) -> Self {
        Self {
            id,
            arrived_at: None,
            delay: None,
            queue_bytes: None,
            room_packets: None,
            limit_packets: None,
            capacity: None,
            arrival: None,
            flows: None,
            drops: None,
            signal_dbm: None,
            radio_retry_share: None,
        }
    }
}

impl Carrier {
    /// The packet at `seq`, which was sent then and has this tag.
    pub const fn new(seq: u64, sent_at: Time, tag: u64) -> Self {
        Self { seq, sent_at, tag }
    }
}

impl<'a> Telemetry<'a> {
    /// What these hops say, good for so long; no packet is known to have carried it.
    pub const fn new(now: Time, verdict: Cause, fresh_for: Nanos, hops: &'a [Hop]) -> Self {
        Self { now, packet: None, verdict, fresh_for, hops }
    }
}

impl BadFeedback {
    /// A blob of `len` bytes, and what is wrong with it.
    pub const fn new(len: usize, what: &'static str) -> Self {
        Self { len, what }
    }
}

impl Arrival {
    /// `bytes` from position `seq` on, unmarked and without a note.
    pub const fn new(now: Time, seq: u64, bytes: u32) -> Self {
        Self { now, seq, bytes, note: 0, ce: false }
    }
}
