//! Measures what it costs one core to build the tree of an object and to verify its units in order:
//! `cargo run --release -p paceline-icn --example verify`.
//!
//! In processor time of this thread, so that what else the machine does counts less.

use paceline_icn::{Builder, UNIT, UnitVerdict, Verifier};

/// Units of the object: 280 MB, more than caches hold.
const DATA: usize = 200_000;

/// Rounds; the fastest counts, since others use this machine as well.
const ROUNDS: usize = 5;

/// Seconds that this thread has had a processor (Linux, `Documentation/scheduler/sched-stats.rst`).
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("it measures on Linux alone") / 1e9
}

fn main() {
    let content: Vec<u8> = (0..DATA * UNIT).map(|at| (at / 7) as u8).collect();
    let layout = *Builder::new(content.len() as u64, "").layout();
    let mut stored = vec![0; layout.stored_bytes() as usize];
    let gbits = |start: f64| content.len() as f64 * 8.0 / (processor_s() - start) / 1e9;
    let (mut built, mut verified) = (0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        let mut place = |unit: u64, bytes: &[u8]| {
            let at = unit as usize * UNIT;
            stored[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let start = processor_s();
        let mut builder = Builder::new(content.len() as u64, "");
        for (index, data) in content.chunks(UNIT).enumerate() {
            builder.push(data, &mut |unit, bytes| place(unit, bytes));
            place(layout.unit_of(index as u64), data);
        }
        let manifest = builder.finish(&mut |unit, bytes| place(unit, bytes)).expect("it is complete");
        built = built.max(gbits(start));
        let mut verifier = Verifier::new(&manifest.name());
        let start = processor_s();
        let genuine =
            (0..).zip(stored.chunks(UNIT)).all(|(unit, bytes)| verifier.check(unit, bytes) == UnitVerdict::Genuine);
        verified = verified.max(gbits(start));
        assert!(genuine && verifier.is_done());
    }
    println!("built {built:.1} Gbit/s, copying included; verified in order {verified:.1} Gbit/s");
}
