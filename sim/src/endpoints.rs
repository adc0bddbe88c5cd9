//! The endpoints of a flow.

use paceline_cc::Env;
use paceline_transport::{AckPolicy, Config, Pace, Receiver, Sender, above, datagram, stream};

use crate::config::{Flow, Via};

/// Whether the simulator has the flow's datapath.
///
/// # Errors
/// One line: why not, and the mend.
pub fn check(flow: &Flow) -> Result<(), String> {
    match flow.via {
        Via::Quic => {
            let spec = &flow.controller;
            Err(format!("{spec}@quic: QUIC runs in the real world alone; add --real, or write {spec}@udp"))
        }
        Via::Udp | Via::Tcp | Via::Alcc(..) => Ok(()),
    }
}

/// Sender and receiver of a flow.
///
/// # Panics
/// Where [`check`] refuses the flow.
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
        Via::Alcc(lower, _) => (above::sender(&config, controller, lower.build(env)), stream::receiver(&policy, half)),
        Via::Quic => panic!("a flow over QUIC is refused before it runs"),
    }
}
