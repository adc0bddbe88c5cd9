//! The example: a program of its own around noq.

#[path = "../../../examples/noq.rs"]
mod program;

use std::time::Duration;

#[test]
fn a_program_around_noq_takes_any_controller() {
    for controller in ["copa", "cubic:start=hystart", "verus"] {
        let took = program::transfer(controller, 2_000_000).unwrap();
        // A wire without a rate: ten packets, then twice as many each 20 ms; Verus sends less.
        assert!(took > Duration::from_millis(60) && took < Duration::from_secs(5), "{controller}: {took:?}");
    }
    assert_eq!(
        program::transfer("sprout", 1).unwrap_err().to_string(),
        "sprout needs its receiver half at the other end, and QUIC as noq speaks it has no frame for its feedback; use @udp or @alcc"
    );
}
