//! What a person sees of a socket.

use std::net::SocketAddr;

use paceline_cc::{Nanos, Rate};

use crate::options::{Acks, Mode};

/// What kept a socket from sending more, at the time of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LimitedBy {
    /// Nothing: it is sending.
    #[default]
    Nothing,
    /// The application has written nothing more.
    Application,
    /// The controller's window is full.
    Window,
    /// The controller's next sending time has not come.
    Pacing,
    /// TCP takes no more: its window or its buffer is full.
    LayerBelow,
}

impl std::fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Application => "application",
            Self::Window => "window",
            Self::Pacing => "pacing",
            Self::LayerBelow => "layer below",
        })
    }
}

/// What the sockets of an engine that are closed have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Sockets.
    pub sockets: u64,
    /// Bytes handed to TCP, which delivers them after the close.
    pub delivered: u64,
    /// Segments that TCP sent again.
    pub retransmits: u64,
    /// Sockets that were reset because others wrote past the queue.
    pub bypassed: u64,
}

/// A socket's state and counters.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketStats {
    /// Number of the socket, unique in its engine.
    pub id: u64,
    /// This end; `None` when the kernel no longer says.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub peer: Option<SocketAddr>,
    /// The controller: `NAME:KEY=VALUE`.
    pub controller: String,
    /// How bytes reach TCP; never [`Mode::Auto`].
    pub mode: Mode,
    /// Where acknowledgements come from; never [`Acks::Auto`].
    pub acks: Acks,
    /// Since it was adopted.
    pub age: Nanos,
    /// What limits it.
    pub limited_by: LimitedBy,
    /// Delivery rate: the newest sample.
    pub rate: Rate,
    /// The newest RTT sample of the network, time in TCP's own buffer excluded where stamps show it.
    pub rtt: Option<Nanos>,
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
    /// Smallest RTT.
    pub min_rtt: Option<Nanos>,
    /// How long the newest acknowledged chunk waited in TCP's buffer before it left.
    pub below: Nanos,
    /// The controller's window in bytes.
    pub window: u64,
    /// TCP's own window in bytes.
    pub lower_window: u64,
    /// Bytes handed to TCP and not acknowledged.
    pub in_flight: u64,
    /// Bytes in our queue.
    pub queued: u64,
    /// Bytes that the application has written.
    pub written: u64,
    /// Bytes acknowledged since it was adopted.
    pub delivered: u64,
    /// Segments that TCP sent again.
    pub retransmits: u32,
    /// Timeouts of TCP.
    pub timeouts: u32,
    /// Chunks passed to TCP.
    pub chunks: u64,
    /// Of these, the ones for which TCP was the limit: it held back earlier ones, or had refused this one.
    pub limited_below: u64,
    /// Chunks whose acknowledgement was seen in `TCP_INFO` because the stamp was lost.
    pub stamps_lost: u64,
    /// RTT samples that cover a retransmission and were kept from the controller.
    pub marked: u64,
    /// Others wrote to the socket past the queue while it held bytes, so the connection was reset.
    pub bypassed: bool,
}
