//! Paths: links, queues, delays and losses in a row, driven by whoever has a clock.
//!
//! [`Direction`] is what a scenario file says of one direction; [`Direction::build`] makes the [`Path`] that the
//! simulator drives in virtual time and the emulator in real time.

pub mod config;
pub mod delay;
pub mod link;
pub mod packet;
pub mod queue;
pub mod row;
pub mod schedule;
pub mod stats;
pub mod trace;

pub use config::{Direction, PathError};
pub use delay::Delay;
pub use link::Link;
pub use packet::{Codepoint, Element, Packet, Split};
pub use queue::{Queue, QueueSpec};
pub use row::{Filter, Path, Verdict};
pub use schedule::Schedule;
pub use stats::{Count, FlowStats, LinkStats};
pub use trace::{Trace, TraceError};
