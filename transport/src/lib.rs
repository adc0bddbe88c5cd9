//! Sans-IO endpoints: who sends what when, and what was learnt from the acknowledgements.

pub mod endpoint;
pub mod segment;

pub use endpoint::{Receiver, Sender, SenderStats};
pub use segment::{AckSegment, HEADER_BYTES, MAX_SACKS, Range, Segment};
#[allow(missing_docs)]
pub mod thin;
