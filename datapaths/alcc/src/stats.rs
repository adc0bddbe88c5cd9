//! What limits a socket, and what those that are closed have done.

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
