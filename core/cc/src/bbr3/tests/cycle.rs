use super::*;

#[test]
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut path = Path::probing(1);
    for state in [State::Cruise, State::Refill, State::Up, State::Down, State::Cruise, State::Refill, State::Up] {
        path.until(|bbr| bbr.state == state);
    }
}

/// The probe after one that was too high ends as the flight reaches the bound, and is followed by another at once.
#[test]
fn a_careful_probe_comes_before_the_next_one() {
    let mut path = losses::probe_cut(1);
    path.phase = Phase::Open;
    path.until(|bbr| bbr.state == State::Up);
    let flight = PACKETS_A_ROUND * u64::from(path.bytes());
    assert!(path.bbr.probe.too_high && path.bbr.inflight_long <= flight as f64);
    path.step();
    assert!(path.bbr.state != State::Up && path.bbr.probe.precautionary && !path.bbr.probe.too_high);
    let rounds = path.bbr.rounds.count;
    path.until(|bbr| bbr.state == State::Refill);
    assert_eq!(path.bbr.rounds.count, rounds + 1);
    path.until(|bbr| bbr.state == State::Up);
    let rounds = path.bbr.rounds.count;
    path.until(|bbr| bbr.state != State::Up);
    assert!(path.bbr.rounds.count >= rounds + 3, "this one is as long as any");
}

#[test]
fn a_probe_waits_two_to_three_seconds_or_sixty_three_rounds() {
    let mut first_bits = [0u32; 2];
    for seed in 0..64 {
        let mut path = Path::probing(seed);
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.state == State::Down);
        let (start, wait) = (path.now, path.bbr.probe.wait);
        first_bits[path.bbr.probe.rounds.min(1) as usize] += 1;
        assert!(wait >= Nanos::from_secs(2) && wait < Nanos::from_secs(3));
        path.until(|bbr| bbr.state == State::Refill);
        let rounds = path.rtt.mul_div(64, 1);
        assert!(path.now - start <= rounds && path.now - start >= path.rtt.mul_div(61, 1), "{:?}", path.now - start);
    }
    assert!(first_bits[0] > 16 && first_bits[1] > 16, "{first_bits:?}");
}

#[test]
fn a_small_path_is_probed_after_as_many_rounds_as_it_holds_packets() {
    let mut path = Path::probing(1);
    path.rate = 1_000.0;
    // Two cycles forget the larger rate.
    for _ in 0..3 {
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.state == State::Down);
    }
    let start = path.bbr.rounds.count;
    path.until(|bbr| bbr.state == State::Refill);
    assert!(path.bbr.rounds.count - start <= 21, "{}", path.bbr.rounds.count - start);
}

#[test]
fn the_bandwidth_forgets_after_two_cycles_and_takes_no_smaller_sample_of_an_idle_application() {
    let mut path = Path::probing(1);
    let full = path.bbr.bandwidth.max();
    path.app_limited = true;
    path.rate = 5_000.0;
    path.round();
    close(path.bbr.bandwidth.max(), full);
    path.rate = 20_000.0;
    path.round();
    close(path.bbr.bandwidth.max(), 2.0 * full);
    path.app_limited = false;
    path.rate = 5_000.0;
    for _ in 0..2 {
        assert!(path.bbr.bandwidth.max() >= 1.9 * full);
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.probe.ack_phase == AckPhase::Init);
    }
    path.round();
    close(path.bbr.bandwidth.max(), full / 2.0);
}

#[test]
fn probe_rtt_comes_five_seconds_after_the_last_smaller_rtt() {
    let mut path = Path::probing(1);
    let start = path.bbr.min_rtt.probed_stamp;
    path.until(|bbr| bbr.state == State::ProbeRtt);
    let after = path.now - start;
    assert!(after > Nanos::from_secs(5) && after < Nanos::from_millis(5_050), "{after:?}");
    let entered = path.now;
    assert!(path.bbr.cwnd <= path.bbr.bdp(path.bbr.bandwidth.bw, 0.5).max(4.0 * MSS as f64));
    path.until(|bbr| bbr.state != State::ProbeRtt);
    assert!(path.now - entered >= Nanos::from_millis(200));
    assert_eq!(path.bbr.state, State::Cruise);
    let ended = path.now;
    path.until(|bbr| bbr.state == State::ProbeRtt);
    assert!(path.now - ended >= Nanos::from_secs(5));
}

