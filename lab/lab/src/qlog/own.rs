//! What events of our own schema say (docs/design/qlog.md): variables, chirps, telemetry.

use std::collections::VecDeque;

use paceline_cc::{Controller, Hop, Nanos, Rate, Time, chirp, labels};
use serde_json::{Value, json};

use super::Variables;
use super::words::whole;

/// Least time between two records of variables, where the state stays (our choice: below every round trip here).
const SPACING: Nanos = Nanos::from_millis(1);
/// Most chirps that are followed at a time (our choice: a round trip of them).
const MOST_CHIRPS: usize = 64;

/// What a controller describes.
#[derive(Debug, Default)]
pub(super) struct Described {
    now: Vec<(&'static str, f64)>,
    said: Vec<(&'static str, f64)>,
    changed: Vec<(&'static str, f64)>,
    at: Option<Time>,
    /// The name of the state, where it has one.
    pub state: Option<&'static str>,
    /// It says that it is starting up.
    pub starting: bool,
    /// It says that a chirp is under way.
    pub chirping: bool,
}

impl Described {
    /// Asks it.
    pub(super) fn ask(&mut self, controller: &dyn Controller) {
        let Self { now, state, starting, chirping, .. } = self;
        now.clear();
        (*state, *starting, *chirping) = (None, false, false);
        controller.describe(&mut |name, value| {
            match name {
                "starting" | "slow_start" => *starting |= value > 0.0,
                "chirping" => *chirping |= value > 0.0,
                "mode" | "state" => *state = labels::of(name).and_then(|names| names.get(value as usize).copied()),
                _ => {}
            }
            if value.is_finite() {
                now.push((name, value));
            }
        });
    }

    /// What has changed since it was last said, where it is time to say it.
    pub(super) fn changed(&mut self, at: Time, how: Variables, state_changed: bool) -> Option<&[(&'static str, f64)]> {
        let due = state_changed || how == Variables::All || self.at.is_none_or(|last| at.since(last) >= SPACING);
        if !due || self.now == self.said {
            return None;
        }
        self.at = Some(at);
        let Self { now, said, changed, .. } = self;
        changed.clear();
        changed.extend(now.iter().filter(|one| !said.contains(one)));
        said.clone_from(now);
        Some(changed)
    }
}

/// A chirp: packets that leave at gaps which shrink.
#[derive(Debug)]
struct Chirp {
    number: u64,
    first: u64,
    begun: Time,
    gaps_us: Vec<f64>,
    last: Time,
    packets: usize,
    /// Packets that have been neither acknowledged nor lost.
    open: usize,
    lost: bool,
}

/// The chirps of a flow that are under way.
#[derive(Debug, Default)]
pub(super) struct Chirps(VecDeque<Chirp>);

impl Chirps {
    /// A packet with this number left, tagged as a chirp's.
    pub(super) fn sent(&mut self, now: Time, tag: u64, packet: u64) {
        let Some((number, _)) = chirp::place(tag) else { return };
        if let Some(chirp) = self.0.back_mut().filter(|chirp| chirp.number == number) {
            chirp.gaps_us.push(now.since(chirp.last).as_nanos() as f64 / 1e3);
            chirp.last = now;
            chirp.packets += 1;
            chirp.open += 1;
            return;
        }
        if self.0.len() == MOST_CHIRPS {
            self.0.pop_front();
        }
        let gaps_us = Vec::new();
        self.0.push_back(Chirp {
            number,
            first: packet,
            begun: now,
            gaps_us,
            last: now,
            packets: 1,
            open: 1,
            lost: false,
        });
    }

    /// The packet that left then with this tag has been acknowledged or lost.
    pub(super) fn settled(&mut self, tag: u64, sent_at: Time, lost: bool) {
        let Some((number, _)) = chirp::place(tag) else { return };
        let within = |chirp: &&mut Chirp| chirp.number == number && (chirp.begun..=chirp.last).contains(&sent_at);
        if let Some(chirp) = self.0.iter_mut().find(within) {
            chirp.open = chirp.open.saturating_sub(1);
            chirp.lost |= lost;
        }
    }

    /// The next that is over: of those before the last one, or of all where the start-up has ended.
    pub(super) fn ended(&mut self, chirping: bool) -> Option<Value> {
        let first = self.0.front()?;
        let alone = self.0.len() == 1;
        if chirping && (alone || first.open > 0) {
            return None;
        }
        let Chirp { number, first, gaps_us, packets, open, lost, .. } = self.0.pop_front()?;
        let ended = match (lost, open) {
            (true, _) => "lost",
            (false, 0) => "complete",
            _ => "cut",
        };
        let gaps: Vec<Value> = gaps_us.iter().map(|gap| json!((gap * 1e3).round() / 1e3)).collect();
        Some(json!({
            "number": whole(number), "packets": packets, "gaps_us": gaps, "first_packet_number": whole(first), "ended": ended,
        }))
    }
}

/// What a hop reported, without what it did not. Rates in bits per second, as qlog has them.
pub(super) fn hop(hop: &Hop) -> Value {
    let bits = |rate: Option<Rate>| rate.map(|rate| whole(rate.as_bytes_per_sec().saturating_mul(8)));
    let mut value = json!({
        "id": hop.id,
        "queue_bytes": hop.queue_bytes.map(whole),
        "room_packets": hop.room_packets,
        "limit_packets": hop.limit_packets,
        "capacity": bits(hop.capacity),
        "arrival": bits(hop.arrival),
        "flows": hop.flows,
        "drops": hop.drops,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}
