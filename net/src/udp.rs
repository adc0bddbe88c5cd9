//! Datagram endpoints over real sockets: the senders and receivers of `paceline_transport` against the clock.
//!
//! A [`Channel`] carries one session between two sockets; a [`SendingEnd`] or a [`ReceivingEnd`] runs an endpoint over it
//! in the calling thread until a deadline. `docs/udp.md` tells how to use it, `docs/udp-wire.md` what the packets are.

pub mod channel;
pub mod handshake;
pub mod run;
pub mod seal;
pub mod socket;
pub mod transfer;
pub mod wire;

pub use channel::{Channel, Strays};
pub use handshake::{Accepted, HandshakeError, Listener, connect};
pub use run::{
    Discard, End, Look, ReceiverOutcome, ReceivingEnd, SenderOutcome, SendingEnd, Sink, Source, Timing, Trouble, Watch,
    Zeros,
};
pub use seal::{Key, Session};
pub use socket::Offload;
