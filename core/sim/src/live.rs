//! Flows that are alive: their endpoints, their timers, and what is on its way beside the links.

use std::collections::{BTreeMap, VecDeque};

use paceline_cc::{Nanos, Time};
use paceline_path::Packet;
use paceline_transport::Steering;

use crate::body::{Body, Label};
use crate::ends::Ends;
use crate::host::Hosts;
use crate::telemetry::Carried;
use crate::timers::Armed;

/// So many numbers of ended flows cost nothing to speak of (our choice).
pub(crate) const SPARE: usize = 64;

/// A flow that is alive.
pub(crate) struct Live {
    /// Index of the configured flow that it belongs to.
    pub(crate) family: u32,
    /// Its number, on its packets.
    pub(crate) label: Label,
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

/// The flows that are alive, by their numbers, which count up. Memory is that of those alive, however many have ended.
#[derive(Default)]
pub(crate) struct LiveFlows {
    /// Number of the first of `recent`.
    first: u32,
    /// Those that began last, with those between them that have ended.
    recent: Vec<Option<Box<Live>>>,
    /// How many of `recent` are alive.
    alive: usize,
    /// Those that have outlived most that began after them.
    old: BTreeMap<u32, Box<Live>>,
}

impl LiveFlows {
    /// The number that is given next.
    pub(crate) fn next_number(&self) -> u32 {
        self.first + self.recent.len() as u32
    }

    /// Gives the next number to what is not a flow.
    pub(crate) fn skip(&mut self) -> u32 {
        let number = self.next_number();
        self.recent.push(None);
        self.tidy();
        number
    }

    /// The flow with the next number comes alive.
    pub(crate) fn begin(&mut self, live: Box<Live>) {
        self.recent.push(Some(live));
        self.alive += 1;
    }

    /// The flow with this number, while it is alive.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Live> {
        match self.recent.get_mut(number.wrapping_sub(self.first) as usize) {
            Some(live) => live.as_deref_mut(),
            None => old_mut(&mut self.old, number),
        }
    }

    /// The same, to be read.
    pub(crate) fn get(&self, number: u32) -> Option<&Live> {
        match self.recent.get(number.wrapping_sub(self.first) as usize) {
            Some(live) => live.as_deref(),
            None => self.old.get(&number).map(Box::as_ref),
        }
    }

    /// The flow with this number has ended.
    pub(crate) fn end(&mut self, number: u32) -> Option<Box<Live>> {
        match self.recent.get_mut(number.wrapping_sub(self.first) as usize) {
            Some(live) => {
                let live = live.take()?;
                self.alive -= 1;
                self.tidy();
                Some(live)
            }
            None => self.old.remove(&number),
        }
    }

    /// Where most of the recent ones have ended, the older half of them are recent no more.
    fn tidy(&mut self) {
        while self.recent.len() > 2 * self.alive + SPARE {
            let half = self.recent.len() / 2;
            for (number, live) in (self.first..).zip(self.recent.drain(..half)) {
                if let Some(live) = live {
                    self.alive -= 1;
                    self.old.insert(number, live);
                }
            }
            self.first += half as u32;
        }
    }

    /// The numbers of those alive, in their order.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let recent = (self.first..).zip(&self.recent).filter(|(_, live)| live.is_some());
        self.old.keys().copied().chain(recent.map(|(number, _)| number)).collect()
    }

    /// How many places for flows it has.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.recent.len() + self.old.len()
    }
}

#[cold]
fn old_mut(old: &mut BTreeMap<u32, Box<Live>>, number: u32) -> Option<&mut Live> {
    old.get_mut(&number).map(Box::as_mut)
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
        if ready_at > now && due <= now {
            // A timer that has come waits for nothing but to be ready.
            return ready_at;
        }
        let wakes_at = hosts.sender_wakes_at(due, paced_until);
        if ready_at > now { wakes_at.min(ready_at) } else { wakes_at }
    }
}
