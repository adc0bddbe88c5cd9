//! Paths: links, queues, delays and losses in a row, driven by whoever has a clock.

pub mod packet;

pub use packet::{Codepoint, Element, Packet, Split};
