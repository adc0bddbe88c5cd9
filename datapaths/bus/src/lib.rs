//! The bus: how the reports of in-band telemetry reach those who act on them, on one machine or between machines.
//!
//! A sink publishes a report of each flow, a hop what it sees, a controller of the deployment its wishes, everyone a sign of life;
//! the sender's agent subscribes to the flows that it sends. [`Bus`] carries these messages, by one of three ways ([`Address`]):
//! - `local`: sockets of this machine, below `/run/paceline/int`. No broker, nothing to start first; the folder is root's alone.
//! - `nats://HOST:PORT`: a NATS server, between machines.
//! - a [`Hub`]: within a process.
//!
//! Publishing never waits: what cannot be sent at once is kept in a queue of fixed length, from which the oldest is dropped, since a
//! newer report makes an older one useless. The same holds for a subscriber that is slow.
//!
//! Each message names its publisher and carries a number, and a MAC by the key that the two ends share. [`Gate`] says which are let
//! in. A report moves a sender's window, so this is the path to protect; the records in packets cannot be.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

mod address;
pub mod board;
mod bus;
mod envelope;
mod gate;
mod heart;
mod key;
mod local;
mod memory;
mod message;
#[cfg(feature = "nats")]
mod nats;
mod options;
mod queue;
mod subject;
mod subscription;

pub use address::{Address, AddressError};
pub use board::Board;
pub use bus::{Bus, Sealed};
pub use envelope::{Envelope, MESSAGE_MAX, seal};
pub use gate::{Gate, GateCounts, MAX_AGE, MessageRefused, RefusalReason, Trust};
pub use heart::Heart;
pub use key::{Keys, PublisherKey, PublisherKeyError, PublisherRole, is_name};
pub use memory::Hub;
pub use message::{BusMessage, Control, Health, MessageBody, flow_number};
pub use options::{BusError, BusOptions, MessageFigures};
/// Lists all of [`PublisherRole`] and [`RefusalReason`].
pub use strum::VariantArray;
pub use subject::{BusSubject, MessageKind, SubjectFilter};
pub use subscription::Subscription;
