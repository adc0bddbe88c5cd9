//! Controllers above TCP on a path that loses packets (Zaki et al., "ALCC", figure 20, and what its section 7 proposes).

mod common;

use common::{Dumbbell, RandomLoss, bulk, share, waiting};
use paceline_sim::{Handover, Via};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Share of the link, and packets that wait, over the last 30 of 40 s; 1 % of the data is lost at random.
fn run(controller: &str, via: Via) -> (f64, f64) {
    let loss = RandomLoss { probability: 0.01, rng: Pcg64::seed_from_u64(7) };
    let dumbbell = Dumbbell { before: Some(Box::new(loss)), ..Dumbbell::new(24.0, 40, vec![bulk(controller, via)]) };
    let outcome = dumbbell.run(40);
    (share(&outcome, 0, 10_000, 40_000), waiting(&outcome, 10_000, 40_000))
}

fn above(lower: &str) -> Via {
    Via::Alcc(lower.parse().unwrap(), Handover::default())
}

#[test]
fn loss_binds_a_controller_above_cubic_and_hardly_one_above_an_open_window() {
    for controller in ["copa", "verus"] {
        let native = run(controller, Via::Udp);
        let cubic = run(controller, above("cubic"));
        let open = run(controller, above("fixed:window=5000"));
        assert!(cubic.0 < 0.5 * native.0, "{controller}: {cubic:?}, native {native:?}");
        assert!((open.0 - native.0).abs() < 0.1 * native.0, "{controller}: {open:?}, native {native:?}");
        // What is taken for arrived has arrived: no more waits than natively, but for what the repairs add.
        assert!(open.1 < 1.5 * native.1 + 3.0, "{controller}: {open:?}, native {native:?}");
    }
}
