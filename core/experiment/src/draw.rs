//! Draws that workloads are made of. Inverse transforms by `libm`, so that every platform draws the same numbers.

use paceline_cc::Nanos;
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::config::{Cut, Poisson};

/// Uniform in (0, 1].
fn unit(rng: &mut Pcg64) -> f64 {
    1.0 - rng.random::<f64>()
}

/// Exponentially distributed with this mean.
pub(crate) fn exponential(rng: &mut Pcg64, mean: Nanos) -> Nanos {
    mean.mul_f64(-libm::log(unit(rng)))
}

/// The size of a flow of this family, in bytes.
pub(crate) fn size(rng: &mut Pcg64, family: &Poisson) -> u64 {
    let (low, high) = (family.min.0 as f64, family.max.0 as f64);
    let (scale, u) = match family.cut {
        Cut::Clamp => (family.scale.unwrap_or(family.min).0 as f64, unit(rng)),
        // The survival function is uniform between its values at the two ends.
        Cut::Truncate => {
            let tail = libm::pow(low / high, family.alpha);
            (low, tail + (1.0 - tail) * unit(rng))
        }
    };
    (scale * libm::pow(u, -1.0 / family.alpha)).clamp(low, high) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use paceline_cc::Bytes;

    fn family(scale: Option<Bytes>, cut: Cut) -> Poisson {
        let (min, max) = (Bytes(1_000), Bytes(5_000_000));
        Poisson { mean_gap: Nanos::ZERO, alpha: 0.5, min, max, scale, cut, count: None }
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut rng = Seed(1).stream("test");
        let mean = Nanos::from_millis(10);
        let sum: u64 = (0..100_000).map(|_| exponential(&mut rng, mean).as_nanos()).sum();
        assert!((sum as f64 / 100_000.0 / 1e7 - 1.0).abs() < 0.02);
    }

    #[test]
    fn truncated_pareto_has_its_mean() {
        // alpha 0.5 cut to [1 kB, 5 MB]: the mean is sqrt(min * max) = 70.7 kB.
        let family = family(None, Cut::Truncate);
        let mut rng = Seed(1).stream("test");
        let draws: Vec<u64> = (0..200_000).map(|_| size(&mut rng, &family)).collect();
        assert!(draws.iter().all(|draw| (1_000..=5_000_000).contains(draw)));
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!((mean / 70_711.0 - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn a_scale_below_the_range_puts_some_at_both_ends() {
        // P(X <= 1 kB) = 1 - sqrt(0.9) = 5.1 %, P(X >= 5 MB) = sqrt(900 / 5e6) = 1.34 %; the mean is 133 kB.
        let family = family(Some(Bytes(900)), Cut::Clamp);
        let mut rng = Seed(1).stream("test");
        let draws: Vec<u64> = (0..200_000).map(|_| size(&mut rng, &family)).collect();
        let share = |end: u64| draws.iter().filter(|draw| **draw == end).count() as f64 / draws.len() as f64;
        assert!((share(1_000) - 0.051).abs() < 0.002 && (share(5_000_000) - 0.0134).abs() < 0.001);
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!((mean / 133_300.0 - 1.0).abs() < 0.03, "{mean}");
    }
}
