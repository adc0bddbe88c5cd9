//! The stage of a path that sends over a medium, and how paths come to share one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::{Nanos, Rate, Time};

use super::keys::{SharedChannel, Wifi};
use super::medium::Medium;
use super::phy::AIFS;
use super::sender::Sender;
use super::walk::Rates;
use crate::fate::DropReason;
use crate::loss::Lossy;
use crate::packet::{Element, Packet};
use crate::queue::{Queue, QueueBound};
use crate::random::{Purpose, Stream};
use crate::schedule::Schedule;
use crate::snapshot::{Meter, Snapshot};
use crate::stats::{Count, LinkStats};

/// Who sends a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WifiRole {
    /// It contends with a window of at most 63 slots.
    AccessPoint,
    /// It contends with a window of at most 1023 slots.
    Station,
}

/// What a direction did on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Air {
    /// Aggregates sent; a single frame counts as one.
    pub aggregates: u64,
    /// Frames in them.
    pub frames: u64,
    /// Frames of them that had to be sent again.
    pub again: u64,
    /// Aggregates that collided.
    pub collisions: u64,
    /// Time on the air, answers included.
    pub time: Nanos,
}

/// Where a direction is put in: on the medium of its channel.
pub struct Seat<'a, P> {
    /// The media of the world.
    pub media: &'a mut Media<P>,
    /// The name of the link, which is its channel where none is given.
    pub link: &'a str,
    /// The node that sends: directions of one node contend as one.
    pub node: u32,
    /// What that node is on this link.
    pub role: WifiRole,
}

/// The media of a world by channel, while its paths are made.
pub struct Media<P> {
    channels: BTreeMap<String, Channel<P>>,
}

struct Channel<P> {
    /// What its links say alike.
    shared: SharedChannel,
    medium: Arc<Mutex<Medium<P>>>,
}

impl<P> Default for Media<P> {
    fn default() -> Self {
        Self { channels: BTreeMap::new() }
    }
}

impl<P: Send> Seat<'_, P> {
    /// The stage of a direction that was checked.
    ///
    /// # Errors
    /// When links of its channel do not say the same of what they share.
    pub(crate) fn radio(
        self,
        wifi: &Wifi,
        queue: Box<dyn Queue<P>>,
        outages: Vec<(Time, Time)>,
        seed: u64,
    ) -> Result<Radio<P>, &'static str> {
        // A link's name and a channel's do not meet: one has a prefix.
        let name = wifi.channel.as_ref().map_or_else(|| format!("link {}", self.link), Clone::clone);
        let shared = wifi.shared();
        let make = || {
            let (air, rest, _) = wifi.full(shared.competitor_phy.unwrap_or(wifi.phy));
            Channel { shared, medium: Arc::new(Mutex::new(Medium::new(shared, (air, rest), seed))) }
        };
        let channel = self.media.channels.entry(name).or_insert_with(make);
        if channel.shared != shared {
            return Err("directions on one channel differ in competitors, interference, rts or turns");
        }
        let walk = wifi.walk.map(|walk| (walk, Stream::new(seed, Purpose::RateWalk)));
        let loss = wifi.per.map(|loss| Lossy::of_frames(loss, seed));
        let sender = Sender::new(wifi.clone(), Rates::new(wifi.phy, walk), loss, queue, outages.clone());
        let number = locked(&channel.medium).join(sender, self.node, self.role, seed);
        let schedule = Schedule::constant(wifi.nominal()).with_outages(outages);
        let slowest = wifi.walk.and_then(|walk| wifi.phy.with_mcs(walk.highest)).unwrap_or(wifi.phy);
        let least = AIFS + slowest.air(wifi.frame(0));
        Ok(Radio { medium: Arc::clone(&channel.medium), number, schedule, least, seen: LinkStats::default() })
    }
}

/// One direction of a Wi-Fi link. Directions that share a medium are looked at by one thread, with times that never decrease over all
/// of them; a time that does counts as the latest before.
pub struct Radio<P> {
    medium: Arc<Mutex<Medium<P>>>,
    number: usize,
    schedule: Schedule,
    least: Nanos,
    seen: LinkStats,
}

