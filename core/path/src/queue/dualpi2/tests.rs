use super::*;

fn packet(at: Time, size: u32, ecn: Codepoint) -> Packet<()> {
    let mut packet = Packet::new(u32::from(ecn == Codepoint::Ect1), size, ecn, ());
    packet.entered = at;
    packet
}

fn queue(params: DualPi2Params) -> (DualPi2<()>, Ledger<()>) {
    (DualPi2::new(params, QueueBound::NONE, 1), Ledger::default())
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
}

#[test]
fn the_controller_computes_what_a_hand_does() {
    // One packet from 24 ms on, never served, updates at 16 n ms: 0.16 (q - 0.015) + 3.2 (q - q_old) each.
    let expected = [0.0, 0.02448, 0.07712, 0.13232, 0.19008, 0.2504, 0.31328, 0.37872, 0.44672, 0.51728];
    // The delay is that of the longer queue, whichever it is.
    for ecn in [Codepoint::NotEct, Codepoint::Ect1] {
        let (mut queue, mut ledger) = queue(DualPi2Params::default());
        queue.push(ms(24), packet(ms(24), 1500, ecn), &mut ledger);
        near(queue.probability(), expected[0]);
        for (n, expected) in (2..).zip(&expected[1..]) {
            queue.catch_up(ms(16 * n));
            near(queue.probability(), *expected);
        }
        // All at once, at any later time before the next update.
        let (mut late, mut ledger) = self::queue(DualPi2Params::default());
        late.push(ms(24), packet(ms(24), 1500, ecn), &mut ledger);
        late.catch_up(ms(175));
        near(late.probability(), 0.51728);
    }
}

#[test]
fn an_empty_queue_forgets() {
    let (mut queue, _) = queue(DualPi2Params::default());
    (queue.probability, queue.delay_old) = (0.01, Nanos::ZERO);
    // 0.16 x 0.015 = 0.0024 an update.
    for (n, expected) in (1..).zip([0.0076, 0.0052, 0.0028, 0.0004, 0.0, 0.0]) {
        queue.catch_up(ms(16 * n));
        near(queue.probability(), expected);
    }
    // An idle day takes no time, and the beat of the updates stays.
    queue.catch_up(ms(86_400_001));
    assert_eq!(queue.next_update, ms(86_400_016));
}

#[test]
fn classic_is_the_square_and_low_the_coupled() {
    let (mut queue, _) = queue(DualPi2Params::default());
    queue.probability = 0.2;
    near(queue.classic_probability(), 0.04);
    near(queue.coupled_probability(), 0.4);
    near(queue.classic_most(), 0.25);
    queue.probability = 0.7;
    near(queue.coupled_probability(), 1.0);
}

#[test]
fn even_spacing_is_even_and_random_is_fair() {
    let (queue, _) = queue(DualPi2Params::default());
    let mut chooser = queue.low.chooser;
    let hits: Vec<usize> = (1..=1000).filter(|_| chooser.hits(0.25)).collect();
    assert_eq!((hits.len(), &hits[..3]), (249, &[5, 9, 13][..]));
    assert!(hits.windows(2).all(|pair| pair[1] - pair[0] == 4));

    let (random, _) = self::queue(DualPi2Params { spacing: Spacing::Random, ..DualPi2Params::default() });
    let (mut low, mut classic) = (random.low.chooser, random.classic.chooser);
    let draw = |chooser: &mut Chooser| (0..10_000).map(|_| chooser.hits(0.25)).collect::<Vec<bool>>();
    let (low, classic) = (draw(&mut low), draw(&mut classic));
    assert_ne!(low, classic);
    for hits in [low, classic] {
        // Five standard deviations: 5 sqrt(10000 x 0.25 x 0.75) = 217.
        let count = hits.into_iter().filter(|hit| *hit).count();
        assert!(count.abs_diff(2500) < 217, "{count}");
    }
}

#[test]
fn the_ramp_rises_and_the_step_jumps() {
    let micros = Nanos::from_micros;
    let ramp = DualPi2Params { step: micros(800), range: micros(400), ..DualPi2Params::default() };
    for (delay, expected) in [(0, 0.0), (800, 0.0), (900, 0.25), (1000, 0.5), (1200, 1.0), (9000, 1.0)] {
        near(ramp.native(micros(delay)), expected);
    }
    let step = DualPi2Params::default();
    assert_eq!((step.native(micros(1000)), step.native(micros(1001))), (0.0, 1.0));
}

