//! A flow that is alive: its two endpoints, their timers, and what is on its way beside the links.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};
use paceline_path::Packet;
use paceline_transport::Steering;

use crate::body::Body;
use crate::ends::Ends;
use crate::host::Hosts;
use crate::telemetry::Carried;
use crate::timers::Armed;

/// A flow that is alive.
pub(crate) struct Live {
    /// Index of the configured flow it belongs to.
    pub(crate) family: u32,
    /// The first hops of data, and of acknowledgements or requests.
    pub(crate) hops: [u32; 2],
    pub(crate) began: Time,
    pub(crate) ends: Ends,
    /// Of the end that has the controller.
    pub(crate) steering_timer: Armed,
    pub(crate) receiver_timer: Armed,
    /// Where its hosts are not exact.
    pub(crate) hosts: Option<Hosts>,
    /// The flow ends when so many bytes have arrived.
    pub(crate) goal: Option<u64>,
    pub(crate) extra_delay: Nanos,
    /// Where its packets carry telemetry.
    pub(crate) telemetry: Option<Box<Carried>>,
    /// Data on the way from the path to its receiver.
    pub(crate) access: VecDeque<(Time, Packet<Body>)>,
    /// Acknowledgements or requests on the way from the path to where data comes from.
    pub(crate) back: VecDeque<(Time, Packet<Body>)>,
}

impl Live {
    /// From when on the host of its controller can send the next packet.
    #[inline]
    pub(crate) fn ready_at(&self) -> Time {
        self.hosts.as_ref().map_or(Time::ZERO, |hosts| hosts.ready_at(|| self.ends.steering().controller().pacing()))
    }

    /// When the end that has the controller wants to be woken next.
    #[inline(always)]
    pub(crate) fn wakes_at(&mut self, now: Time) -> Time {
        // By kind, not through what both are: the simulator's most frequent question.
        let (due, paced_until) = match &self.ends {
            Ends::Push(sender, _) => (sender.next_timeout(), sender.paced_until()),
            Ends::Pull(requester, _) => (requester.next_timeout(), requester.paced_until()),
            Ends::Fetch(fetch) => (Steering::next_timeout(fetch.as_ref()), fetch.paced_until()),
        };
        let ready_at = self.ready_at();
        let Some(hosts) = &mut self.hosts else { return due };
        if ready_at <= now {
            return hosts.sender_wakes_at(due, paced_until);
        }
        // A timer that has come waits for nothing but to be ready.
        if due > now { hosts.sender_wakes_at(due, paced_until).min(ready_at) } else { ready_at }
    }
}
