//! `ack_steps CONTROLLER STEPS` takes a controller through this many packets, for counting instructions
//! (`scripts/bench-instructions`); without arguments it lists the controllers.

use paceline_cc::Spec;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::testing::steady::Steady;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [controller, steps] = arguments.as_slice() else {
        CONTROLLERS.iter().for_each(|entry| println!("{}", entry.name));
        return Ok(());
    };
    let spec: Spec = controller.parse()?;
    let steps: u64 = steps.parse()?;
    let mut feed = Steady::new(&spec);
    let last = (0..steps).map(|_| feed.step()).last();
    println!("{spec}: {} bytes after {steps} packets", last.unwrap_or_default());
    Ok(())
}
