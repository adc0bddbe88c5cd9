//! What is known of a controller that runs in a program which is not ours: nothing but its name.

use crate::controller::{Controller, Env};
use crate::entry::{Entry, Params};
use crate::fixed::{self, Fixed};
use crate::statements::Statements;

/// Packets of its window: as many as the kernel's open window has (`datapaths/kernel/src/bpf/open_window.bpf.c`).
const WINDOW: f64 = 65_536.0;

fn make(_: &Params, env: &Env) -> Box<dyn Controller> {
    Box::new(Fixed::new(env, WINDOW, None))
}

/// Stands in no list.
pub(super) static ENTRY: Entry = Entry {
    name: "elsewhere",
    summary: "the controller of a program that is not ours",
    source: "our choice: what decides is not seen from outside",
    statements: Statements::NONE,
    params: &[],
    make: &make,
    ..fixed::ENTRY
};
