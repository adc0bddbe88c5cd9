//! The walk-through shows the example that is compiled and tested here.

/// `docs/add-a-controller.md` holds `examples/vegas.rs` as it would stand inside the crate, without its `main`.
#[test]
fn the_page_shows_the_example() {
    let page = include_str!("../../docs/add-a-controller.md");
    let example = include_str!("../examples/vegas.rs");
    let (before, rest) = example.split_once("fn main()").expect("the example has a main");
    let (_, after) = rest.split_once("\n}\n\n").expect("main ends");
    let listing = format!("{before}{after}").replace("use paceline_cc::", "use crate::");
    assert!(page.contains(listing.trim_end()), "copy cc/examples/vegas.rs into docs/add-a-controller.md");
}
