//! What a sender does with a model.

use super::*;
use crate::mdi::grid::GridError;

const FLAT: usize = 12;

#[test]
fn the_inverse_of_a_move_is_exact() {
    let windows = published().windows;
    for last in [2.0, 2.5, 10.0, 77.7, 4000.0] {
        for index in 0..windows.count() {
            let window = windows.value(index);
            assert!((change(last, moved(last, window)) - window).abs() < 1e-9, "{last} {window}");
        }
    }
    // 20 more than 80 is 25 %, and log10(80) is 1.903.
    assert!((change(80.0, 100.0) - 47.577).abs() < 1e-3);
    // At 1 a packet more is 100 %, weighted by log10(2): as the release has it there.
    assert!((change(1.0, 2.0) - 30.103).abs() < 1e-3 && (moved(1.0, 30.103) - 2.0).abs() < 1e-4);
    assert!(change(0.5, 0.6) > 0.0, "below 1 more is more");
}

#[test]
fn an_axis_is_whole_numbers_at_equal_steps() {
    let axis = Axis::new(-25, 15, 5).unwrap();
    assert_eq!((axis.count(), axis.value(0), axis.value(8)), (9, -25.0, 15.0));
    let nearest = [-99.0, -25.0, -22.6, -22.4, 0.0, 2.4, 2.6, 15.0, 99.0].map(|at| axis.bin(at, Bins::Nearest));
    assert_eq!(nearest, [0, 0, 0, 1, 5, 5, 6, 8, 8]);
    let release = [-99.0, -25.0, -22.4, -20.1, 0.0, 2.6, 4.9, 15.0, 99.0].map(|at| axis.bin(at, Bins::Release));
    assert_eq!(release, [0, 0, 0, 0, 5, 5, 5, 8, 8]);
    let sides = [-27.6, -27.4, 17.4, 17.6].map(|at| axis.side(at));
    assert_eq!(sides, [Side::Below, Side::Within, Side::Within, Side::Above]);
    for (min, max, step) in [(5, -5, 1), (-5, 5, 0), (-5, 5, -5), (-5, 5, 3), (0, i64::MAX, 1), (i64::MIN, 0, 1)] {
        assert!(matches!(Axis::new(min, max, step), Err(GridError::Axis { .. })), "{min} {max} {step}");
    }
    assert!(Grid::new(axis, Axis::new(0, 200, 1).unwrap()).is_err(), "9 times 201 states");
}

#[test]
fn no_move_holds_the_window() {
    let mut mdi = mdi(&always(published(), FLAT), 1);
    for _ in 0..10_000 {
        epoch(&mut mdi, RTT);
        assert_eq!(mdi.w, FIRST_WINDOW);
    }
}

#[test]
fn the_smallest_move_up_grows_by_its_step() {
    let mut mdi = mdi(&always(published(), FLAT + 1), 1);
    let mut window = FIRST_WINDOW;
    for _ in 0..1000 {
        epoch(&mut mdi, RTT);
        window = (window * (1.0 + 5.0 / (100.0 * libm::log10(window)))).min(MAX_WINDOW);
        assert!((mdi.w - window).abs() < 1e-6 * window, "{} {window}", mdi.w);
    }
    assert_eq!(mdi.w, MAX_WINDOW);
}

#[test]
fn a_window_grows_fourfold_at_most_and_stays_a_packet() {
    let wide = grid((-400, 400, 400), (-25, 15, 5));
    let mut up = mdi(&always(wide, 2), 1);
    up.settle(1.0);
    epoch(&mut up, RTT);
    assert_eq!(up.w, 4.0);
    let mut down = mdi(&always(wide, 0), 1);
    epoch(&mut down, RTT);
    assert_eq!((down.w, down.window() / 1448), (1.0, 1));
}

