//! Paths: links, queues, delays and losses in a row, driven by a caller that has a clock.
//!
//! [`Direction`] is what a scenario file says of one direction; [`Direction::build`] makes the [`Path`] that the
//! simulator drives in virtual time and the emulator in real time.

pub mod bucket;
pub mod change;
pub mod changing;
pub mod config;
pub mod convert;
pub mod delay;
pub mod fate;
pub mod import;
pub mod info;
pub mod jitter;
pub mod light;
pub mod link;
pub mod loss;
pub mod markov;
pub mod packet;
pub mod policer;
pub mod queue;
mod random;
pub mod reorder;
pub mod row;
pub mod schedule;
pub mod snapshot;
pub mod stats;
pub mod synth;
pub mod trace;
pub mod tunnel;
pub mod wifi;

pub use bucket::{Bucket, TokenBucket};
pub use change::{Changeable, PathChange};
pub use changing::Changing;
pub use config::{Direction, PathError, build_link, check_link};
pub use convert::{TableError, from_table, to_table};
pub use delay::{Delay, VaryingDelay};
pub use fate::{DropReason, DroppedPacket, Ledger};
pub use import::{Amount, Columns, from_columns, from_log};
pub use info::TraceInfo;
pub use jitter::{DrawSpan, Jitter};
pub use light::Light;
pub use link::Link;
pub use loss::{Duplicate, Gilbert, LossModel, Lossy, share};
pub use markov::Markov;
pub use packet::{Contents, DelaySplit, Element, Packet};
pub use policer::{Policer, PolicerAction, PolicerScope, Policing};
pub use queue::{Queue, QueueSpec};
pub use random::mix;
pub use reorder::{Holding, Reorder};
pub use row::{FilterVerdict, Path, PathFilter};
pub use schedule::{Rates, Schedule};
pub use snapshot::{Recent, Snapshot};
pub use stats::{Count, FlowStats, LinkStats};
pub use synth::{Synth, SynthError};
pub use trace::{Trace, TraceError};
pub use tunnel::{TunnelEnd, TunnelMarks};
pub use wifi::{Air, Media, Phy, Radio, Seat, Wifi, WifiRole};
