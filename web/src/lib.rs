//! Races in a browser: the simulator, its records and the report behind three functions that a WebAssembly module exports.
//!
//! # The binding
//!
//! Built for `wasm32-unknown-unknown` the module exports `memory`, `room(bytes) -> pointer`, a buffer for the next request, and
//! `ask(bytes) -> u32`, which reads a request of so many bytes in the room: 0 when it was done, 1 when it failed, of which an `error` or
//! a `fault` was told. A panic is told as an `error` with `"panicked": true` and then traps; the instance is of no use any more.
//! It imports from the module `page`:
//!
//! - `tell(pointer, bytes)`: a message, any number of them while `ask` runs
//! - `event(pointer, bytes, room, room_bytes) -> i32`: an event for a controller of the page, answered with JSON in the room: the number
//!   of its bytes, or -1 where it threw, and the room has what it threw, `{"message", "line"}`, with zeros behind it
//!
//! Requests and messages are JSON in UTF-8. An instance runs one request at a time; a run that is to end before its time is ended with
//! its worker.
//!
//! # Requests
//!
//! A race is described by `scenario`, a text, and, all of them as the command has them, `file` (what errors call it), `sets`, `seed`,
//! `seconds`, `runs`, `contestants`; by `traces`, texts by the names that the scenario has for them (those that are shipped are at hand);
//! and by `controllers` of the page (`name`, `params`, `summary`, `recovery`, `ecn`), which answer events.
//!
//! | `ask` | with | told |
//! |---|---|---|
//! | `about` | | `about`: controllers, start-ups, datapaths, scenarios, traces |
//! | `plan` | a race | `plan`: who races, how often, over which links; the scenario as JSON, and with every default as TOML |
//! | `run` | a race, `contestant`, `run` from 1; `moving`, `report` | `points` where it is to move, then `record`: the `line` of `race --json`, and what a report is made of, `kept` |
//! | `digest` | `lines` | `digest`: as `race --digests` |
//! | `csv` | `lines` | `csv`: as `race --csv` |
//! | `report` | a race, `kept` of all runs in the order of the records, `command` | `report`: as `race --report` |
//!
//! What goes wrong is told as `error`, with `line` and `field` of the scenario or the `option` where it is one of these; what a controller
//! of the page does wrong as `fault`, with `controller`, `call`, `message` and `line`.

mod about;
mod browser;
mod controller;
mod moving;
mod plan;
mod request;
mod results;
mod run;
mod shipped;
mod values;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use browser::{Browser, Threw};
pub use request::ask;

#[cfg(test)]
mod tests;
