//! Equal flows over one bottleneck share it.

use paceline_path::PathError;

use super::bench::Dumbbell;
use super::{Check, Group};

const SECTION: &str = "Equal flows";
const CONTESTANTS: &[(&str, &str, f64)] = &[
    ("reno@tcp", "droptail:bdp=1", 0.90),
    ("cubic@tcp", "droptail:bdp=1", 0.90),
    ("dctcp@tcp", "step:threshold=1ms,limit=2MB", 0.95),
    ("bbr@tcp", "droptail:bdp=2", 0.80),
    ("copa:mode=default@udp", "infinite", 0.95),
];

pub(super) fn groups() -> Vec<Group> {
    CONTESTANTS.iter().map(|(name, queue, floor)| Box::new(move || jain(name, queue, *floor)) as Group).collect()
}

fn jain(contestant: &str, queue: &str, floor: f64) -> Result<Vec<Check>, PathError> {
    let mut checks = Vec::new();
    for count in [2_u32, 4, 8] {
        let mut bench = Dumbbell::new(100.0, 20.0, queue).seconds(120);
        for index in 0..count {
            bench = bench.flow(contestant, f64::from(index) * 0.5);
        }
        let run = bench.run()?;
        let shares: Vec<f64> = run.outcome.flows.iter().map(|flow| flow.wire_bytes_arrived as f64).collect();
        let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let index = sum * sum / (f64::from(count) * squares);
        checks.push(
            Check::new(
                SECTION,
                format!("{count} {contestant}, 100 Mbit/s, 20 ms, {queue}, starts 0.5 s apart, 120 s"),
                format!("Jain's index at least {floor} (our floor; 1 is equal)"),
            )
            .got(format!("{index:.3}"), index >= floor),
        );
    }
    Ok(checks)
}
