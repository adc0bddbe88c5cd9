//! What a hop writes into a packet.

use paceline_cc::{Nanos, Time};

use super::word::{read_short_float, short_float};
use super::{NAMESPACE, RecordProfile};
use crate::report::REFERENCE;

/// A field that a hop cannot supply is all ones (RFC 9197 section 4.4.2).
const UNKNOWN_16: u16 = u16::MAX;
const UNKNOWN_32: u32 = u32::MAX;
/// Largest room, flow count and radio rate that are written; one more means unknown.
const MOST_ROOM: u32 = 0xfffe;
const MOST_FLOWS: u32 = 254;
const MOST_RATE: u32 = 0xfffe;
/// A full queue.
const MOST_SHARE: u16 = 0xfffe;
/// Code of an arrival rate of 2^31 packets a second; codes above it are read as it.
const MOST_RATE_CODE: u8 = 248;
const UNKNOWN_8: u8 = u8::MAX;
/// Radio signal that is not known.
const NO_SIGNAL: u8 = 0x80;
/// A wide word of which each part is unknown.
const NOTHING: u64 = u64::MAX ^ (0xff ^ NO_SIGNAL as u64) << 24;
/// Transit delays of this much and more are "overflow", their top bit (RFC 9197 section 4.4.2.5).
const MOST_TRANSIT: u32 = 0x7fff_ffff;
const TRANSIT_OVERFLOW: u32 = 0x8000_0000;
const NODE_BITS: u32 = 0x00ff_ffff;

/// What a hop wrote as the packet passed, before it was queued. What a hop does not know, or the profile does not carry, is
/// `None`, which is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct NodeRecord {
    /// The packet's hop limit after it was lowered.
    pub hop_limit: u8,
    /// The node's number: 24 bits.
    pub node: u32,
    /// Number of the interface that it came in by.
    pub ingress: Option<u16>,
    /// Number of the interface that it leaves by.
    pub egress: Option<u16>,
    /// When, by the hop's clock; microseconds on the wire.
    pub at: Option<Time>,
    /// From the hop's way in to its way out, without the queue; more than 2.1 s is written as that.
    pub transit: Option<Nanos>,
    /// Packets for which the queue has room, this one included.
    pub room_packets: Option<u32>,
    /// Flows seen in the last second, at least one.
    pub flows: Option<u32>,
    /// Packets a second that come to the queue, in steps of 9 % on the wire.
    pub arrival_pps: Option<f64>,
    /// Octets that wait in the queue.
    pub queue_bytes: Option<u32>,
    /// Share of the queue's limit in use, 0 to 1, in steps of 1/65535 on the wire.
    pub occupancy: Option<f64>,
    /// Packets of this packet's flow that the queue dropped, modulo 2^16: only differences mean anything. A counter that stands
    /// at 0xFFFF is unknown for the moment, as those below.
    pub flow_dropped: Option<u16>,
    /// Frames that the link lost for good, modulo 2^16: only differences mean anything.
    pub link_lost: Option<u16>,
    /// Packets that the queue dropped, modulo 2^16: only differences mean anything.
    pub dropped: Option<u16>,
    /// Radio signal, -127 to 0 dBm.
    pub rssi_dbm: Option<i8>,
    /// Radio streams less one (3 bits) and index of the modulation (5 bits).
    pub mcs: Option<u8>,
    /// The link's data rate in 0.1 Mbit/s; on the wire to 1/2048 of it, and in [`NAMESPACE`] 65534: 6553.4 Mbit/s or more.
    pub rate_100k: Option<u32>,
}

impl NodeRecord {
    /// What comes to the queue, in 0.1 Mbit/s of packets of [`REFERENCE`] octets.
    pub(super) fn arrival_100k(&self) -> Option<f64> {
        self.arrival_pps.map(|pps| pps * REFERENCE as f64 * 8.0 / 1e5)
    }

