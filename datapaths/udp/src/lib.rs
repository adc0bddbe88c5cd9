//! Datagram endpoints over real sockets: the senders and receivers of `paceline_transport` against the clock.
//!
//! A [`Channel`] carries one session between two sockets; a [`SendingEnd`] or a [`ReceivingEnd`] runs an endpoint over it
//! in the calling thread until a deadline. [`server`] takes and gives files, and [`client`] is how they are asked for.
//! `docs/guide/udp.md` says how to use it, `docs/design/udp-wire.md` what the packets are.
//!
//! On systems other than Linux this crate is empty.
#![cfg(target_os = "linux")]

pub mod channel;
pub mod client;
pub mod handshake;
pub mod listener;
pub mod outcome;
pub mod record;
pub mod run;
pub mod seal;
pub mod server;
pub mod socket;
pub mod transfer;
pub mod wire;

pub use channel::{Channel, Strays};
pub use handshake::{HandshakeError, connect, random};
pub use listener::{Accepted, Agreed, Listener, Unanswered};
pub use outcome::{EndReason, ReceiverOutcome, SenderOutcome, Trouble};
pub use run::{ContentSink, ContentSource, Discard, Look, ReceivingEnd, SenderTiming, SenderWatch, SendingEnd, Zeros};
pub use seal::{Session, SessionKey};
pub use socket::Offload;
