//! The endpoints of a flow.

use paceline_cc::Env;
use paceline_transport::{AckPolicy, Config, Pace, Receiver, Sender, above, datagram, stream};

use crate::config::{Flow, Via};

/// Sender and receiver of a flow.
pub fn make(flow: &Flow, env: &Env) -> (Box<dyn Sender>, Box<dyn Receiver>) {
    let pace = if flow.paced { Pace::Linux } else { Pace::Off };
    let config = Config { mss: flow.mss, pace, handshake: flow.handshake, ..Config::default() };
    let policy = match flow.ack_every {
        0 | 1 => AckPolicy::immediate(),
        every => AckPolicy { every, max_delay: flow.ack_delay, ..AckPolicy::default() },
    };
    let policy = AckPolicy { arrivals: flow.arrivals, ..policy };
    let controller = flow.controller.build(env);
    let half = flow.controller.build_receiver(env);
    match &flow.via {
        Via::Udp if flow.arrivals => (datagram::sender(&config, controller), datagram::receiver_with_arrivals(half)),
        Via::Udp => (datagram::sender(&config, controller), datagram::receiver(half)),
        Via::Tcp => (stream::sender(&config, controller), stream::receiver(&policy, half)),
        Via::Alcc(lower) => (above::sender(&config, controller, lower.build(env)), stream::receiver(&policy, half)),
    }
}
