//! What a path says of itself: counters, a snapshot, what it holds.

use paceline_cc::Time;

use super::{Path, Stage};
use crate::policer::Policing;
use crate::schedule::Schedule;
use crate::snapshot::Snapshot;
use crate::stats::{Count, LinkStats};
use crate::wifi::{Air, Radio};

impl<P: Clone + Send> Path<P> {
    /// The counters of the first link, with time integrals up to `now`; `None` when the path has no link.
    pub fn stats(&mut self, now: Time) -> Option<&LinkStats> {
        self.advance(now);
        self.places.iter_mut().find_map(|place| match &mut place.stage {
            Stage::Link(link) => Some(link.stats(now)),
            Stage::Radio(radio) => Some(radio.stats(now)),
            _ => None,
        })
    }

    /// What waits at the first link at `now`, without the packet in service; nothing when the path has no link.
    pub fn queued(&mut self, now: Time) -> Count {
        self.stats(now).map_or_else(Count::default, |stats| stats.queued)
    }

    /// The first link at `now`, what was lost at random on the path, and what was policed; `None` when the path has no link.
    pub fn snapshot(&mut self, now: Time) -> Option<Snapshot> {
        self.advance(now);
        let (lost, policed) = (self.lost(), self.policed());
        self.places.iter_mut().find_map(|place| match &mut place.stage {
            Stage::Link(link) => Some(Snapshot { lost, policed, ..link.snapshot(now) }),
            Stage::Radio(radio) => Some(Snapshot { lost, policed, ..radio.snapshot(now) }),
            _ => None,
        })
    }

    /// What the first link serves by; of a Wi-Fi link, what it would carry alone on its channel. `None` when the path has no link.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.places.iter().find_map(|place| match &place.stage {
            Stage::Link(link) => Some(link.schedule()),
            Stage::Radio(radio) => Some(radio.schedule()),
            _ => None,
        })
    }

    /// Bytes that its queues hold of packets of `packet` bytes; `None` where one has no limit.
    pub fn room(&self, packet: u32) -> Option<u64> {
        let limits = self.places.iter().filter_map(|place| match &place.stage {
            Stage::Link(link) => Some(link.limit()),
            Stage::Radio(radio) => Some(radio.limit()),
            _ => None,
        });
        limits.map(|limit| limit.most(packet)).try_fold(0_u64, |sum, most| Some(sum.saturating_add(most?)))
    }

    /// What it did on the air; `None` when the path has no Wi-Fi link.
    pub fn air(&self) -> Option<Air> {
        self.radio_stage().map(Radio::air)
    }

    /// Whether it shares a medium with another path: all of them are looked at by one thread, in the order of time.
    pub fn shares_medium(&self) -> bool {
        self.radio_stage().is_some()
    }

    fn radio_stage(&self) -> Option<&Radio<P>> {
        self.places.iter().find_map(|place| match &place.stage {
            Stage::Radio(radio) => Some(&**radio),
            _ => None,
        })
    }

    /// Packets dropped by its policer; `None` when the path has no policer.
    pub fn policed(&self) -> Option<Count> {
        self.places.iter().find_map(|place| match &place.stage {
            Stage::Policer(policing) => Some(policing.policed()),
            _ => None,
        })
    }

    /// Its policer, to change its rate while it runs.
    pub fn policing(&mut self) -> Option<&mut Policing> {
        self.places.iter_mut().find_map(|place| match &mut place.stage {
            Stage::Policer(policing) => Some(&mut **policing),
            _ => None,
        })
    }

    /// Packets were dropped that [`Path::pop_dropped`] can take out.
    pub fn has_dropped(&self) -> bool {
        self.dropped.as_ref().is_some_and(|dropped| !dropped.is_empty())
    }

    /// Packets lost by loss elements or on the air (not by queues or policers).
    pub fn lost(&self) -> Count {
        let radio = self.radio_stage().map_or_else(Count::default, Radio::lost);
        Count { packets: self.lost.packets + radio.packets, bytes: self.lost.bytes + radio.bytes }
    }

    /// Copies made by duplication.
    pub fn copied(&self) -> Count {
        self.copied
    }
}
