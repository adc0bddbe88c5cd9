//! Controllers above TCP on a path that loses packets (Zaki et al., "ALCC", figure 20, and what its section 7 proposes).

use crate::common::{bulk, share, waiting};
use paceline_cc::{Nanos, Rate};
use paceline_experiment::{Config, Flow, Handover, OnOff, Seed, Topology, Via, Workload};
use paceline_path::{Direction, LossModel};
use paceline_sim::Body;

/// Share of 24 Mbit/s, and packets that wait, over the last 20 of 30 s; 1 % of the data is lost at random.
fn run(controller: &str, via: Via) -> (f64, f64) {
    let delay = Nanos::from_millis(20);
    let path = |direction: &Direction| direction.build::<Body, _>(3, delay + delay, &|_| Err("no trace")).unwrap();
    let up = Direction { delay, ..Direction::default() };
    let queue = Some("droptail:bytes=2MB".parse().unwrap());
    let down = Direction { rate: Some(Rate::from_mbps(24.0)), queue, loss: Some(LossModel::Rate(0.01)), ..up.clone() };
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(30),
        topology: Topology::dumbbell(path(&down), path(&up)),
        flows: vec![bulk(controller, via)],
        cross: Vec::new(),
        sample_every: Some(Nanos::from_millis(1)),
    };
    let outcome = paceline_sim::run(config, None);
    (share(&outcome, 0, 10_000, 30_000), waiting(&outcome, 10_000, 30_000))
}

fn above(lower: &str) -> Via {
    Via::alcc(lower.parse().unwrap(), Handover::default())
}

#[test]
fn loss_binds_a_controller_above_cubic_and_hardly_one_above_an_open_window() {
    let native = run("copa", Via::udp());
    let cubic = run("copa", above("cubic"));
    let open = run("copa", above("fixed:window=5000"));
    assert!(cubic.0 < 0.3 * native.0, "{cubic:?}, native {native:?}");
    assert!(open.0 > 0.9 * native.0, "{open:?}, native {native:?}");
    assert!(open.1 < 1.5 * native.1 + 3.0, "{open:?}, native {native:?}");
}

/// A loss is a reason to halve to Verus, natively and above TCP, which reports it.
#[test]
fn verus_above_an_open_window_halves_as_it_does_natively() {
    let native = run("verus", Via::udp());
    let open = run("verus", above("fixed:window=5000"));
    assert!(open.0 > 0.9 * native.0, "{open:?}, native {native:?}");
    assert!(open.1 < 1.5 * native.1 + 10.0, "{open:?}, native {native:?}");
}

/// An application that writes for so long each two seconds, over 50 Mbit/s and 40 ms: TCP's window starts at 10 packets each time
/// (RFC 5681 section 4.1), and a controller above it must not keep it there.
#[test]
fn short_bursts_above_tcp_are_as_fast_as_those_of_the_tcp_below() {
    for (on, off) in [(120, 1880), (200, 1800), (300, 1700)] {
        let on_off = OnOff { on: Nanos::from_millis(on), off: Nanos::from_millis(off), random: false };
        let goodput = |controller: &str, via: Via| {
            let flow = Flow { workload: Workload::OnOff(on_off.clone()), ack_every: 2, ..bulk(controller, via) };
            let delay = Nanos::from_millis(20);
            let path =
                |direction: &Direction| direction.build::<Body, _>(3, delay + delay, &|_| Err("no trace")).unwrap();
            let up = Direction { delay, ..Direction::default() };
            let queue = Some("droptail:bdp=1".parse().unwrap());
            let down = Direction { rate: Some(Rate::from_mbps(50.0)), queue, ..up.clone() };
            let config = Config {
                seed: Seed(1),
                duration: Nanos::from_secs(40),
                topology: Topology::dumbbell(path(&down), path(&up)),
                flows: vec![flow],
                cross: Vec::new(),
                sample_every: None,
            };
            paceline_sim::run(config, None).flows[0].bytes_ready as f64
        };
        let below = goodput("cubic", Via::tcp(None));
        // BBR sends at the largest rate that it was told, which is that of a TCP whose window still doubles.
        for (controller, least) in [("copa", 0.95), ("bbr", 0.8)] {
            let share = goodput(controller, above("cubic")) / below;
            assert!(share > least, "{controller}, {on} ms: {share:.2} of the TCP below");
        }
    }
}
