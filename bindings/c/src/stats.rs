//! `struct alcc_stats`.

use std::ffi::c_char;

use paceline_alcc::{Acks, LimitedBy, Mode, SocketStats};
use paceline_cc::Nanos;

/// State and counters of a connection, as `alcc.h` has them.
#[repr(C)]
#[expect(missing_docs, reason = "alcc.h says what each is")]
#[derive(Clone, Debug)]
pub struct Stats {
    pub age_us: u64,
    pub rate: u64,
    pub rtt_us: u64,
    pub srtt_us: u64,
    pub min_rtt_us: u64,
    pub below_us: u64,
    pub window: u64,
    pub lower_window: u64,
    pub in_flight: u64,
    pub queued: u64,
    pub written: u64,
    pub delivered: u64,
    pub chunks: u64,
    pub limited_below: u64,
    pub stamps_lost: u64,
    pub marked: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    pub limited_by: i32,
    pub mode: i32,
    pub acks: i32,
    pub reserved_word: i32,
    pub controller: [c_char; 64],
    pub reserved: [u64; 8],
}

impl Stats {
    pub(crate) fn of(stats: &SocketStats) -> Self {
        let micros = |span: Option<Nanos>| span.map_or(0, |span| span.as_nanos() / 1000);
        let mut controller = [0; 64];
        // The last stays 0. Names and numbers are ASCII.
        for (place, byte) in controller[..63].iter_mut().zip(stats.controller.bytes()) {
            *place = byte.cast_signed();
        }
        Self {
            age_us: micros(Some(stats.age)),
            rate: stats.rate.as_bytes_per_sec(),
            rtt_us: micros(stats.rtt),
            srtt_us: micros(stats.srtt),
            min_rtt_us: micros(stats.min_rtt),
            below_us: micros(Some(stats.below)),
            window: stats.window,
            lower_window: stats.lower_window,
            in_flight: stats.in_flight,
            queued: stats.queued,
            written: stats.written,
            delivered: stats.delivered,
            chunks: stats.chunks,
            limited_below: stats.limited_below,
            stamps_lost: stats.stamps_lost,
            marked: stats.marked,
            retransmits: u64::from(stats.retransmits),
            timeouts: u64::from(stats.timeouts),
            limited_by: match stats.limited_by {
                LimitedBy::Nothing => 0,
                LimitedBy::Application => 1,
                LimitedBy::Window => 2,
                LimitedBy::Pacing => 3,
                LimitedBy::LayerBelow => 4,
            },
            mode: match stats.mode {
                Mode::Auto | Mode::Queue => 1,
                Mode::Inline => 2,
                Mode::Framed => 3,
            },
            acks: match stats.acks {
                Acks::Auto | Acks::Stamps => 1,
                Acks::Info => 2,
            },
            reserved_word: 0,
            controller,
            reserved: [0; 8],
        }
    }
}
