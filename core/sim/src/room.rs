//! How much a flow can ever have in flight.

use paceline_cc::Nanos;
use paceline_experiment::topology::back;
use paceline_experiment::{Excess, Flow, Topology};
use paceline_transport::Steering;

use crate::body::Body;

/// So many bandwidth-delay products may be in flight beside what the queues hold: more than any jitter, outage or detour
/// makes useful (our choice).
const PRODUCTS: u64 = 64;
/// So many packets may be in any case: they cost some 20 MB, and are as many as the open window below `@alcc/open` and an action of the
/// Gymnasium environment permit (our choice).
const PACKETS: u64 = 1 << 16;

/// What the path of a flow can hold, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Its queues and a bandwidth-delay product; of a queue without limit what the link carries during the whole run.
    holds: u64,
    /// More in flight ends the run.
    most: u64,
}

impl Room {
    /// For this flow in a world that lasts so long. Where nothing limits a way, it holds all that is sent.
    pub(crate) fn new(flow: &Flow, topology: &Topology<Body>, duration: Nanos) -> Self {
        let there = topology.graph().route(flow.way).unwrap_or_default();
        let Some(rate) = topology.slowest(&there).and_then(|hop| topology.rate(hop)) else {
            return Self { holds: u64::MAX, most: u64::MAX };
        };
        let (packet, path) = (flow.packet_bytes(), |hop: &u32| &topology.paths()[*hop as usize]);
        let queues = there.iter().try_fold(0_u64, |sum, hop| Some(sum.saturating_add(path(hop).room(packet)?)));
        let queues = queues.unwrap_or(u64::MAX).min(rate.bytes_in(duration));
        let extra = flow.extra_delay + flow.extra_delay;
        let rtt = there.iter().chain(&back(&there)).fold(extra, |sum, hop| sum + path(hop).least());
        let product = rate.bytes_in(rtt);
        let most = product.saturating_mul(PRODUCTS).saturating_add(queues);
        Self { holds: product.saturating_add(queues), most: most.max(PACKETS * u64::from(flow.mss)) }
    }

    /// A flow has more in flight than that.
    #[inline]
    pub(crate) fn is_exceeded(&self, end: &dyn Steering) -> bool {
        end.in_flight() > self.most
    }

    /// What to say of it.
    pub(crate) fn excess(&self, flow: &Flow, end: &dyn Steering) -> Excess {
        Excess {
            controller: flow.controller.to_string(),
            window: end.window(),
            set_at: end.controller().window_set_at(),
            in_flight: end.in_flight(),
            holds: self.holds,
        }
    }
}
