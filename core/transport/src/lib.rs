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
pub mod numbered;
mod pacer;
mod packet;
mod ranges;
mod rate;
mod receiver;
mod recovery;
mod rtt;
pub mod saturator;
mod scoreboard;
pub mod seen;
pub mod segment;
mod sender;
pub mod stream;

pub use above::{Above, AckNews, Acks, Ahead, Delivered, Hold, Mode, NOT_SENT, Took};
pub use config::{AckPolicy, PaceStyle, SenderConfig};
pub use counted::{Counted, Counters, FlowLimit, Samples};
pub use driver::{AckProgress, ArrivalClock, Delivery, Departing, Driver, Marks};
pub use endpoint::{Receiver, Sender, SenderStats, Steering};
pub use numbered::{Numbered, NumberedAck, NumberedNews};
pub use packet::SentPacket;
pub use recovery::Prr;
pub use rtt::Rtt;
pub use segment::{AckSegment, ArrivalTime, HEADER_BYTES, MAX_ARRIVALS, MAX_SACKS, Range, Segment};