#[test]
fn an_rtt_that_jumps_as_probe_rtt_begins_does_not_double_its_window() {
    let mut path = Path::probing(1);
    path.until(|bbr| bbr.state == State::ProbeRtt);
    let before = path.bbr.probe_rtt_cwnd();
    path.rtt = Nanos::from_millis(200);
    path.round();
    assert!(path.bbr.probe_rtt_cwnd() <= before);
}

#[test]
fn a_silence_longer_than_five_seconds_does_not_begin_probe_rtt() {
    let mut path = Path::probing(1);
    path.now += Nanos::from_secs(8);
    path.bbr.on_app_limited(path.now, 0);
    path.now += Nanos::from_secs(1);
    let flight = path.flight();
    assert!(path.bbr.idle_restart);
    path.now += path.rtt;
    path.acknowledge(flight[0], 0);
    assert!(!path.bbr.idle_restart);
    assert_ne!(path.bbr.state, State::ProbeRtt);
}

#[test]
fn the_quantum_is_a_millisecond_of_the_rate_within_bounds() {
    for (mbps, expected) in [(1.0, 2_896.0), (12.0, 2_896.0), (100.0, 12_500.0), (600.0, 65_536.0)] {
        let mut path = Path::new(1);
        path.bbr.pacing_rate = mbps * 125_000.0;
        close(path.bbr.quantum(), expected);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_differs_only_after_the_first_down() {
    let trace = |seed| {
        let mut path = Path::new(seed);
        let mut states = Vec::new();
        for _ in 0..12_000 {
            path.step();
            states.push((path.bbr.state, path.bbr.cwnd.to_bits(), path.bbr.pacing_rate.to_bits()));
        }
        states
    };
    let (one, again, other) = (trace(1), trace(1), trace(2));
    assert!(one == again);
    let drawn = one.iter().position(|step| step.0.probes_bandwidth()).unwrap();
    assert!(one[..=drawn] == other[..=drawn]);
    assert!(one != other);
}

#[test]
fn the_size_of_packets_does_not_count() {
    let states = |mss| {
        let mut path = Path::of(3, mss);
        let mut seen = Vec::new();
        for _ in 0..20_000 {
            path.step();
            seen.push((path.bbr.state, path.bbr.cwnd / mss as f64));
        }
        seen
    };
    assert!(states(MSS) == states(2 * MSS));
}

#[test]
fn batches_of_acknowledgements_give_as_much_for_ten_rounds() {
    let mut aggregation = Aggregation::default();
    let mut round = 0;
    let mut feed = |aggregation: &mut Aggregation, packets: f64, every_ms: u64, cwnd: f64, rounds: u64| {
        for _ in 0..rounds {
            round += 1;
            for at in (0..50).step_by(every_ms as usize) {
                let now = Time::from_millis(50 * round + at);
                let bandwidth = 1_000.0 * MSS as f64;
                let (bytes, cwnd) = (packets * MSS as f64, cwnd * MSS as f64);
                aggregation.update(&model::Delivery { now, bytes, bandwidth, cwnd, round }, true);
            }
        }
        aggregation.extra() / MSS as f64
    };
    // A packet a ms, in batches: all of a batch but for what is expected of the time since the one before.
    close(feed(&mut aggregation, 25.0, 25, 100.0, 3), 25.0);
    close(feed(&mut aggregation, 1.0, 1, 100.0, 9), 25.0);
    assert!(feed(&mut aggregation, 1.0, 1, 100.0, 3) <= 2.0);
    // No more than the window can have been held back.
    close(feed(&mut aggregation, 25.0, 25, 10.0, 20), 10.0);
}

#[test]
fn only_differences_of_times_count() {
    let states = |start: Time| {
        let mut path = Path { now: start, ..Path::new(3) };
        let mut seen = Vec::new();
        for _ in 0..20_000 {
            path.step();
            seen.push((path.bbr.state, path.bbr.window()));
        }
        seen
    };
    assert!(states(Time::from_millis(1_000)) == states(Time::from_millis(86_400_000)));
}
