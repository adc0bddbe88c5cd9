//! CUBIC with records of its path. The simulated flow's controller is the one in Rust, which is informed of a made-up bottleneck
//! every 10 ms; so does the kernel's.

use paceline_cc::registry::{Definition, register};
use paceline_cc::{
    Ack, Cause, Controller, Env, Hop, Loss, Nanos, Nature, Permit, Rate, Restart, Sent, Spec, Stamp, Telemetry, Time,
    Timeout,
};
use paceline_experiment::Via;

use super::{Answered, Tolerance, compare, simulated};
use crate::native::Native;

/// Between two reports.
const INTERVAL: Nanos = Nanos::from_millis(10);
const FRESH_FOR: Nanos = Nanos::from_millis(100);
/// The hop: 20 Mbit/s and a queue of 60 packets, in packets of 1514 bytes (`HOP_PACKET_BYTES` of `core/cc/src/path_report.rs`).
const PACKETS_PER_SECOND: u64 = 1650;
const PACKET: u64 = 1514;
const LIMIT: u32 = 60;

/// What is reported at a moment, if anything is: why packets were lost, and the room.
fn report(now: Time) -> Option<(Cause, u32)> {
    let step = now.as_nanos() / INTERVAL.as_nanos();
    let room = (step * 7 % u64::from(LIMIT + 1)) as u32;
    // A second each in which the cause is not known, and in which nothing is.
    match now.as_nanos() / 1_000_000_000 % 6 {
        0..4 => Some((Cause::Medium, room)),
        4 => Some((Cause::Unknown, room)),
        _ => None,
    }
}

/// The line of a report for `tests/native/replay.c`.
pub(super) fn line(now: Time) -> Option<String> {
    let (verdict, room) = report(now)?;
    let (micros, drain) = (now.as_nanos() / 1000, u64::from(LIMIT) * 1_000_000 / PACKETS_PER_SECOND);
    let verdict = u8::from(verdict == Cause::Medium);
    Some(format!("telemetry {micros} {verdict} {room} {LIMIT} {PACKETS_PER_SECOND} 1 {drain}"))
}

/// A controller that is informed of the hop; its own clock is that of the reports.
struct Fed {
    inner: Box<dyn Controller>,
    next: Time,
}

impl Controller for Fed {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.inner.on_sent(sent)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.inner.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.inner.on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        self.inner.on_timeout(timeout);
    }

    fn on_spurious(&mut self, now: Time) {
        self.inner.on_spurious(now);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.inner.on_restart(restart);
    }

    fn on_tick(&mut self, now: Time) {
        self.next = now + INTERVAL;
        let Some((verdict, room)) = report(now) else { return };
        let rate = Some(Rate::from_bytes_per_sec(PACKETS_PER_SECOND * PACKET));
        let mut hop = Hop::new(1);
        hop.room_packets = Some(room);
        hop.limit_packets = Some(LIMIT);
        hop.capacity = rate;
        hop.arrival = rate;
        hop.flows = Some(1);
        self.inner.on_telemetry(&Telemetry::new(now, verdict, FRESH_FOR, &[hop]));
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn permit(&self) -> Permit {
        let mut permit = self.inner.permit();
        permit.next_tick = self.next;
        permit
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.inner.describe(report);
    }
}

/// A simulated flow of `controller` over the path of the hop, of which it is informed.
fn fed(controller: &str, loss: f64) -> Vec<Answered> {
    let name = format!("fed-{}-{}", controller.replace([':', '=', ','], "-"), (loss * 1000.0) as u32);
    let spec: Spec = controller.parse().unwrap();
    let make =
        move |_: &_, env: &Env| Box::new(Fed { inner: spec.build(env), next: Time::ZERO }) as Box<dyn Controller>;
    register(Definition::new(name.clone(), make)).unwrap();
    simulated(&name, Via::tcp(None), 20.0, "droptail:packets=60", loss)
}

#[test]
fn cubic_with_records_follows_the_one_in_rust() {
    let Some(replay) = Native::compile("cubic_with_records_follows_the_one_in_rust", "replay") else { return };
    // Answers to losses, hundreds in each run, from the same window of whole packets: rounding alone is between the two, and whether room
    // for a quarter more is there, or is one packet short.
    for (name, packets, mean) in [
        ("cubic-l1", -25.0..=25.0, 0.96..=1.04),
        ("cubic-l1g", -60.0..=60.0, 0.98..=1.02),
        ("cubic-l2", -25.0..=25.0, 0.96..=1.04),
    ] {
        for loss in [0.0, 0.02, 0.1] {
            let tolerance = Tolerance { packets: packets.clone(), mean: mean.clone(), together: 0.0, answers: 0.97 };
            let answered = fed(&format!("{name}:packets=whole"), loss);
            compare(&replay, name, &format!("loss {loss}"), &answered, &tolerance);
        }
    }
    // Where losses are random, in Reno's region, as for CUBIC: 0.53 packets a round trip and not one, and each reduction rounds down.
    for name in ["cubic:eq1=1", "cubic:eq1=2", "cubic:eq1=3"] {
        for (loss, mean) in [(0.0, 0.95..=1.05), (0.02, 0.7..=1.0), (0.1, 0.65..=1.0)] {
            let tolerance = Tolerance { packets: -7.0..=25.0, mean, together: 0.0, answers: 0.0 };
            compare(&replay, name, &format!("loss {loss}"), &fed(name, loss), &tolerance);
        }
    }
}