#[test]
fn low_is_marked_by_its_own_threshold_unless_it_is_shorter_than_asked() {
    for (th_len, last) in [(0, true), (1, false)] {
        let (mut queue, mut ledger) = queue(DualPi2Params { th_len, ..DualPi2Params::default() });
        for micros in [0, 100, 2000, 2000, 2000] {
            let at = Time::ZERO + Nanos::from_micros(micros);
            queue.push(at, packet(at, 1500, Codepoint::Ect1), &mut ledger);
        }
        let mut marked = |micros| {
            let packet = queue.pop(Time::ZERO + Nanos::from_micros(micros), &mut ledger).expect("waiting");
            packet.ecn == Codepoint::Ce
        };
        // Waited 2, 2.1, 0.5, 1.5 ms; the first fills the sum up to 1, which is not yet above it. The last waited 10 ms,
        // alone.
        assert_eq!([2000, 2200, 2500, 3500, 12_000].map(&mut marked), [false, true, false, true, last]);
    }
}

#[test]
fn classic_has_its_share_of_a_filled_link_and_no_less() {
    for (protection, classic_size) in [(0.1, 1500), (0.1, 500), (0.3, 1500), (1.0 / 16.0, 1000)] {
        let (mut queue, mut ledger) = queue(DualPi2Params { protection, ..DualPi2Params::default() });
        for _ in 0..2000 {
            queue.push(ms(0), packet(ms(0), 1500, Codepoint::Ect1), &mut ledger);
            queue.push(ms(0), packet(ms(0), classic_size, Codepoint::Ect0), &mut ledger);
        }
        let order: Vec<Packet<()>> = (0..1000).filter_map(|_| queue.pop(ms(0), &mut ledger)).collect();
        assert_eq!((order.len(), order[0].ecn), (1000, Codepoint::Ect1));
        for window in order.windows(100) {
            let bytes = |of: &dyn Fn(&&Packet<()>) -> bool| -> f64 {
                window.iter().filter(of).map(|packet| f64::from(packet.size)).sum()
            };
            let (classic, all) = (bytes(&|packet| packet.ecn == Codepoint::Ect0), bytes(&|_| true));
            assert!((classic - protection * all).abs() <= 1500.0, "{classic} of {all}");
        }
    }
}

#[test]
fn classic_is_marked_up_to_saturation_and_dropped_from_there_on() {
    // Of 1000 packets of C at p' = 0.4 (p_C = 0.16) and p' = 0.6 (0.36, above 1 / k^2 = 0.25).
    for (probability, ecn, marked, dropped) in [
        (0.4, Codepoint::Ect0, 159, 0),
        (0.4, Codepoint::NotEct, 0, 159),
        (0.6, Codepoint::Ect0, 0, 359),
        (0.6, Codepoint::NotEct, 0, 359),
    ] {
        let (mut queue, mut ledger) = queue(DualPi2Params::default());
        queue.probability = probability;
        (0..1000).for_each(|_| queue.push(ms(0), packet(ms(0), 1500, ecn), &mut ledger));
        while queue.pop(ms(0), &mut ledger).is_some() {}
        let near = |count: u64, expected: u64| count.abs_diff(expected) <= 1;
        assert!(
            near(ledger.stats.marked.packets, marked) && near(ledger.stats.aqm.packets, dropped),
            "{:?}",
            ledger.stats
        );
        assert_eq!(ledger.stats.full.packets, 0);
    }
}

#[test]
fn low_is_dropped_in_overload_and_what_passes_is_marked() {
    let (mut queue, mut ledger) = queue(DualPi2Params::default());
    queue.probability = 0.6;
    (0..1000).for_each(|_| queue.push(ms(0), packet(ms(0), 1500, Codepoint::Ect1), &mut ledger));
    while queue.pop(ms(0), &mut ledger).is_some() {}
    // p_C = 0.36 of all, and the marks of the others but for the sum that begins at 0.
    assert!(ledger.stats.aqm.packets.abs_diff(360) <= 1, "{}", ledger.stats.aqm.packets);
    assert!(ledger.stats.marked.packets >= 1000 - ledger.stats.aqm.packets - 2, "{}", ledger.stats.marked.packets);
}

