//! `dumbbell FLOWS MBPS SECONDS` runs the dumbbell and prints how many packets arrived, for counting instructions
//! (`scripts/bench-instructions`).

use paceline_cc::Rate;

#[path = "../benches/dumbbell/world.rs"]
mod world;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flows, mbps, seconds] = arguments.as_slice() else {
        return Err("usage: dumbbell FLOWS MBPS SECONDS".into());
    };
    println!("{}", world::packets(flows.parse()?, Rate::from_mbps(mbps.parse()?), seconds.parse()?));
    Ok(())
}
