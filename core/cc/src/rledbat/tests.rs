use rand::{RngExt, SeedableRng};

use super::receiver::Receiver;
use super::*;
use crate::controller::Arrival;

const MSS: u32 = 1000;

fn receiver() -> Receiver {
    Receiver::new(&Env { mss: MSS, ..Env::default() }, 60.0)
}

fn arrives(to: &mut Receiver, now: Time, number: u64, note: Time) -> Advertised {
    let (seq, note) = (number * u64::from(MSS), note.as_nanos());
    to.on_arrival(&Arrival { now, seq, bytes: MSS, note, ce: false });
    let mut blob = Vec::new();
    assert!(to.feedback(now, &mut blob), "each packet is news");
    Advertised::read(&blob).unwrap()
}

fn room(of: &Advertised, number: u64) -> u64 {
    of.edge - (number + 1) * u64::from(MSS)
}

/// A round trip of 50 ms in which `packets` arrive.
fn round(to: &mut Receiver, now: &mut Time, number: &mut u64, packets: u64) -> Advertised {
    let echo = *now;
    *now += Nanos::from_millis(50);
    let mut last = None;
    for index in 0..packets {
        last = Some(arrives(to, *now, *number, echo + Nanos::from_nanos(index)));
        *number += 1;
    }
    last.expect("there is a packet")
}

#[test]
fn blobs_come_back_and_others_are_refused() {
    let advertised = Advertised { edge: 1 << 40, stamp: u64::MAX };
    let mut blob = Vec::new();
    advertised.write(&mut blob);
    assert_eq!(Advertised::read(&blob), Ok(advertised));
    for len in [0, 8, 15, 17, 32, 64] {
        assert!(Advertised::read(&vec![0; len]).is_err(), "{len}");
    }
}

#[test]
fn the_window_grows_and_a_loss_halves_it_once() {
    let (mut receiver, mut now, mut number) = (receiver(), Time::from_millis(1), 0);
    assert_eq!(room(&arrives(&mut receiver, now, number, Time::ZERO), 0), 2_000);
    number += 1;
    for _ in 0..40 {
        let packets = room(&round(&mut receiver, &mut now, &mut number, 1), number - 1) / 1000;
        round(&mut receiver, &mut now, &mut number, packets.max(1));
    }
    let before = round(&mut receiver, &mut now, &mut number, 20);
    let window = room(&before, number - 1);
    assert!(window > 5_000, "{window}");
    // One packet is missing, and a round trip later another: each round has its reduction, paid by what arrives.
    number += 1;
    let paid = round(&mut receiver, &mut now, &mut number, window / 1000);
    assert!(paid.edge >= before.edge);
    let after = room(&round(&mut receiver, &mut now, &mut number, 10), number - 1);
    assert!(after < window * 3 / 4 && after >= 2_000, "{window} {after}");
}

/// RFC 9840 section 4.3: reordering is not a loss; a packet that was sent again is one.
#[test]
fn reordering_is_no_loss_and_a_retransmission_is_one() {
    let grown = || {
        let (mut receiver, mut now, mut number) = (receiver(), Time::from_millis(1), 0);
        for _ in 0..30 {
            round(&mut receiver, &mut now, &mut number, 20);
        }
        (receiver, now, number)
    };
    let window = |of: &Receiver| of.window();
    let (mut receiver, now, number) = grown();
    let before = window(&receiver);
    // Two swapped packets, with stamps that are not newer.
    arrives(&mut receiver, now, number + 1, Time::ZERO);
    arrives(&mut receiver, now, number, Time::ZERO);
    assert!(window(&receiver) >= before);
    let (mut receiver, now, number) = grown();
    arrives(&mut receiver, now, number + 1, Time::ZERO);
    arrives(&mut receiver, now + Nanos::from_millis(60), number, now + Nanos::from_millis(10));
    assert!(window(&receiver) <= before / 2 + 1_000, "{} of {before}", window(&receiver));
}

#[test]
fn the_right_edge_never_moves_left() {
    let mut random = rand_pcg::Pcg64::seed_from_u64(7);
    let (mut receiver, mut now, mut edge, mut base) = (receiver(), Time::ZERO, 0, 0u64);
    for _ in 0..200_000 {
        now += Nanos::from_micros(random.random_range(0..20_000));
        base += random.random_range(0..3u64);
        let number = base.saturating_sub(random.random_range(0..5u64)) + random.random_range(0..5u64);
        let note = Time::from_nanos(random.random_range(0..=now.as_nanos()));
        let advertised = arrives(&mut receiver, now, number, note);
        assert!(advertised.edge >= edge, "{advertised:?} after {edge}");
        edge = advertised.edge;
    }
}

#[test]
fn the_flow_has_the_smaller_window() {
    let env = Env { mss: MSS, ..Env::default() };
    let spec: Spec = "rledbat:over=reno".parse().unwrap();
    let mut sender = spec.build(&env);
    assert_eq!(sender.window(), 2_000);
    let sent = |seq, in_flight| Sent {
        now: Time::ZERO,
        seq,
        bytes: MSS,
        in_flight,
        retransmission: false,
        app_limited: false,
        unsent: u64::MAX,
    };
    assert_eq!(sender.on_sent(&sent(0, 1_000)).note, 0);
    sender.on_sent(&sent(1_000, 2_000));
    assert_eq!(sender.window(), 2_000, "the edge is reached");
    let mut blob = Vec::new();
    Advertised { edge: 5_000, stamp: 77 }.write(&mut blob);
    sender.on_feedback(Time::ZERO, &blob).unwrap();
    assert_eq!(sender.window(), 5_000);
    assert_eq!(sender.on_sent(&sent(2_000, 3_000)).note, 77);
    blob.clear();
    Advertised { edge: u64::MAX, stamp: 5 }.write(&mut blob);
    sender.on_feedback(Time::ZERO, &blob).unwrap();
    assert_eq!(sender.window(), 10_000, "Reno's own");
    assert_eq!(sender.on_sent(&sent(3_000, 4_000)).note, 77);
}