    /// Appends the fields of `profile`, in the order of their bits in the trace type, as `namespace` has them.
    pub(super) fn write(&self, namespace: u16, profile: RecordProfile, out: &mut Vec<u8>) {
        for bit in fields(profile) {
            let word = match bit {
                0 => u32::from(self.hop_limit) << 24 | self.node & NODE_BITS,
                1 => {
                    let [ingress, egress] = [self.ingress, self.egress].map(|id| u32::from(id.unwrap_or(UNKNOWN_16)));
                    ingress << 16 | egress
                }
                2 => self.at.map_or(UNKNOWN_32, |at| seconds(at).0),
                3 => self.at.map_or(UNKNOWN_32, |at| seconds(at).1),
                4 => self.transit.map_or(UNKNOWN_32, |span| match u32::try_from(span.as_nanos()) {
                    Ok(nanos) if nanos < MOST_TRANSIT => nanos,
                    _ => TRANSIT_OVERFLOW,
                }),
                5 => self.short_word(),
                6 => self.queue_bytes.map_or(UNKNOWN_32, |bytes| bytes.min(UNKNOWN_32 - 1)),
                10 => {
                    out.extend_from_slice(&self.wide_word(namespace).to_be_bytes());
                    continue;
                }
                // Bit 11, the last that a profile has.
                _ => self.queue_word(),
            };
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads a record of `profile`, whose words are all there, as `namespace` has them.
    pub(super) fn read(namespace: u16, profile: RecordProfile, words: &[u8]) -> Self {
        let mut words = words.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let mut word = || words.next().unwrap_or(UNKNOWN_32);
        let mut record = Self::default();
        let mut at_seconds = None;
        let known = |value: u32| (value != UNKNOWN_32).then_some(value);
        let half = |value: u32| Some(value as u16).filter(|id| *id != UNKNOWN_16);
        for bit in fields(profile) {
            let value = word();
            match bit {
                0 => (record.hop_limit, record.node) = ((value >> 24) as u8, value & NODE_BITS),
                1 => (record.ingress, record.egress) = (half(value >> 16), half(value)),
                2 => at_seconds = known(value),
                // A fraction of a second or more is unknown.
                3 => record.at = at_seconds.filter(|_| value < 1_000_000).map(|seconds| instant(seconds, value)),
                4 => record.transit = known(value).map(|nanos| Nanos::from_nanos(u64::from(nanos.min(MOST_TRANSIT)))),
                5 => record.read_short(value),
                6 => record.queue_bytes = known(value),
                10 => record.read_wide(namespace, u64::from(value) << 32 | u64::from(word())),
                _ => {
                    record.occupancy = half(value).map(|share| f64::from(share) / 65535.0);
                    record.flow_dropped = half(value >> 16);
                }
            }
        }
        record
    }

    /// Room (16 bits), flows (8), code of the arrival rate (8): the inputs of the paper's equation (1).
    fn short_word(&self) -> u32 {
        let room = self.room_packets.map_or(u32::from(UNKNOWN_16), |room| room.min(MOST_ROOM));
        let flows = self.flows.map_or(u32::from(UNKNOWN_8), |flows| flows.clamp(1, MOST_FLOWS));
        let code = self.arrival_pps.map_or(UNKNOWN_8, rate_code);
        room << 16 | flows << 8 | u32::from(code)
    }

    fn read_short(&mut self, word: u32) {
        let (flows, code) = ((word >> 8) as u8, word as u8);
        self.room_packets = Some(word >> 16).filter(|room| *room <= MOST_ROOM);
        // The packet itself is of a flow.
        self.flows = (flows != UNKNOWN_8).then_some(u32::from(flows.max(1)));
        self.arrival_pps = (code != UNKNOWN_8).then(|| rate_of(code));
    }

    /// The flow's drops (16 bits), occupancy (16): RFC 9197 leaves the unit of "buffer occupancy" to the namespace.
    fn queue_word(&self) -> u32 {
        let share =
            self.occupancy.map_or(UNKNOWN_16, |share| ((share.clamp(0.0, 1.0) * 65535.0 + 0.5) as u16).min(MOST_SHARE));
        u32::from(self.flow_dropped.unwrap_or(UNKNOWN_16)) << 16 | u32::from(share)
    }

    /// Lost frames (16 bits), drops (16), signal (8), MCS (8), data rate (16); all ones where nothing is known.
    fn wide_word(&self, namespace: u16) -> u64 {
        let Self { link_lost, dropped, rssi_dbm, mcs, rate_100k, .. } = *self;
        let [link_lost, dropped] = [link_lost, dropped].map(|count| u64::from(count.unwrap_or(UNKNOWN_16)));
        let signal = rssi_dbm.map_or(NO_SIGNAL, |dbm| dbm.clamp(-127, 0) as u8);
        let rate = rate_100k.map_or(UNKNOWN_16, |rate| match namespace {
            NAMESPACE => rate.min(MOST_RATE) as u16,
            _ => short_float(rate.into()),
        });
        let word = link_lost << 48
            | dropped << 32
            | u64::from(signal) << 24
            | u64::from(mcs.unwrap_or(UNKNOWN_8)) << 16
            | u64::from(rate);
        match word {
            NOTHING => u64::MAX,
            // -1 dBm alone is written as -2.
            u64::MAX => word & !(1 << 24),
            _ => word,
        }
    }

    fn read_wide(&mut self, namespace: u16, word: u64) {
        if word == u64::MAX {
            return;
        }
        let (signal, mcs, rate) = ((word >> 24) as u8, (word >> 16) as u8, word as u16);
        let counter = |word: u64| Some(word as u16).filter(|count| *count != UNKNOWN_16);
        (self.link_lost, self.dropped) = (counter(word >> 48), counter(word >> 32));
        self.rssi_dbm = Some(signal as i8).filter(|dbm| signal != NO_SIGNAL && *dbm <= 0);
        self.mcs = Some(mcs).filter(|_| mcs != UNKNOWN_8);
        self.rate_100k = match namespace {
            NAMESPACE => Some(u32::from(rate)).filter(|_| rate != UNKNOWN_16),
            _ => read_short_float(rate).map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)),
        };
    }
}

/// Bits of the trace type that `profile` sets.
fn fields(profile: RecordProfile) -> impl Iterator<Item = u32> {
    (0..24).filter(move |bit| profile.trace_type() & (0x80_0000 >> bit) != 0)
}

fn seconds(at: Time) -> (u32, u32) {
    let micros = at.as_nanos() / 1000;
    let seconds = u32::try_from(micros / 1_000_000).unwrap_or(UNKNOWN_32);
    (seconds.min(UNKNOWN_32 - 1), (micros % 1_000_000) as u32)
}

fn instant(seconds: u32, micros: u32) -> Time {
    Time::from_nanos(u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1000)
}

/// round(8 log2 `pps`): 0 is below 1.05 packets a second, each step 9 %.
pub fn rate_code(pps: f64) -> u8 {
    if pps.is_nan() {
        return UNKNOWN_8;
    }
    // What is below one has a negative logarithm, which becomes 0.
    ((8.0 * libm::log2(pps.max(1.0)) + 0.5) as u8).min(MOST_RATE_CODE)
}

/// The rate that `code` stands for; nothing for 0.
pub fn rate_of(code: u8) -> f64 {
    if code == 0 { 0.0 } else { libm::exp2(f64::from(code.min(MOST_RATE_CODE)) / 8.0) }
}
