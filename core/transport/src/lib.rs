//! Sans-IO endpoints: who sends what when, and what was learnt from the acknowledgements.

pub mod above;
mod acks;
mod arrivals;
mod causes;
pub mod config;
pub mod counted;
pub mod datagram;
pub mod driver;
pub mod endpoint;
mod feedback;
mod pacer;
mod packet;
mod ranges;
mod rate;
mod receiver;
mod recovery;
mod rtt;
pub mod saturator;
mod scoreboard;
pub mod segment;
mod sender;
pub mod stream;

pub use above::{Above, Acks, Ahead, Delivered, Hold, Mode, NOT_SENT, News, Took};
pub use config::{AckPolicy, Config, Pace};
pub use counted::{Counted, Counters, Limit, Samples};
pub use driver::{Arrived, Delivery, Driver, Load, Marks, Progress};
pub use endpoint::{Receiver, Sender, SenderStats, Steering};
pub use packet::Packet;
pub use recovery::Prr;
pub use rtt::Rtt;
pub use segment::{AckSegment, ArrivalTime, HEADER_BYTES, MAX_ARRIVALS, MAX_SACKS, Range, Segment};
