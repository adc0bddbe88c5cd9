//! What the border to C costs an event, in nanoseconds: `cargo run --release -p paceline-cc-c --example cost`. The same feed drives a
//! controller of Rust and the same one through the functions of the library; a packet is three events: sent, acknowledged, asked.
#![expect(unsafe_code, reason = "the functions are C's; pointers are to what lives longer than the call")]

use std::ffi::{CString, c_int};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use paceline_cc::registry::{Definition, register};
use paceline_cc::testing::steady::Steady;
use paceline_cc::{
    Ack, Acked, Controller, Env, Loss, Lost, Nanos, Nature, Pacing, Permit, Rate, Recovery, Sent, Spec, Stamp, Time,
    Timeout,
};
use paceline_cc_c::controller::{
    Controlled, paceline_cc_ack, paceline_cc_free, paceline_cc_loss, paceline_cc_new, paceline_cc_permit,
    paceline_cc_sent, paceline_cc_tick, paceline_cc_timeout,
};
use paceline_cc_c::handle::Handle;
use paceline_cc_c::structs::{
    paceline_ack, paceline_acked, paceline_loss, paceline_lost, paceline_permit, paceline_sent, paceline_stamp,
    paceline_timeout,
};

/// Packets of one measurement, and measurements of which the fastest counts: short ones, so that some are not interrupted.
const PACKETS: u32 = 10_000;
const TIMES: u32 = 500;

/// A controller behind the functions of the library.
struct Through {
    cc: *mut Handle<Controlled>,
    nature: Nature,
    acked: Vec<paceline_acked>,
    lost: Vec<paceline_lost>,
}

// SAFETY: a handle may change threads.
unsafe impl Send for Through {}

impl Drop for Through {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        unsafe { paceline_cc_free(self.cc) };
    }
}

fn worked(code: c_int) {
    assert_eq!(code, 0);
}

impl Through {
    fn new(spec: &str, env: &Env) -> Self {
        let nature = spec.parse::<Spec>().expect("it is registered").build(env).nature();
        let (text, mut cc) = (CString::new(spec).expect("a name"), null_mut());
        // SAFETY: all of it lives longer than the call.
        worked(unsafe { paceline_cc_new(text.as_ptr(), null(), &raw mut cc) });
        Self { cc, nature, acked: Vec::new(), lost: Vec::new() }
    }

    fn list(&mut self, packets: &[Lost]) {
        self.lost.clear();
        self.lost.extend(packets.iter().map(|lost| paceline_lost {
            seq: lost.seq,
            sent_at: lost.sent_at.as_nanos(),
            tag: lost.tag,
            bytes: lost.bytes,
            cause: 0,
        }));
    }
}

fn own(packet: &Acked) -> paceline_acked {
    let &Acked { seq, bytes, tag, .. } = packet;
    let flags = u32::from(packet.ce) << 2 | u32::from(packet.received_at.is_some()) << 3;
    let received_at = packet.received_at.unwrap_or(Time::ZERO).as_nanos();
    paceline_acked { seq, sent_at: packet.sent_at.as_nanos(), tag, received_at, bytes, flags }
}

