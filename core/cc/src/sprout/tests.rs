//! The sender, by hand.

use super::*;
use crate::Spec;
use rand::{RngExt, SeedableRng};

const MSS: u64 = 1448;

fn sprout(aging: Aging) -> Sprout {
    Sprout::new(&Env::default(), 5, aging)
}

fn send(sprout: &mut Sprout, now: Time, app_limited: bool) -> Note {
    let sent = Sent {
        now,
        seq: sprout.next_seq,
        bytes: MSS as u32,
        in_flight: sprout.in_flight + MSS,
        retransmission: false,
        app_limited,
        unsent: u64::MAX,
    };
    Note::unpack(sprout.on_sent(&sent).note)
}

fn burst(sprout: &mut Sprout, packets: usize) {
    for _ in 0..packets {
        send(sprout, Time::ZERO, false);
    }
}

fn tell(sprout: &mut Sprout, now: Time, received_or_lost: u64, tick: u64, forecast: Forecast) {
    let mut blob = Vec::new();
    Feedback { received_or_lost, tick, forecast }.write(&mut blob);
    sprout.on_feedback(now, &blob).expect("well formed");
}

const STEADY: Forecast = [5, 12, 20, 27, 35, 43, 51, 59];

#[test]
fn five_packets_go_out_at_once_and_the_last_ends_the_flight() {
    let mut sprout = sprout(Aging::Fixed);
    assert_eq!(sprout.window(), 5 * MSS);
    for packet in 0..5 {
        let note = send(&mut sprout, Time::ZERO, false);
        assert_eq!(note.throwaway, packet * MSS);
        assert_eq!(note.time_to_next, if packet == 4 { HEARTBEAT } else { Nanos::ZERO });
    }
    assert_eq!(sprout.window(), 5 * MSS, "all in flight");
}

#[test]
fn an_application_that_stops_ends_the_flight() {
    let mut sprout = sprout(Aging::Fixed);
    assert_eq!(send(&mut sprout, Time::ZERO, true).time_to_next, HEARTBEAT);
}

#[test]
fn old_packets_leave_the_throwaway_number() {
    let mut sprout = sprout(Aging::Fixed);
    send(&mut sprout, Time::ZERO, false);
    send(&mut sprout, Time::from_millis(6), false);
    assert_eq!(send(&mut sprout, Time::from_millis(10), false).throwaway, 2 * MSS);
    assert_eq!(send(&mut sprout, Time::from_millis(16), false).throwaway, 2 * MSS);
    assert_eq!(send(&mut sprout, Time::from_millis(60), false).throwaway, 0);
}

#[test]
fn the_window_is_the_forecast_less_the_queue() {
    let mut sprout = sprout(Aging::Fixed);
    burst(&mut sprout, 5);
    let now = Time::from_millis(40);
    tell(&mut sprout, now, 3 * MSS, 1, STEADY);
    assert_eq!(sprout.queue, 2 * MSS);
    assert_eq!(sprout.room(), (43 - 5 - 2) * MSS);
    // Older news changes nothing.
    tell(&mut sprout, now, 0, 1, [0; 8]);
    assert_eq!(sprout.room(), (43 - 5 - 2) * MSS);
}

#[test]
fn without_feedback_the_forecast_grows_old() {
    for (aging, queues) in [(Aging::Fixed, [95, 88, 80, 73]), (Aging::Release, [95, 83, 63, 36])] {
        let mut sprout = sprout(aging);
        burst(&mut sprout, 100);
        tell(&mut sprout, Time::ZERO, 0, 1, STEADY);
        for queue in queues {
            let due = sprout.next_tick();
            sprout.on_tick(due);
            assert_eq!(sprout.queue, queue * MSS, "{aging:?} at {due}");
        }
        // A late tick ends in the same state: nothing but one packet when the forecast is used up.
        sprout.on_tick(Time::from_millis(1000));
        assert_eq!((sprout.age, sprout.room(), sprout.next_tick()), (7, 0, Time::NEVER));
        sprout.on_timeout(&Timeout {
            now: Time::from_millis(1000),
            packets: &[],
            prior_in_flight: 0,
            in_flight: 0,
            count: 1,
        });
        assert_eq!(sprout.window(), MSS);
    }
}

#[test]
fn losses_change_nothing() {
    let mut sprout = sprout(Aging::Fixed);
    send(&mut sprout, Time::ZERO, false);
    let before = sprout.room();
    sprout.on_loss(&Loss {
        now: Time::ZERO,
        packets: &[],
        bytes: MSS,
        prior_in_flight: MSS,
        in_flight: 0,
        new_episode: true,
    });
    assert_eq!((sprout.room(), sprout.in_flight), (before, 0));
}

#[test]
fn bad_feedback_leaves_the_state_alone() {
    let mut sprout = sprout(Aging::Fixed);
    send(&mut sprout, Time::ZERO, false);
    let before = format!("{sprout:?}");
    let mut blob = Vec::new();
    Feedback { received_or_lost: MSS + 1, tick: 1, forecast: STEADY }.write(&mut blob);
    let error = sprout.on_feedback(Time::ZERO, &blob).unwrap_err();
    assert_eq!(error.what, "it accounts for bytes that were never sent");
    assert!(sprout.on_feedback(Time::ZERO, &blob[..5]).is_err());
    assert!(sprout.on_feedback(Time::ZERO, &[]).is_err());
    assert_eq!(format!("{sprout:?}"), before);

    let mut random = rand_pcg::Pcg64::seed_from_u64(5);
    for _ in 0..20_000 {
        let len = random.random_range(0..70);
        let blob: Vec<u8> = (0..len).map(|_| random.random::<u8>() >> random.random_range(0..8u32)).collect();
        let _ = sprout.on_feedback(Time::from_millis(1), &blob);
        assert!(sprout.window() >= MSS);
    }
}

#[test]
fn both_entries_make_both_halves() {
    for text in ["sprout:max=2500,lookahead=7,outage=release,age=release", "sprout-ewma:lookahead=3"] {
        let spec: Spec = text.parse().expect("valid");
        assert_eq!(spec.build(&Env::default()).nature().heartbeat, Some(HEARTBEAT));
        assert!(spec.build_receiver(&Env::default()).is_some());
    }
}