#[test]
fn seeds_decide() {
    let grid = published();
    let model = model(grid, |_, _| vec![1.0 / grid.windows.count() as f64; grid.windows.count()]);
    let run = |seed| {
        let mut mdi = mdi(&model, seed);
        (0..100).map(|_| (epoch(&mut mdi, RTT), mdi.w).1).collect::<Vec<f64>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn reflexes_answer_what_the_grid_does_not_have() {
    let mut mdi = mdi(&always(published(), FLAT), 1);
    epoch(&mut mdi, Nanos::from_millis(60));
    assert!((mdi.w - 0.975 * FIRST_WINDOW).abs() < 1e-9);
    epoch(&mut mdi, Nanos::from_millis(30));
    assert!((mdi.w - 0.975 * FIRST_WINDOW - 21.0).abs() < 1e-9);
}

#[test]
fn an_empty_block_is_answered_by_like_states_then_by_all() {
    let grid = grid((-5, 5, 5), (-5, 5, 5));
    let up = vec![0.0, 0.0, 1.0];
    let down = vec![1.0, 0.0, 0.0];
    let none = vec![0.0; 3];
    // After a rise of the delay, state (2, 0) alone knows: up. After a fall, (0, 2): down. Nothing knows a fall that comes.
    let rows = model(grid, |row, next| match (row, next) {
        (_, 0) => none.clone(),
        (6, _) => up.clone(),
        (2, _) => down.clone(),
        _ => none.clone(),
    });
    let table = Table::from(&rows);
    assert_eq!(table.draw(grid.state(2, 1), 1, || 0.5), 5.0, "as its like");
    assert_eq!(table.draw(grid.state(0, 0), 2, || 0.5), -5.0, "as its like");
    let shares = [0.2, 0.7].map(|share| table.draw(grid.state(1, 1), 1, || share));
    assert_eq!(shares, [-5.0, 5.0], "half of all states each");
    assert_eq!(table.draw(grid.state(1, 1), 0, || unreachable!()), 0.0, "nothing is known");
    assert_eq!((rows.filled(), rows.empty_states(), rows.blocks()), (4, 7, 27));
}

#[test]
fn a_loss_reduces_once_a_round_trip_and_a_timeout_halves() {
    let mut mdi = mdi(&always(published(), FLAT), 1);
    mdi.settle(100.0);
    let report = |mdi: &mut Mdi, now, sent_at| lose(mdi, now, sent_at, 1);
    let now = Time::from_nanos(1_000_000_000);
    report(&mut mdi, now, Time::ZERO);
    assert_eq!((mdi.w, mdi.w1), (0.7 * 80.0, 0.7 * 80.0));
    report(&mut mdi, now + RTT, Time::ZERO);
    assert_eq!(mdi.w, 56.0, "sent before the reduction");
    mdi.settle(100.0);
    report(&mut mdi, now + RTT, now + Nanos::from_nanos(1));
    assert_eq!(mdi.w, 56.0);
    let timeout = Timeout { now: now + RTT, packets: &[], prior_in_flight: 0, in_flight: 0, count: 1 };
    mdi.on_timeout(&timeout);
    assert_eq!(mdi.w, 28.0);
}

#[test]
fn an_epoch_without_acknowledgements_sees_the_silence() {
    let mut mdi = mdi(&always(published(), FLAT), 1);
    for _ in 0..8 {
        mdi.on_tick(mdi.next_tick());
    }
    assert_eq!(mdi.w, FIRST_WINDOW, "an RTT of silence is not a delay");
    for _ in 0..3 {
        mdi.on_tick(mdi.next_tick());
    }
    assert!(mdi.w < FIRST_WINDOW);
    assert_eq!(mdi.d1, 40.0);
}

#[test]
fn the_window_stays_until_a_reduction_has_been_answered() {
    let mut mdi = mdi(&always(published(), FLAT + 1), 1);
    mdi.settle(100.0);
    let at = mdi.next_tick();
    lose(&mut mdi, at, Time::ZERO, 1);
    for _ in 0..8 {
        let now = mdi.next_tick();
        deliver(&mut mdi, now, 1);
        mdi.on_tick(now);
        assert_eq!(mdi.w, 56.0, "sent before");
    }
    for _ in 0..2 {
        let now = mdi.next_tick();
        deliver(&mut mdi, now, 1);
        mdi.on_tick(now);
    }
    assert!(mdi.w > 56.0);
}

#[test]
fn packets_that_were_only_late_bring_the_window_back() {
    let mut mdi = mdi(&always(published(), FLAT), 1);
    mdi.settle(100.0);
    let at = Time::from_millis(100);
    lose(&mut mdi, at, Time::from_millis(50), 1);
    mdi.on_spurious(at + Nanos::from_millis(5));
    assert_eq!((mdi.w, mdi.held), (100.0, false));
    mdi.on_spurious(at + Nanos::from_millis(6));
    assert_eq!(mdi.w, 100.0);
}

#[test]
fn heavy_loss_gives_a_ceiling_that_rises_again() {
    let mut mdi = mdi(&always(published(), FLAT + 1), 1);
    mdi.settle(100.0);
    let at = Time::from_millis(200);
    deliver(&mut mdi, at, 30);
    lose(&mut mdi, at + RTT + RTT, at, 30);
    let low = mdi.ceiling.packets();
    assert!((15.0..=28.0).contains(&low) && mdi.w <= low, "half of 56 at most: {low}");
    let mut now = mdi.next_tick();
    while now < at + Nanos::from_millis(500) {
        deliver(&mut mdi, now, 4);
        mdi.on_tick(now);
        assert!(mdi.w <= mdi.ceiling.packets());
        now = mdi.next_tick();
    }
    assert!(mdi.w > low && mdi.w < 2.0 * low, "{low} {}", mdi.w);
}

#[test]
fn time_goes_slower_on_a_longer_path() {
    let epochs = |rtt: u64| {
        let model = always(published(), FLAT + 1);
        let table = Arc::new(Table::from(&model));
        let mut mdi = Mdi::new(&Env::default(), Arc::clone(&table), Config::of(&table));
        mdi.on_ack(&ack(Time::ZERO, Nanos::from_millis(rtt), 0));
        (mdi.epoch().as_millis_f64(), mdi)
    };
    assert_eq!([20, 40, 50, 100, 500, 2000].map(|rtt| epochs(rtt).0), [5.0, 5.0, 5.0, 10.0, 50.0, 200.0]);
    // The same moves in a round trip, and the same answer to a queue of as many round trips.
    let (_, mut near) = epochs(40);
    let (_, mut far) = epochs(2000);
    for _ in 0..10 {
        epoch(&mut near, RTT);
        epoch(&mut far, Nanos::from_millis(2000));
    }
    assert_eq!(near.w, far.w);
    epoch(&mut near, Nanos::from_millis(80));
    epoch(&mut far, Nanos::from_millis(4000));
    assert!((near.moves.0 / far.moves.0 - 1.0).abs() < 0.2, "{:?} {:?}", near.moves, far.moves);
}

#[test]
fn a_burst_that_fills_the_window_moves_it() {
    let run = |window_limited| {
        let mut mdi = mdi(&always(published(), FLAT + 1), 1);
        for _ in 0..10 {
            let now = mdi.next_tick();
            mdi.on_app_limited(now, 1448);
            let packet = Acked { sent_at: Time::ZERO, app_limited: true, ..acked() };
            mdi.on_ack(&Ack { packets: &[packet], window_limited, in_flight: 1448, ..ack(now, RTT, 1) });
            mdi.on_tick(now);
        }
        mdi.w
    };
    assert_eq!(run(false), FIRST_WINDOW);
    assert!(run(true) > FIRST_WINDOW);
}
