//! The endpoints of a flow.

use paceline_cc::Env;
use paceline_transport::{
    Receiver, Sender,
    thin::{Thin, ThinRx},
};

use crate::config::{Flow, Via};

/// Sender and receiver of a flow.
pub(crate) fn make(flow: &Flow, env: &Env) -> (Box<dyn Sender>, Box<dyn Receiver>) {
    let reliable = !matches!(flow.via, Via::Udp);
    (
        Box::new(Thin::new(flow.controller.build(env), env.mss, reliable)),
        Box::new(ThinRx::new(reliable, flow.controller.build_receiver(env))),
    )
}
