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
        0..=2 => drop(controller.on_sent(&sent(now, n, f))),
        3..=6 => controller.on_ack(&ack(now, n, f, &acked(n, f))),
        7 => {
            let packets = [lost(n, f)];
            let mut loss = Loss::new(now, &packets);
            loss.bytes = amount(n[4]);
            loss.prior_in_flight = amount(n[5]);
            loss.in_flight = amount(n[6]);
            loss.new_episode = f[0];
            controller.on_loss(&loss);
        }
        8 => {
            let packets = [lost(n, f)];
            let mut timeout = Timeout::new(now, &packets[..usize::from(f[2])]);
            timeout.prior_in_flight = amount(n[0]);
            timeout.in_flight = amount(n[2 % n.len()]);
            timeout.count = n[1].min(1 << 20) as u32;
            controller.on_timeout(&timeout);
        }
        9 => controller.on_spurious(now),
        10 => controller.on_restart(&Restart::new(now, Nanos::from_nanos(n[0]), Nanos::from_nanos(n[1]))),
        11..=12 => {
            let hops = hops(n, f);
            let verdict = [Cause::Unknown, Cause::Medium, Cause::Congestion][n[3] as usize % 3];
            let mut telemetry = Telemetry::new(now, verdict, Nanos::from_nanos(n[4]), &hops[..n[5] as usize % 3]);
            telemetry.packet = f[0].then(|| Carrier::new(n[0], Time::from_nanos(n[1]), n[2]));
            controller.on_telemetry(&telemetry);
        }
        _ => controller.on_tick(now),
    }
}

fn sent(now: Time, n: &[u64; 16], f: &[bool; 8]) -> Sent {
    let mut sent = Sent::new(now, n[0], n[1].min(65_535) as u32);
    sent.in_flight = amount(n[2]);
    sent.retransmission = f[0];
    sent.app_limited = f[1];
    sent
}

fn hops(n: &[u64; 16], f: &[bool; 8]) -> [Hop; 2] {
    let (count, rate) = (|number: u64| number.min(1 << 32) as u32, Rate::from_bytes_per_sec);
    let mut one = Hop::new(count(n[6]));
    one.arrived_at = f[1].then(|| Time::from_nanos(n[7]));
    one.delay = f[2].then(|| Nanos::from_nanos(n[8]));
    one.queue_bytes = f[3].then_some(n[9]);
    one.room_packets = f[4].then(|| count(n[10]));
    one.limit_packets = f[5].then(|| count(n[11]));
    one.capacity = f[6].then(|| rate(n[12]));
    one.arrival = f[7].then(|| rate(n[13]));
    one.flows = f[0].then(|| count(n[14]));
    one.drops = f[1].then(|| count(n[15]));
    let mut other = one;
    other.room_packets = f[5].then(|| count(n[15]));
    other.limit_packets = None;
    other.capacity = Some(rate(n[10]));
    [one, other]
}

fn lost(n: &[u64; 16], f: &[bool; 8]) -> Lost {
    let cause = if f[1] { Cause::Unknown } else { [Cause::Congestion, Cause::Medium][usize::from(f[3])] };
    let mut lost = Lost::new(n[0], n[1].min(65_535) as u32, Time::from_nanos(n[2])).with_cause(cause);
    lost.tag = n[3];
    lost
}

fn acked(n: &[u64; 16], f: &[bool; 8]) -> [Acked; 2] {
    let mut one = Acked::new(n[0], n[1].min(65_535) as u32, Time::from_nanos(n[2]));
    one.tag = n[3];
    one.retransmitted = f[0];
    one.app_limited = f[1];
    one.ce = f[2];
    one.received_at = f[3].then(|| Time::from_nanos(n[4]));
    let mut other = one;
    (other.seq, other.tag, other.sent_at) = (n[5], n[6], Time::from_nanos(n[7]));
    [one, other]
}

fn ack<'a>(now: Time, n: &[u64; 16], f: &[bool; 8], packets: &'a [Acked; 2]) -> Ack<'a> {
    let mut ack = Ack::new(now, &packets[..n[15] as usize % 3]);
    ack.bytes = amount(n[8]);
    ack.rtt = f[4].then(|| Nanos::from_nanos(n[9]));
    ack.srtt = Nanos::from_nanos(n[10]);
    ack.min_rtt = if n[11] == 1 { Nanos::MAX } else { Nanos::from_nanos(n[11]) };
    ack.rate = f[5].then(|| {
        let mut sample = RateSample::new(amount(n[8]), Nanos::from_nanos(n[12].max(1)));
        sample.prior_delivered = n[13];
        sample.app_limited = f[1];
        sample.retransmission = f[0];
        sample
    });
    ack.prior_in_flight = amount(n[14]);
    ack.in_flight = amount(n[7]);
    ack.lost_bytes = amount(n[6]);
    ack.ce_bytes = amount(n[5]);
    ack.ce_packets = n[4].min(1 << 20) as u32;
    ack.echo = f[6];
    ack.delivered = n[3];
    ack.una = n[2];
    ack.next = n[1];
    ack.phase = [Phase::Open, Phase::Cwr, Phase::Recovery, Phase::Loss][n[0] as usize % 4];
    ack.window_limited = f[7];
    ack
}