#[test]
fn overload_begins_where_the_coupled_probability_reaches_one() {
    // p' below and at 1 / k, with k = 2 and p_C = 0.25: packets dropped from L and from C, of 1000 each.
    for (k, probability, low, classic) in [(2.0, 0.499_999, 0, 0), (2.0, 0.5, 250, 250), (1.0, 0.9, 0, 0)] {
        for (ecn, dropped) in [(Codepoint::Ect1, low), (Codepoint::Ce, low), (Codepoint::Ect0, classic)] {
            let (mut queue, mut ledger) = queue(DualPi2Params { k, ..DualPi2Params::default() });
            queue.probability = probability;
            (0..1000).for_each(|_| queue.push(ms(0), packet(ms(0), 1500, ecn), &mut ledger));
            let passed: Vec<_> = std::iter::from_fn(|| queue.pop(ms(0), &mut ledger)).collect();
            assert!(ledger.stats.aqm.packets.abs_diff(dropped) <= 1, "{probability} {ecn:?} {:?}", ledger.stats);
            assert_eq!(passed.len() as u64 + ledger.stats.aqm.packets, 1000);
            let marked = passed.iter().filter(|packet| packet.ecn == Codepoint::Ce).count() as f64;
            // L: by k p', all but the first in overload; C: by p_C, or not at all in overload. The last two, with less than
            // two packets behind them, pass.
            let share = match ecn {
                Codepoint::Ce => 1.0,
                Codepoint::Ect1 => (k * probability).min(1.0),
                _ if dropped == 0 => probability * probability,
                _ => 0.0,
            };
            assert!((marked - share * passed.len() as f64).abs() <= 4.0, "{probability} {ecn:?} {marked}");
        }
    }
}

#[test]
fn below_two_packets_of_backlog_nothing_is_chosen() {
    // At p' = 0.6 in overload: each packet of L that passes would be marked, and 0.36 of all dropped.
    for ecn in [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1] {
        let (mut queue, mut ledger) = queue(DualPi2Params::default());
        queue.probability = 0.6;
        for _ in 0..1000 {
            // Two wait behind the first that leaves, then one, then none: the first alone is subject to p'.
            (0..3).for_each(|_| queue.push(ms(0), packet(ms(0), 1500, ecn), &mut ledger));
            while queue.pop(ms(0), &mut ledger).is_some() {}
        }
        let (dropped, marked) = (ledger.stats.aqm.packets, ledger.stats.marked.packets);
        assert!(dropped.abs_diff(360) <= 1, "{ecn:?}: {dropped}");
        let passed = if ecn == Codepoint::Ect1 { 1000 - dropped } else { 0 };
        assert!(marked.abs_diff(passed) <= 1, "{ecn:?}: {marked}");
    }
}

#[test]
fn the_limit_drops_whatever_the_codepoint_and_marks_nothing() {
    let mut queue = DualPi2::new(DualPi2Params::default(), QueueBound::packets(3), 1);
    let mut ledger = Ledger::default();
    (queue.probability, queue.next_update) = (0.6, Time::NEVER);
    for ecn in [Codepoint::Ect1, Codepoint::Ect0, Codepoint::NotEct, Codepoint::Ce].repeat(3) {
        queue.push(ms(0), packet(ms(0), 1500, ecn), &mut ledger);
    }
    assert_eq!((ledger.stats.full.packets, ledger.stats.aqm.packets, ledger.stats.marked.packets), (9, 0, 0));
    assert_eq!((queue.low.fifo.packets.len(), queue.classic.fifo.packets.len()), (1, 2));
}

#[test]
fn both_queues_share_one_limit() {
    let mut queue = DualPi2::new(DualPi2Params::default(), QueueBound::packets(4), 1);
    let mut ledger = Ledger::default();
    for ecn in [Codepoint::Ect1, Codepoint::Ce, Codepoint::Ect0, Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0] {
        queue.push(ms(0), packet(ms(0), 1500, ecn), &mut ledger);
    }
    assert_eq!((queue.low.fifo.packets.len(), queue.classic.fifo.packets.len(), ledger.stats.full.packets), (2, 2, 2));
}
