//! The walk-through shows the code that is compiled and tested here.

use paceline_cc::entry::Params;
use paceline_cc::fixed::Fixed;
use paceline_cc::registry::{Definition, RegisterError, register};
use paceline_cc::{Controller, Env, Spec};

const PAGE: &str = include_str!("../../../docs/guide/add-a-controller.md");

/// The blocks of Rust of the page: excerpts of `examples/vegas95.rs`, and what is below between two comments.
#[test]
fn the_page_shows_code_that_is_compiled() {
    let example = include_str!("../examples/vegas95.rs");
    let blocks: Vec<&str> = PAGE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let others: Vec<&&str> = blocks.iter().filter(|block| !example.contains(**block)).collect();
    assert!(blocks.len() > 4, "the page shows the example");
    assert_eq!(
        others.len(),
        1,
        "copy from core/cc/examples/vegas95.rs into docs/guide/add-a-controller.md:\n{others:#?}"
    );
}

fn some_windows() -> Result<(), RegisterError> {
    // The page shows this.
    for packets in [10, 20, 40] {
        let make =
            move |_: &Params, env: &Env| -> Box<dyn Controller> { Box::new(Fixed::new(env, f64::from(packets), None)) };
        let mut definition = Definition::new(format!("mine-{packets}"), make);
        definition.summary = format!("{packets} packets");
        register(definition)?;
    }
    // To here.
    Ok(())
}

#[test]
fn what_the_page_registers_is_made_by_its_name() {
    let (_, rest) = include_str!("add_a_controller.rs").split_once("// The page shows this.\n").unwrap();
    let (shown, _) = rest.split_once("    // To here.").unwrap();
    let shown: String = shown.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    assert!(PAGE.contains(&shown), "copy this into docs/guide/add-a-controller.md:\n{shown}");

    some_windows().unwrap();
    assert!(matches!(some_windows(), Err(RegisterError::Taken(name)) if name == "mine-10"));
    let spec: Spec = "mine-20".parse().unwrap();
    assert_eq!(spec.build(&Env::default()).window(), 20 * 1448);
    assert_eq!(spec.entry().summary, "20 packets");
}
