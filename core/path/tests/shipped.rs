//! The shipped traces are what the commands in their README make, byte for byte.

use paceline_cc::Nanos;
use paceline_path::Synth;

const README: &str = include_str!("../../../scenarios/traces/README.md");

/// Runs the README's command for this file.
fn made(file: &str) -> Vec<u8> {
    let command = README.lines().find(|line| line.ends_with(&format!("--output {file}"))).expect("a command");
    let option = |name: &str| {
        let rest = command.split_once(&format!("--{name} ")).expect("the option is given").1;
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().expect("a value"),
            None => rest.split(' ').next().expect("a value"),
        }
    };
    let synth = Synth {
        mean: option("mean").parse().expect("a rate"),
        sigma: option("sigma").parse().expect("a rate"),
        outage: option("outage").parse().expect("a time"),
        relax: option("relax").parse().expect("a time"),
        length: Nanos::from_secs(option("seconds").parse().expect("a number")),
        seed: option("seed").parse().expect("a number"),
    };
    let mut bytes = Vec::new();
    synth.trace(file).expect("valid").write(&mut bytes).expect("a Vec takes it");
    bytes
}

#[test]
fn shipped_traces_are_made_by_their_commands() {
    let same = |file: &str, bytes: &[u8]| assert!(made(file) == bytes, "{file} differs");
    same("lte-like.mahi", include_bytes!("../../../scenarios/traces/lte-like.mahi"));
    same("lte-like-light.mahi", include_bytes!("../../../scenarios/traces/lte-like-light.mahi"));
    same("lte-driving.mahi", include_bytes!("../../../scenarios/traces/lte-driving.mahi"));
    same("3g-like.mahi", include_bytes!("../../../scenarios/traces/3g-like.mahi"));
}
