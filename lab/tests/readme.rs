//! What the README shows is true.

use paceline_lab::scenario::{Options, Source};

const README: &str = include_str!("../../README.md");

#[test]
fn its_scenario_is_valid() {
    let (_, after) = README.split_once("```toml\n").expect("a scenario is shown");
    let (scenario, _) = after.split_once("```").expect("it ends");
    let plans = Source::from_text("README.md", scenario, Options::default()).plans().expect("it is valid");
    assert_eq!(plans.len(), 5);
    assert_eq!(plans[0].scenario.flows()[0].count, 2);
    assert_ne!(plans[0].drawn, plans[1].drawn, "the range is drawn for each run");
}
