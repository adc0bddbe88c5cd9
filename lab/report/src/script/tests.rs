//! Axes that a reader chooses are drawn by the page's script, all others by us: both have the same numbers, ticks and places.

use std::io::Write;
use std::process::{Command, Stdio};

use paceline_lab::numbers::short;
use serde_json::{Value, json};

use crate::svg::{Scale, nice};

/// What `scale.js` makes of values and axes.
const ASK: &str = "
const { values, axes, wants } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const marked = (axis, want) => ticks(axis, want).map((tick) => [label(axis, tick, want), at(axis, tick, 50, 650)]);
console.log(JSON.stringify({
  short: values.map(short),
  nice: values.map(nice),
  ticks: axes.map((axis) => wants.map((want) => marked(axis, want))),
}));";

const WANTS: [usize; 4] = [3, 5, 6, 11];

/// Places to a hundredth of what is drawn.
fn place(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}

fn by_the_script(values: &[f64], axes: &[(f64, f64, bool)]) -> Option<Value> {
    let script = format!("{}{ASK}", include_str!("scale.js"));
    let piped = |command: &mut Command| command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut node = piped(Command::new("node").args(["-e", &script])).ok()?;
    let axes: Vec<Value> =
        axes.iter().map(|(low, high, log)| json!({ "low": low, "high": high, "log": log })).collect();
    let asked = json!({ "values": values, "axes": axes, "wants": WANTS });
    node.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
    let answer = node.wait_with_output().unwrap();
    assert!(answer.status.success(), "node: {}", answer.status);
    Some(serde_json::from_slice(&answer.stdout).unwrap())
}

#[test]
fn the_script_has_the_same_numbers_and_ticks() {
    let mantissas = [1.0, 1.04, 1.5, 2.0, 2.16, 3.3, 5.0, 7.77, 9.99];
    let values: Vec<f64> = (-4..10).flat_map(|ten| mantissas.map(|m| m * 10_f64.powi(ten))).collect();
    let linear = values.iter().flat_map(|high| [0.0, 0.3, 0.92].map(|share| (share * high, *high, false)));
    let log = values.iter().flat_map(|low| [1.3, 3.9, 7.0, 80.0, 3e4].map(|factor| (*low, low * factor, true)));
    let axes: Vec<(f64, f64, bool)> = linear.chain(log).collect();
    let Some(script) = by_the_script(&values, &axes) else {
        println!("skipped: the_script_has_the_same_numbers_and_ticks: there is no node");
        return;
    };
    for (index, value) in values.iter().enumerate() {
        assert_eq!(script["short"][index], short(*value), "{value}");
        assert_eq!(script["nice"][index], nice(*value), "{value}");
    }
    for (index, axis @ (low, high, log)) in axes.iter().enumerate() {
        let scale = if *log { Scale::log } else { Scale::linear }(*low, *high, 50.0, 650.0);
        for (number, want) in WANTS.into_iter().enumerate() {
            let ours = scale.ticks(want).into_iter().map(|tick| (scale.label(tick, want), place(scale.at(tick))));
            let theirs = script["ticks"][index][number].as_array().unwrap().iter();
            let theirs = theirs.map(|tick| (tick[0].as_str().unwrap().to_owned(), place(tick[1].as_f64().unwrap())));
            assert_eq!(theirs.collect::<Vec<_>>(), ours.collect::<Vec<_>>(), "{axis:?}, {want} ticks");
        }
    }
}