/// What one thread left behind when it panicked is as good as before: each call is whole.
fn locked<P>(medium: &Mutex<Medium<P>>) -> MutexGuard<'_, Medium<P>> {
    medium.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Send> Radio<P> {
    /// What full packets alone on the channel would get, less outages.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn with<T>(&self, act: impl FnOnce(&mut Sender<P>) -> T) -> T {
        act(&mut locked(&self.medium).senders[self.number])
    }

    /// Its counters, with time integrals up to `now`.
    pub fn stats(&mut self, now: Time) -> &LinkStats {
        let mut medium = locked(&self.medium);
        medium.look(now);
        self.seen.clone_from(medium.senders[self.number].stats(now));
        &self.seen
    }

    pub(crate) fn forget(&mut self, flow: u32) {
        self.with(|sender| sender.forget(flow));
    }

    /// What it did on the air.
    pub fn air(&self) -> Air {
        self.with(|sender| sender.air)
    }

    /// Packets lost although their frames were sent as often as is permitted, or that came too late to be put in order.
    pub fn lost(&self) -> Count {
        self.with(|sender| sender.lost)
    }

    pub(crate) fn meter(&mut self, interval: Nanos) {
        self.with(|sender| sender.meter.get_or_insert_with(|| Box::new(Meter::new(interval))).interval());
    }

    pub(crate) fn keep_dropped(&mut self) {
        self.with(Sender::keep_dropped);
    }

    /// Takes what was dropped by `now`, with the times.
    pub(crate) fn take_dropped(&mut self, now: Time) -> Vec<(Time, DropReason, Packet<P>)> {
        self.with(|sender| {
            let dropped = sender.dropped.as_mut();
            dropped
                .map(|dropped| std::iter::from_fn(|| dropped.pop_front_if(|(at, ..)| *at <= now)).collect())
                .unwrap_or_default()
        })
    }

    /// How much its queue holds.
    pub(crate) fn limit(&self) -> QueueBound {
        locked(&self.medium).senders[self.number].limit()
    }

    /// What it looks like at `now`: the capacity is what full packets would get at the present rate in the time that was left by the
    /// others lately; lost is what was lost for good.
    pub(crate) fn snapshot(&mut self, now: Time) -> Snapshot {
        let mut medium = locked(&self.medium);
        medium.look(now);
        let left = 1.0 - medium.others(self.number, now);
        let sender = &mut medium.senders[self.number];
        let capacity = Rate::from_bytes_per_sec((sender.expected(now).as_bytes_per_sec() as f64 * left) as u64);
        let recent = sender.meter.as_mut().map(|meter| meter.recent(now));
        let (limit, lost) = (sender.limit(), sender.lost);
        let stats = sender.stats(now);
        let dropped =
            Count { packets: stats.full.packets + stats.aqm.packets, bytes: stats.full.bytes + stats.aqm.bytes };
        let LinkStats { queued, arrived, marked, .. } = *stats;
        Snapshot { at: now, queued, limit, capacity, arrived, dropped, lost, policed: None, marked, recent }
    }
}

impl<P: Send> Element<P> for Radio<P> {
    fn push(&mut self, now: Time, packet: Packet<P>) {
        locked(&self.medium).push(self.number, now, packet);
    }

    fn next(&self) -> Time {
        let medium = locked(&self.medium);
        let sender = &medium.senders[self.number];
        let out = sender.out.front().map_or(Time::NEVER, |(at, _)| *at);
        let dropped = sender.dropped.iter().flatten().next().map_or(Time::NEVER, |(at, ..)| *at);
        let inside = if sender.is_busy() { medium.next() } else { Time::NEVER };
        out.min(dropped).min(inside)
    }

    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        let mut medium = locked(&self.medium);
        medium.look(now);
        medium.senders[self.number].out.pop_front_if(|(at, _)| *at <= now).map(|(_, packet)| packet)
    }

    fn least(&self) -> Nanos {
        self.least
    }
}