impl Controller for Through {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let &Sent { seq, bytes, in_flight, unsent, .. } = sent;
        let now = sent.now.as_nanos();
        let sent = paceline_sent { bytes, now, seq, in_flight, unsent, ..paceline_sent::zero() };
        let mut stamp = paceline_stamp { tag: 0, note: 0 };
        // SAFETY: all of it lives longer than the call.
        worked(unsafe { paceline_cc_sent(self.cc, &raw const sent, &raw mut stamp) });
        Stamp::new(stamp.tag, stamp.note)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.acked.clear();
        self.acked.extend(ack.packets.iter().map(own));
        let rate = ack.rate;
        let ack = paceline_ack {
            flags: u32::from(ack.rtt.is_some())
                | u32::from(rate.is_some()) << 1
                | u32::from(ack.echo) << 4
                | u32::from(ack.window_limited) << 5,
            now: ack.now.as_nanos(),
            packets: self.acked.as_ptr(),
            packet_count: self.acked.len() as u32,
            packet_size: size_of::<paceline_acked>() as u32,
            bytes: ack.bytes,
            rtt: ack.rtt.unwrap_or(Nanos::ZERO).as_nanos(),
            srtt: ack.srtt.as_nanos(),
            min_rtt: ack.min_rtt.as_nanos(),
            rate_delivered: rate.map_or(0, |rate| rate.delivered),
            rate_interval: rate.map_or(0, |rate| rate.interval.as_nanos()),
            rate_prior_delivered: rate.map_or(0, |rate| rate.prior_delivered),
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            lost_bytes: ack.lost_bytes,
            ce_bytes: ack.ce_bytes,
            delivered: ack.delivered,
            una: ack.una,
            next: ack.next,
            ce_packets: ack.ce_packets,
            ..paceline_ack::zero()
        };
        // SAFETY: all of it lives longer than the call.
        worked(unsafe { paceline_cc_ack(self.cc, &raw const ack) });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.list(loss.packets);
        let loss = paceline_loss {
            flags: u32::from(loss.new_episode),
            now: loss.now.as_nanos(),
            packets: self.lost.as_ptr(),
            packet_count: self.lost.len() as u32,
            packet_size: size_of::<paceline_lost>() as u32,
            bytes: loss.bytes,
            prior_in_flight: loss.prior_in_flight,
            in_flight: loss.in_flight,
            ..paceline_loss::zero()
        };
        // SAFETY: all of it lives longer than the call.
        worked(unsafe { paceline_cc_loss(self.cc, &raw const loss) });
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        let now = timeout.now.as_nanos();
        let timeout = paceline_timeout { now, count: timeout.count, ..paceline_timeout::zero() };
        // SAFETY: all of it lives longer than the call.
        worked(unsafe { paceline_cc_timeout(self.cc, &raw const timeout) });
    }

    fn on_tick(&mut self, now: Time) {
        // SAFETY: the handle is alive.
        worked(unsafe { paceline_cc_tick(self.cc, now.as_nanos()) });
    }

    fn nature(&self) -> Nature {
        self.nature
    }

    fn permit(&self) -> Permit {
        let mut permit = paceline_permit::zero();
        // SAFETY: both live longer than the call.
        worked(unsafe { paceline_cc_permit(self.cc, &raw mut permit) });
        let pacing = match permit.pacing {
            0 => Pacing::Free,
            1 => Pacing::Rate(Rate::from_bytes_per_sec(permit.pace)),
            _ => Pacing::Gap(Nanos::from_nanos(permit.pace)),
        };
        let recovery = if permit.recovery == 0 { Recovery::Prr } else { Recovery::Controller };
        let next_tick = Time::from_nanos(permit.next_tick);
        let mut ours = Permit::up_to(permit.window);
        ours.pacing = pacing;
        ours.next_tick = next_tick;
        ours.threshold = permit.threshold;
        ours.recovery = recovery;
        ours
    }

    fn describe(&self, _: &mut dyn FnMut(&'static str, f64)) {}
}

/// Nanoseconds of a packet, and the windows that came out.
fn measure(spec: &str) -> (f64, u64) {
    let mut feed = Steady::new(&spec.parse().expect("it is registered"));
    let mut windows = 0_u64;
    let mut fastest = Duration::MAX;
    for _ in 0..TIMES {
        let start = Instant::now();
        for _ in 0..PACKETS {
            windows = windows.wrapping_mul(31).wrapping_add(feed.step());
        }
        fastest = fastest.min(start.elapsed());
    }
    (fastest.as_nanos() as f64 / f64::from(PACKETS), windows)
}

fn main() {
    println!("controller  Rust  C  more (ns an event)");
    for name in ["fixed", "reno", "cubic", "bbr", "copa", "verus"] {
        let through = format!("{name}-through-c");
        let make = move |_: &_, env: &Env| -> Box<dyn Controller> { Box::new(Through::new(name, env)) };
        register(Definition::new(through.clone(), make)).expect("the name is free");
        let ((rust, windows), (c, same)) = (measure(name), measure(&through));
        assert_eq!(windows, same, "{name}: the answers differ");
        println!("{name:10} {:5.1} {:5.1} {:5.1}", rust / 3.0, c / 3.0, (c - rust) / 3.0);
    }
}
