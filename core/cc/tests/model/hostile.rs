//! Events that contradict each other, with counters and times up to 2^62 and amounts up to 2^48: a controller may
//! answer them oddly, but never by a panic, a window below one packet or a number that is not finite.
//!
//! What `controller.rs` promises of a single field still holds: time does not run backwards, an interval is never zero,
//! a loss names packets.

use paceline_cc::controller::{
    Ack, Acked, Carrier, Cause, Controller, Hop, Loss, Lost, Phase, RateSample, Restart, Sent, Telemetry, Timeout,
};
use paceline_cc::units::{Nanos, Rate, Time};
use proptest::prelude::*;

/// Which event, and the numbers to fill it with.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    kind: u8,
    now: u64,
    numbers: [u64; 16],
    flags: [bool; 8],
}

/// The most bytes that one event is about (our choice: 280 TB in flight).
fn amount(number: u64) -> u64 {
    number.min(1 << 48)
}

fn number() -> impl Strategy<Value = u64> {
    let top = 1u64 << 62;
    prop_oneof![
        2 => Just(0),
        1 => Just(1),
        4 => 0..100_000u64,
        2 => 0..1u64 << 33,
        1 => top - 100_000..=top,
        1 => 0..=top,
    ]
}

/// Any event.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    (0..14u8, number(), prop::array::uniform16(number()), prop::array::uniform8(any::<bool>()))
        .prop_map(|(kind, now, numbers, flags)| Event { kind, now, numbers, flags })
}

/// Feeds `event` to `controller`; time goes on by a part of its number, so that 60 of them stay below 2^63.
pub(crate) fn feed(controller: &mut dyn Controller, event: &Event, now: &mut Time) {
    *now += Nanos::from_nanos(event.now / 64);
    let (now, n, f) = (*now, &event.numbers, &event.flags);
    match event.kind {
        0..=2 => drop(controller.on_sent(&Sent {
            now,
            seq: n[0],
            bytes: n[1].min(65_535) as u32,
            in_flight: amount(n[2]),
            retransmission: f[0],
            app_limited: f[1],
            unsent: u64::MAX,
        })),
        3..=6 => controller.on_ack(&ack(now, n, f, &acked(n, f))),
        7 => controller.on_loss(&Loss {
            now,
            packets: &[lost(n, f)],
            bytes: amount(n[4]),
            prior_in_flight: amount(n[5]),
            in_flight: amount(n[6]),
            new_episode: f[0],
        }),
        8 => controller.on_timeout(&Timeout {
            now,
            packets: &[lost(n, f)][..usize::from(f[2])],
            prior_in_flight: amount(n[0]),
            in_flight: amount(n[2 % n.len()]),
            count: n[1].min(1 << 20) as u32,
        }),
        9 => controller.on_spurious(now),
        10 => controller.on_restart(&Restart { now, idle: Nanos::from_nanos(n[0]), rto: Nanos::from_nanos(n[1]) }),
        11..=12 => controller.on_telemetry(&Telemetry {
            now,
            packet: f[0].then(|| Carrier { seq: n[0], sent_at: Time::from_nanos(n[1]), tag: n[2] }),
            verdict: [Cause::Unknown, Cause::Medium, Cause::Congestion][n[3] as usize % 3],
            fresh_for: Nanos::from_nanos(n[4]),
            hops: &hops(n, f)[..n[5] as usize % 3],
        }),
        _ => controller.on_tick(now),
    }
}

fn hops(n: &[u64; 16], f: &[bool; 8]) -> [Hop; 2] {
    let (count, rate) = (|number: u64| number.min(1 << 32) as u32, Rate::from_bytes_per_sec);
    let one = Hop {
        id: count(n[6]),
        arrived_at: f[1].then(|| Time::from_nanos(n[7])),
        delay: f[2].then(|| Nanos::from_nanos(n[8])),
        queue_bytes: f[3].then_some(n[9]),
        room_packets: f[4].then(|| count(n[10])),
        limit_packets: f[5].then(|| count(n[11])),
        capacity: f[6].then(|| rate(n[12])),
        arrival: f[7].then(|| rate(n[13])),
        flows: f[0].then(|| count(n[14])),
        drops: f[1].then(|| count(n[15])),
        ..Hop::default()
    };
    [one, Hop { room_packets: f[5].then(|| count(n[15])), limit_packets: None, capacity: Some(rate(n[10])), ..one }]
}

fn lost(n: &[u64; 16], f: &[bool; 8]) -> Lost {
    Lost {
        seq: n[0],
        bytes: n[1].min(65_535) as u32,
        sent_at: Time::from_nanos(n[2]),
        tag: n[3],
        cause: if f[1] { Cause::Unknown } else { [Cause::Congestion, Cause::Medium][usize::from(f[3])] },
    }
}

fn acked(n: &[u64; 16], f: &[bool; 8]) -> [Acked; 2] {
    let one = Acked {
        seq: n[0],
        bytes: n[1].min(65_535) as u32,
        sent_at: Time::from_nanos(n[2]),
        tag: n[3],
        retransmitted: f[0],
        app_limited: f[1],
        ce: f[2],
        received_at: f[3].then(|| Time::from_nanos(n[4])),
    };
    [one, Acked { seq: n[5], tag: n[6], sent_at: Time::from_nanos(n[7]), ..one }]
}

fn ack<'a>(now: Time, n: &[u64; 16], f: &[bool; 8], packets: &'a [Acked; 2]) -> Ack<'a> {
    Ack {
        now,
        packets: &packets[..n[15] as usize % 3],
        bytes: amount(n[8]),
        rtt: f[4].then(|| Nanos::from_nanos(n[9])),
        srtt: Nanos::from_nanos(n[10]),
        min_rtt: if n[11] == 1 { Nanos::MAX } else { Nanos::from_nanos(n[11]) },
        rate: f[5].then(|| RateSample {
            delivered: amount(n[8]),
            interval: Nanos::from_nanos(n[12].max(1)),
            prior_delivered: n[13],
            app_limited: f[1],
            retransmission: f[0],
        }),
        prior_in_flight: amount(n[14]),
        in_flight: amount(n[7]),
        lost_bytes: amount(n[6]),
        ce_bytes: amount(n[5]),
        ce_packets: n[4].min(1 << 20) as u32,
        echo: f[6],
        delivered: n[3],
        una: n[2],
        next: n[1],
        phase: [Phase::Open, Phase::Cwr, Phase::Recovery, Phase::Loss][n[0] as usize % 4],
        window_limited: f[7],
    }
}
