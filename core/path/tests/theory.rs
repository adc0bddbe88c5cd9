//! Links and queues against what queueing theory and the RFCs say of them.

use paceline_cc::{Codepoint, Nanos, Rate, Time};
use paceline_path::{Direction, Packet, Path};
use rand::Rng;
use rand_pcg::Pcg64;

/// Exponential with mean 1, by inversion.
fn exponential(stream: &mut Pcg64) -> f64 {
    -libm::log(1.0 - (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
}

fn path(rate: &str, queue: &str) -> Path<()> {
    let text = format!("rate = '{rate}'\nqueue = '{queue}'");
    let direction: Direction = toml::from_str(&text).expect("valid");
    direction.build(1, Nanos::from_millis(100), &|name| Err(name.to_owned())).expect("valid")
}

struct Outcome {
    /// Seconds, mean over the packets of the second half.
    mean_wait: f64,
    popped: u64,
    /// Sum over all packets of the time in the link, nanoseconds.
    inside_ns: u128,
}

/// Drives a path with packets `gap` apart on average (Poisson) of sizes drawn by `size`.
fn drive(path: &mut Path<()>, count: u64, gap: f64, mut size: impl FnMut(&mut Pcg64) -> u32) -> Outcome {
    let (mut arrivals, mut sizes) = (Pcg64::new(1, 1), Pcg64::new(1, 2));
    let mut now = 0.0;
    let (mut wait, mut waited) = (0.0, 0u64);
    let mut outcome = Outcome { mean_wait: 0.0, popped: 0, inside_ns: 0 };
    let half = gap * count as f64 / 2.0;
    for left in (0..=count).rev() {
        now += gap * exponential(&mut arrivals);
        let at = if left == 0 { Time::NEVER } else { Time::from_secs_f64(now) };
        while path.next() != Time::NEVER && path.next() <= at {
            let due = path.next();
            while let Some(packet) = path.pop(due) {
                outcome.popped += 1;
                outcome.inside_ns += u128::from((packet.delay.queue + packet.delay.transmission).as_nanos());
                if due.as_secs_f64() > half {
                    wait += packet.delay.queue.as_secs_f64();
                    waited += 1;
                }
            }
        }
        if left > 0 {
            path.push(at, Packet::new(0, size(&mut sizes), Codepoint::NotEct, ()));
        }
    }
    outcome.mean_wait = wait / waited as f64;
    outcome
}

#[test]
fn m_d_1_waits_as_pollaczek_and_khinchine_say() {
    // 1000 bytes at 8 Mbit/s: 1 ms. Utilisation 0.7: wait 0.7 / (2 x 0.3) = 1.1667 ms.
    let mut path = path("8 Mbit/s", "infinite");
    let outcome = drive(&mut path, 400_000, 1e-3 / 0.7, |_| 1000);
    assert!((outcome.mean_wait * 1e3 / 1.1667 - 1.0).abs() < 0.02, "{}", outcome.mean_wait);
    assert_eq!(outcome.popped, 400_000);
}

#[test]
fn m_m_1_waits_as_erlang_says_and_little_holds_exactly() {
    // Exponential sizes of 100 kB on average (so that whole bytes do not matter) at 800 Mbit/s: 1 ms.
    // Utilisation 0.6: wait 0.6 / 0.4 = 1.5 ms.
    let mut path = path("800 Mbit/s", "infinite");
    let size = |sizes: &mut Pcg64| (exponential(sizes) * 1e5) as u32 + 1;
    let outcome = drive(&mut path, 400_000, 1e-3 / 0.6, size);
    assert!((outcome.mean_wait * 1e3 / 1.5 - 1.0).abs() < 0.03, "{}", outcome.mean_wait);
    let end = Time::from_millis(3_600_000);
    let stats = path.stats(end).expect("a link");
    assert_eq!(stats.inside_packet_ns(), outcome.inside_ns);
    // Busy for the utilisation of the time.
    let busy = stats.busy.as_secs_f64() / (400_000.0 * 1e-3 / 0.6);
    assert!((busy - 0.6).abs() < 0.01, "{busy}");
}

#[test]
fn poisson_arrivals_at_a_short_queue_are_lost_as_erlang_says() {
    // M/D/1/2: one in service and one waiting, load 1. A departure leaves the link idle when nothing came during its
    // service: e^-1. So a packet takes 1 + e^-1 service times, in which as many arrive: loss 1 - 1/(1 + e^-1).
    let mut path = path("8 Mbit/s", "droptail:packets=1");
    drive(&mut path, 200_000, 1e-3, |_| 1000);
    let stats = path.stats(Time::from_millis(3_600_000)).expect("a link");
    let loss = stats.full.packets as f64 / stats.arrived.packets as f64;
    let expected = 1.0 - 1.0 / (1.0 + libm::exp(-1.0));
    assert!((loss - expected).abs() < 0.005, "{loss} {expected}");
}

#[test]
fn pie_holds_an_overloaded_queue_at_its_target() {
    // 1.2 times what the link carries: PIE has to drop 1 - 1/1.2 = 16.7 %, and hold the delay at 15 ms (RFC 8033).
    let mut path = path("24 Mbit/s", "pie");
    let outcome = drive(&mut path, 200_000, 1500.0 / 3e6 / 1.2, |_| 1500);
    let stats = path.stats(Time::from_millis(100_000)).expect("a link");
    let loss = stats.aqm.packets as f64 / stats.arrived.packets as f64;
    assert!((loss - 1.0 / 6.0).abs() < 0.01, "{loss}");
    assert!((outcome.mean_wait * 1e3 - 15.0).abs() < 1.0, "{}", outcome.mean_wait);
    assert_eq!(stats.full.packets, 0);
}

#[test]
fn capacity_is_what_a_busy_link_of_a_markov_rate_delivers() {
    let text = "schedule = { markov = { rates = ['1 Mbit/s', '0 Mbit/s', '20 Mbit/s'], hold = '50ms' } }\n\
                queue = 'infinite'\noutages = [['1.5s', '1.75s']]";
    let direction: Direction = toml::from_str(text).expect("valid");
    let load = |name: &str| Err(name.to_owned());
    let mut path: Path<()> = direction.build(3, Nanos::ZERO, &load).expect("valid");
    for _ in 0..20_000 {
        path.push(Time::ZERO, Packet::new(0, 1000, Codepoint::NotEct, ()));
    }
    let schedule = direction.schedule(3, &load).expect("valid").expect("a link");
    assert_eq!(schedule.mean_rate(), Rate::from_mbps(5.25));
    assert_eq!(schedule.capacity(Time::from_millis(1500), Time::from_millis(1750)), 0);
    for milli in (0..16_000).step_by(37) {
        let now = Time::from_millis(milli);
        while path.pop(now).is_some() {}
        let delivered = path.stats(now).expect("a link").delivered.bytes;
        // Asked of a fresh walk, and of the one that has served so far.
        let capacity = schedule.capacity(Time::ZERO, now);
        assert_eq!(path.schedule().map(|schedule| schedule.capacity(Time::ZERO, now)), Some(capacity));
        // A packet may be under way; the nanosecond that each begins is rounded up: 20 ms at most.
        assert!(delivered <= capacity && capacity - delivered <= 1000 + 50, "{now}: {delivered} {capacity}");
    }
    assert!(path.stats(Time::from_millis(16_000)).expect("a link").delivered.bytes > 5_000_000);
}

#[test]
fn capacity_is_what_a_busy_link_delivers() {
    let text = "schedule = [['0s', '8 Mbit/s'], ['1s', '24 Mbit/s'], ['2s', '0 Mbit/s'], ['3s', '1.6 Mbit/s']]\n\
                schedule_lap = '4s'\nqueue = 'infinite'\noutages = [['1.5s', '1.75s'], ['6s', '7s']]";
    let direction: Direction = toml::from_str(text).expect("valid");
    let load = |name: &str| Err(name.to_owned());
    let mut path: Path<()> = direction.build(1, Nanos::ZERO, &load).expect("valid");
    for _ in 0..20_000 {
        path.push(Time::ZERO, Packet::new(0, 1000, Codepoint::NotEct, ()));
    }
    let schedule = direction.schedule(1, &load).expect("valid").expect("a link");
    // 1 MB in the first second, 0.75 of 3 MB in the second, none in the third, 0.2 MB in the fourth.
    assert_eq!(schedule.capacity(Time::ZERO, Time::from_millis(4000)), 3_450_000);
    assert_eq!(schedule.mean_rate(), Rate::from_bytes_per_sec(1_050_000));
    for milli in (0..16_000).step_by(37) {
        let now = Time::from_millis(milli);
        while path.pop(now).is_some() {}
        let delivered = path.stats(now).expect("a link").delivered.bytes;
        let capacity = schedule.capacity(Time::ZERO, now);
        assert!(delivered <= capacity && capacity - delivered <= 1000 + 10, "{now}: {delivered} {capacity}");
    }
}
