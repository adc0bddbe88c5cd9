//! A reliable byte stream, as a modern TCP sends and receives it.

use paceline_cc::{Controller, ReceiverHalf};

use crate::config::SenderConfig;
use crate::endpoint::{Receiver, Sender};
use crate::receiver::AckPolicy;
use crate::receiver::StreamReceiver;
use crate::sender::{Delivery, FlowSender};

/// A TCP sender driven by `controller`.
pub fn sender(config: &SenderConfig, controller: Box<dyn Controller>) -> Box<dyn Sender> {
    sender_from(config, controller, 0)
}

/// As [`sender`], with the first byte at position `start`.
pub fn sender_from(config: &SenderConfig, controller: Box<dyn Controller>, start: u64) -> Box<dyn Sender> {
    Box::new(FlowSender::new(config, controller, Delivery::Reliable, start))
}

/// A TCP receiver; `half` is the controller's receiver half, where it has one.
pub fn receiver(policy: &AckPolicy, half: Option<Box<dyn ReceiverHalf>>) -> Box<dyn Receiver> {
    receiver_from(policy, half, 0)
}

/// As [`receiver`], with the first byte expected at position `start`.
pub fn receiver_from(policy: &AckPolicy, half: Option<Box<dyn ReceiverHalf>>, start: u64) -> Box<dyn Receiver> {
    Box::new(StreamReceiver::new(policy, half, start))
}
