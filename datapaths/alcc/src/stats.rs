//! What limits a socket, and what those that are closed have done.

/// What kept a socket from sending more, at the time of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, strum::Display)]
#[strum(serialize_all = "lowercase")]
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
    #[strum(serialize = "layer below")]
    LayerBelow,
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
