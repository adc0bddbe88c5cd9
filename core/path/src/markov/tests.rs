use super::*;

fn markov(mbps: &[f64], next: Option<Vec<Vec<f64>>>) -> Markov {
    let rates = mbps.iter().map(|rate| Rate::from_mbps(*rate)).collect();
    let markov = Markov { rates, hold: Nanos::from_millis(200), next };
    assert_eq!(markov.check(), Ok(()));
    markov
}

/// State and length of the stays until `end`, each whole.
fn stays(markov: &Markov, seed: u64, end: Nanos) -> Vec<(usize, u64)> {
    let mut walk = Walk::new(markov, seed);
    let mut stays = Vec::new();
    let mut now = 0;
    while now < end.as_nanos() {
        let (_, until) = walk.rate_at(now);
        stays.push((walk.here.state, until - now));
        now = until;
    }
    stays
}

const LONG: Nanos = Nanos::from_secs(20_000);

#[test]
fn the_long_run_is_that_of_the_chain() {
    // Ends are reached half as often as those between: 1/4, 1/2, 1/4 of the time.
    let neighbours = markov(&[2.0, 10.0, 40.0], None);
    assert_eq!(neighbours.mean_rate(), Rate::from_mbps(15.5));
    // 0.2 p = 0.5 q: 5/7 and 2/7.
    let given = markov(&[7.0, 0.0], Some(vec![vec![0.8, 0.2], vec![0.5, 0.5]]));
    assert!((given.mean_rate().as_mbps() - 5.0).abs() < 1e-5);
    // Round and round, each as often as the others.
    let round = markov(&[1.0, 2.0, 6.0], Some(vec![vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]]));
    assert!((round.mean_rate().as_mbps() - 3.0).abs() < 1e-5);
    for chain in [neighbours, given, round] {
        let walk = Walk::new(&chain, 1);
        let mean = walk.work(LONG.as_nanos()) as f64 / LONG.as_nanos() as f64;
        let expected = chain.mean_rate().as_bytes_per_sec() as f64;
        // 100 000 stays: a few standard errors.
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} {expected}");
    }
}

#[test]
fn holding_times_are_exponential_and_steps_go_to_neighbours() {
    let stays = stays(&markov(&[2.0, 10.0, 20.0, 40.0], None), 1, LONG);
    let count = stays.len() as f64;
    // Five standard errors: 5 / sqrt(100 000) = 1.6 %; the median of an exponential distribution is ln 2 of its mean.
    let mean = stays.iter().map(|(_, span)| *span as f64).sum::<f64>() / count / 2e8;
    let short = stays.iter().filter(|(_, span)| (*span as f64) < 2e8 * core::f64::consts::LN_2).count() as f64;
    assert!((mean - 1.0).abs() < 0.016 && (short / count - 0.5).abs() < 0.008, "{mean} {short} {count}");
    assert!(stays.windows(2).all(|pair| pair[0].0.abs_diff(pair[1].0) == 1));
    let from: Vec<usize> = stays.windows(2).filter(|pair| pair[0].0 == 1).map(|pair| pair[1].0).collect();
    let up = from.iter().filter(|state| **state == 2).count() as f64 / from.len() as f64;
    assert!((up - 0.5).abs() < 0.015, "{up}");
}

#[test]
fn it_begins_in_the_long_run() {
    let chain = markov(&[2.0, 10.0, 40.0], None);
    let middle = (0..2000).filter(|seed| Walk::new(&chain, *seed).here.state == 1).count();
    // Five standard deviations: 5 sqrt(2000 / 4) = 112.
    assert!(middle.abs_diff(1000) < 112, "{middle}");
}

#[test]
fn the_seed_decides_and_the_past_is_the_same_again() {
    let chain = markov(&[2.0, 10.0, 40.0], Some(vec![vec![0.1, 0.2, 0.7], vec![0.5, 0.0, 0.5], vec![0.3, 0.3, 0.4]]));
    let span = Nanos::from_secs(100);
    assert_eq!(stays(&chain, 7, span), stays(&chain, 7, span));
    assert_ne!(stays(&chain, 7, span), stays(&chain, 8, span));

    let mut walk = Walk::new(&chain, 7);
    let (mut now, mut work) = (0, 0);
    let mut seen = Vec::new();
    while now < span.as_nanos() {
        let (rate, until) = walk.rate_at(now);
        seen.push((now, rate, until, work));
        // Before and behind the walk, and at its very place.
        assert_eq!((walk.work(now), walk.work(now / 2)), (work, Walk::new(&chain, 7).work(now / 2)));
        work += u128::from(rate) * u128::from(until - now);
        assert_eq!(walk.work(until), work);
        now = until;
    }
    for (now, rate, until, _) in seen.iter().rev().step_by(50) {
        assert_eq!(walk.rate_at(*now), (*rate, *until));
    }
}

#[test]
fn thirds_may_be_rounded() {
    let third = vec![0.333_333_333; 3];
    let chain = markov(&[3.0, 6.0, 9.0], Some(vec![third.clone(), third.clone(), third]));
    assert!((chain.mean_rate().as_mbps() - 6.0).abs() < 1e-5);
    let mut states: Vec<usize> = stays(&chain, 1, Nanos::from_secs(10)).iter().map(|stay| stay.0).collect();
    states.sort_unstable();
    states.dedup();
    assert_eq!(states, [0, 1, 2]);
}
