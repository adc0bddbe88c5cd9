//! The rules, one file for each controller.

mod bbr;
mod bbr3;
mod copa;
mod cubic;
mod marks;
mod pace;
mod rate_limited;
mod reno;
mod start;

use crate::rule::Rule;

/// Every rule, by controller.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    let window = [reno::RULES, cubic::RULES, bbr::RULES];
    window.into_iter().chain(bbr3::RULES).chain([copa::RULES, marks::RULES, pace::RULES]).flatten()
}

/// The rules of a controller, by its name in the registry.
pub fn of(controller: &str) -> Vec<&'static Rule> {
    all().filter(|rule| rule.controller == controller).collect()
}

/// Controllers with rules, in their order.
pub fn controllers() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for rule in all() {
        if !names.contains(&rule.controller) {
            names.push(rule.controller);
        }
    }
    names
}
