#![doc = include_str!("../README.md")]

#[cfg(feature = "endpoints")]
pub mod above;
#[cfg(feature = "endpoints")]
mod acks;
mod arrivals;
mod causes;
pub mod config;
pub mod counted;
#[cfg(feature = "endpoints")]
pub mod datagram;
pub mod driver;
#[cfg(feature = "endpoints")]
pub mod endpoint;
#[cfg(feature = "endpoints")]
mod feedback;
pub mod numbered;
mod pacer;
mod packet;
mod prr;
#[cfg(feature = "endpoints")]
mod ranges;
mod rate;
#[cfg(feature = "endpoints")]
mod receiver;
#[cfg(feature = "endpoints")]
mod recovery;
mod rtt;
#[cfg(feature = "endpoints")]
pub mod saturator;
#[cfg(feature = "endpoints")]
mod scoreboard;
#[cfg(feature = "endpoints")]
pub mod seen;
#[cfg(feature = "endpoints")]
pub mod segment;
#[cfg(feature = "endpoints")]
mod sender;
#[cfg(feature = "endpoints")]
pub mod stream;

pub use arrivals::ArrivalTime;
pub use config::{PaceStyle, SenderConfig};
pub use counted::{Counted, Counters, FlowLimit, Samples};
pub use driver::{AckProgress, ArrivalClock, Delivery, Departing, Driver, Marks};
pub use numbered::{Numbered, NumberedAck, NumberedNews};
pub use packet::SentPacket;
pub use prr::Prr;
pub use rtt::Rtt;

#[cfg(feature = "endpoints")]
pub use {
    above::{Above, AckNews, Acks, Ahead, Delivered, Hold, Mode, NOT_SENT, Took},
    endpoint::{Receiver, Sender, SenderStats, Steering},
    receiver::AckPolicy,
    segment::{AckSegment, HEADER_BYTES, MAX_ARRIVALS, MAX_SACKS, Range, Segment},
};
