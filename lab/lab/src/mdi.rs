//! Models of controllers for `mdi` (docs/guide/mdi.md): watching a controller over traces, counting its moves, and holding a
//! model against what it was trained on.

pub mod against;
pub mod analysis;
pub mod counts;
pub mod course;
pub mod said;
pub mod train;
mod watch;

pub use counts::{Counts, CountsError};
pub use watch::Move;
