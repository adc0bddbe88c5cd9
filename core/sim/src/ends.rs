//! The two ends of a flow in a world.

use paceline_experiment::endpoints;
use paceline_experiment::icn::{FetchNode, Requester, Router};
use paceline_transport::{Receiver, Sender, Steering};

/// The two ends of a flow: which of them has the controller.
pub(crate) enum Ends {
    /// The one where data comes from: it sends, and the other acknowledges.
    Push(Box<dyn Sender>, Box<dyn Receiver>),
    /// The one where data goes: it asks, and the other answers.
    Pull(Box<Requester>, Router),
    /// The same of an object, whose other end is a node.
    Fetch(Box<FetchNode>),
}

impl From<endpoints::FlowEnds> for Ends {
    fn from(ends: endpoints::FlowEnds) -> Self {
        match ends {
            endpoints::FlowEnds::Push(sender, receiver) => Self::Push(sender, receiver),
            endpoints::FlowEnds::Pull(requester, router) => Self::Pull(requester, router),
        }
    }
}

impl Ends {
    /// The end that has the controller.
    #[inline]
    pub(crate) fn steering(&self) -> &dyn Steering {
        match self {
            Self::Push(sender, _) => sender.as_ref(),
            Self::Pull(requester, _) => requester.as_ref(),
            Self::Fetch(fetch) => fetch.as_ref(),
        }
    }

    /// The same.
    #[inline]
    pub(crate) fn steering_mut(&mut self) -> &mut dyn Steering {
        match self {
            Self::Push(sender, _) => sender.as_mut(),
            Self::Pull(requester, _) => requester.as_mut(),
            Self::Fetch(fetch) => fetch.as_mut(),
        }
    }

    /// The application has `bytes` more bytes to bring over ([`Steering::write`]).
    pub(crate) fn write(&mut self, bytes: u64) {
        if let Self::Pull(_, router) = self {
            router.write(bytes);
        }
        self.steering_mut().write(bytes);
    }

    /// Payload bytes ready for the application ([`Receiver::bytes_ready`]).
    #[inline]
    pub(crate) fn bytes_ready(&self) -> u64 {
        match self {
            Self::Push(_, receiver) => receiver.bytes_ready(),
            Self::Pull(requester, _) => requester.bytes_ready(),
            Self::Fetch(fetch) => fetch.bytes_ready(),
        }
    }
}
