//! The header on a packet: one IPv6 Hop-by-Hop Options header, built whole by the sending host and never resized on the way.
//! `docs/design/telemetry-wire.md` says it octet by octet.
//!
//! Sources: RFC 8200 section 4.3 (the header), RFC 9486 section 3 (the option), RFC 9197 section 4.4 (the trace and its
//! fields) and 4.6 (edge to edge). Ours are the words of namespace [`NAMESPACE`] and the option [`EDGE_OPTION`], after the
//! end-to-end option of Bhat et al., "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF", figure 2.
//!
//! All numbers are big-endian. Decoding is total: any octets are a header or a [`WireError`].

mod edge;
mod record;
#[cfg(test)]
mod tests;
mod word;

pub use edge::{Edge, Long, StandardEdge};
pub use record::{NodeRecord, rate_code, rate_of};
pub use word::{PathWord, WordSignal, read_short_float, short_float};

use std::cmp::Ordering;

/// The IOAM namespace of this layout (RFC 9197 section 4.3: 0x8000 to 0xFFFF are an operator's own). A change of meaning of a
/// private field takes another.
pub const NAMESPACE: u16 = 0x8001;
/// The one in which data rates are [`short_float`]s, so that they go up to 200 Tbit/s, and which has [`RecordProfile::Word`].
pub const WIDE_NAMESPACE: u16 = 0x8002;
/// Type of the option that holds the trace: skip if unknown, body changes on the way (RFC 9486 section 3).
pub const TRACE_OPTION: u8 = 0x31;
/// Type of the option that holds [`StandardEdge`]: skip if unknown, body stays (RFC 9486 section 3).
pub const STANDARD_OPTION: u8 = 0x11;
/// Type of the option that holds [`Edge`]: skip if unknown, body stays; of the experimental types of RFC 4727 section 2.4.
pub const EDGE_OPTION: u8 = 0x1e;
/// Most octets of node data in a trace (Linux `IOAM6_TRACE_DATA_SIZE_MAX`, include/uapi/linux/ioam6.h).
pub const MAX_TRACE: usize = 244;
/// Most options, padding aside, that a header may have (Linux `net.ipv6.max_hbh_opts_number`).
pub const MAX_OPTIONS: usize = 8;
/// Most hops that a trace has room for: of [`RecordProfile::Lean`].
pub const MAX_HOPS: usize = MAX_TRACE / (4 * LEAN_WORDS);

const LEAN_WORDS: usize = 4;
const PAD1: u8 = 0;
const PADN: u8 = 1;
/// Octets before the first option that counts: next header, length, and an empty PadN, for options start at multiples of four.
const FIXED: usize = 4;
/// IOAM option types (RFC 9197 section 4.1).
const PREALLOCATED: u8 = 0;
const EDGE_TO_EDGE: u8 = 3;
/// Octets of a trace option before its node data: type, length, reserved, IOAM type, and the trace's own header.
const TRACE_HEADER: usize = 12;
/// Where the trace begins in a header of ours: its reserved octet and those after it.
const TRACE_AT: usize = FIXED;
const OVERFLOW: u8 = 0x04;

/// Which fields a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum RecordProfile {
    /// Node, interfaces, the short word, queue depth: 16 octets a hop.
    #[default]
    Lean,
    /// As lean, and when: 24 octets a hop.
    Timed,
    /// As lean, and how full the queue is, with the flow's own drops there: 20 octets a hop. Ours: what it takes to name losses by
    /// the medium and drops right on each packet, among any number of flows.
    Counted,
    /// Everything: 40 octets a hop.
    Full,
    /// No records: one word of four octets for all hops, a [`PathWord`].
    Word,
}

impl RecordProfile {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lean, Self::Timed, Self::Counted, Self::Full, Self::Word];

    /// The IOAM-Trace-Type: 24 bits, bit 0 the most significant (RFC 9197 section 4.4.1).
    pub const fn trace_type(self) -> u32 {
        match self {
            Self::Lean => 0xc6_0000,
            Self::Timed => 0xf6_0000,
            Self::Counted => 0xc6_1000,
            Self::Full => 0xfe_3000,
            // A buffer's occupancy alone, of which RFC 9197 leaves the meaning to the namespace.
            Self::Word => 0x00_1000,
        }
    }

    /// The namespace that has it, of two the one that all hops know.
    pub const fn namespace(self) -> u16 {
        match self {
            Self::Word => WIDE_NAMESPACE,
            _ => NAMESPACE,
        }
    }

    /// Words of four octets in a record: the NodeLen.
    pub const fn words(self) -> usize {
        match self {
            Self::Lean => LEAN_WORDS,
            Self::Counted => 5,
            Self::Timed => 6,
            Self::Full => 10,
            Self::Word => 1,
        }
    }

    /// Octets of a header with room for this many hops, as sources write it: with the edge-to-edge option, in a full one in its long form.
    pub const fn header_octets(self, hops: u8) -> usize {
        let edge = 2 + if matches!(self, Self::Full) { edge::LONG } else { edge::SHORT };
        let records = if matches!(self, Self::Word) { 1 } else { hops as usize };
        (FIXED + TRACE_HEADER + 4 * self.words() * records + edge).next_multiple_of(8)
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lean => "lean",
            Self::Timed => "timed",
            Self::Counted => "counted",
            Self::Full => "full",
            Self::Word => "word",
        }
    }

    /// Hops that a trace can have room for. The word is that of any number, and counts as one.
    pub const fn max_hops(self) -> usize {
        match self {
            Self::Word => 1,
            _ => MAX_TRACE / (4 * self.words()),
        }
    }

    /// The one that a trace of this type and namespace has.
    fn of(trace_type: u32, namespace: u16) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|profile| profile.trace_type() == trace_type)?;
        Some(known).filter(|profile| *profile != Self::Word || namespace == WIDE_NAMESPACE)
    }
}

/// A Hop-by-Hop Options header with telemetry.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryHeader {
    /// What follows it: 6 for TCP.
    pub next_header: u8,
    /// The IOAM namespace; only [`NAMESPACE`] and [`WIDE_NAMESPACE`] are read.
    pub namespace: u16,
    /// Which fields the records have.
    pub profile: RecordProfile,
    /// For how many hops there is room, those of `records` included; at most [`RecordProfile::max_hops`].
    pub capacity_hops: u8,
    /// A hop found no room.
    pub overflow: bool,
    /// What the hops wrote, first hop first.
    pub records: Vec<NodeRecord>,
    /// What they left of the word, where the profile has one.
    pub word: Option<PathWord>,
    /// From the sending host to the receiving one.
    pub edge: Option<Edge>,
    /// The same in the form of RFC 9197.
    pub standard: Option<StandardEdge>,
}

/// Why octets are not a header of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// There are fewer octets than the header says.
    #[error("the Hop-by-Hop header says {need} octets, and there are {have}")]
    Truncated {
        /// Octets that it says.
        need: usize,
        /// Octets that there are.
        have: usize,
    },
    /// An option ends behind the header.
    #[error("option {kind:#04x} at octet {at} ends behind the header")]
    Option {
        /// Its type.
        kind: u8,
        /// Where it begins.
        at: usize,
    },
    /// More options than a receiver takes.
    #[error("the header has more than {MAX_OPTIONS} options")]
    Options,
    /// An option that may be there once is there again.
    #[error("option {0:#04x} is there twice")]
    Twice(u8),
    /// No IOAM trace.
    #[error("the header has no pre-allocated IOAM trace (option {TRACE_OPTION:#04x})")]
    NoTrace,
    /// Another namespace.
    #[error("the trace is of IOAM namespace {0:#06x}, these are {NAMESPACE:#06x} and {WIDE_NAMESPACE:#06x}")]
    Namespace(u16),
    /// A word of no signal.
    #[error("the word is of signal {0}, which is not one of 0, 1 and 2")]
    Signal(u8),
    /// A trace type of no profile.
    #[error("trace type {0:#08x} belongs to no profile")]
    TraceType(u32),
    /// A length that does not fit.
    #[error("{what} is {value}, which does not fit")]
    Length {
        /// Of what.
        what: &'static str,
        /// What it says.
        value: usize,
    },
    /// Another version of the edge-to-edge option.
    #[error("the edge-to-edge option is of version {0}, this is version {version}", version = edge::VERSION)]
    Version(u8),
}

/// Why a hop wrote nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no room; the overflow flag says so now.
    #[error("the trace is full")]
    Full,
    /// Not a header that a hop of ours writes into; it is untouched.
    #[error("not a trace of ours: {0}")]
    Foreign(&'static str),
}

impl TelemetryHeader {
    /// An empty header: what a source puts on a packet.
    pub fn new(profile: RecordProfile, capacity_hops: u8, edge: Edge) -> Self {
        let word = (profile == RecordProfile::Word).then(|| PathWord::asking(WordSignal::of(edge.seq)));
        let (namespace, records) = (profile.namespace(), Vec::new());
        let (edge, standard) = (Some(edge), None);
        Self { next_header: 6, namespace, profile, capacity_hops, overflow: false, records, word, edge, standard }
    }

    /// Octets that it takes on the wire, a multiple of eight.
    pub fn octets(&self) -> usize {
        let edge = self.edge.map_or(0, |edge| edge.octets());
        let standard = if self.standard.is_some() { edge::STANDARD } else { 0 };
        (FIXED + TRACE_HEADER + 4 * self.profile.words() * self.capacity() + standard + edge).next_multiple_of(8)
    }

    /// Hops with room: as many as it says, at least those that wrote, at most what fits.
    fn capacity(&self) -> usize {
        if self.profile == RecordProfile::Word {
            return 1;
        }
        usize::from(self.capacity_hops).max(self.records.len()).min(self.profile.max_hops())
    }

    /// The octets. Records beyond the room that there can be are left out, and the overflow flag says so.
    pub fn encode(&self) -> Vec<u8> {
        let (words, capacity) = (self.profile.words(), self.capacity());
        let records = &self.records[..self.records.len().min(capacity)];
        // The word is there from the start: a hop that does not know it finds no room.
        let used = if self.profile == RecordProfile::Word { 1 } else { records.len() };
        let overflow = self.overflow || records.len() < self.records.len();
        let octets = self.octets();
        let mut out = Vec::with_capacity(octets);
        out.extend_from_slice(&[self.next_header, (octets / 8 - 1) as u8, PADN, 0]);
        let data = 4 * words * capacity;
        out.extend_from_slice(&[TRACE_OPTION, (TRACE_HEADER - 2 + data) as u8, 0, PREALLOCATED]);
        out.extend_from_slice(&self.namespace.to_be_bytes());
        out.push((words as u8) << 3 | if overflow { OVERFLOW } else { 0 });
        out.push(((capacity - used) * words) as u8);
        out.extend_from_slice(&(self.profile.trace_type() << 8).to_be_bytes());
        // Hops fill the room from its end.
        out.resize(out.len() + 4 * words * (capacity - used), 0);
        if self.profile == RecordProfile::Word {
            let word = self.word.unwrap_or(PathWord::asking(WordSignal::Available));
            out.extend_from_slice(&word.to_bits().to_be_bytes());
        } else {
            records.iter().rev().for_each(|record| record.write(self.namespace, self.profile, &mut out));
        }
        if let Some(standard) = self.standard {
            standard.write(self.namespace, &mut out);
        }
        if let Some(edge) = self.edge {
            edge.write(&mut out);
        }
        match octets - out.len() {
            0 => {}
            1 => out.push(PAD1),
            pad => {
                out.extend_from_slice(&[PADN, (pad - 2) as u8]);
                out.resize(octets, 0);
            }
        }
        out
    }

    /// Reads the header in front of `bytes`, which begin behind the IPv6 header, and how many octets it takes.
    /// Options that are not telemetry, or of another version of it, are skipped.
    ///
    /// # Errors
    /// [`WireError`] when it is not a header, or not one of ours.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), WireError> {
        let have = bytes.len();
        let [next_header, length, ..] = *bytes else { return Err(WireError::Truncated { need: 8, have }) };
        let need = 8 * (usize::from(length) + 1);
        let header = bytes.get(..need).ok_or(WireError::Truncated { need, have })?;
        let (mut trace, mut edge, mut standard) = (None, None, None);
        let (mut at, mut options) = (2, 0);
        while at < need {
            let kind = header[at];
            if kind == PAD1 {
                at += 1;
                continue;
            }
            let broken = WireError::Option { kind, at };
            let size = usize::from(*header.get(at + 1).ok_or(broken)?);
            let body = header.get(at + 2..at + 2 + size).ok_or(broken)?;
            at += 2 + size;
            if kind == PADN {
                continue;
            }
            options += 1;
            if options > MAX_OPTIONS {
                return Err(WireError::Options);
            }
            let again = match (kind, body) {
                (TRACE_OPTION, [_, PREALLOCATED, body @ ..]) => trace.replace(Trace::read(body)?).is_some(),
                (STANDARD_OPTION, [_, EDGE_TO_EDGE, body @ ..]) => {
                    standard.replace(StandardEdge::read(body)?).is_some()
                }
                (EDGE_OPTION, body) => edge.replace(Edge::read(body)?).is_some(),
                _ => false,
            };
            if again {
                return Err(WireError::Twice(kind));
            }
        }
        let Trace { namespace, profile, capacity_hops, overflow, records, word } = trace.ok_or(WireError::NoTrace)?;
        Ok((Self { next_header, namespace, profile, capacity_hops, overflow, records, word, edge, standard }, need))
    }
}

/// The body of a trace option, behind its IOAM type.
struct Trace {
    namespace: u16,
    profile: RecordProfile,
    capacity_hops: u8,
    overflow: bool,
    records: Vec<NodeRecord>,
    word: Option<PathWord>,
}

impl Trace {
    fn read(body: &[u8]) -> Result<Self, WireError> {
        let what = "the length of the trace option";
        let Some((&[a, b, node, remaining, c, d, e, _], data)) = body.split_first_chunk() else {
            return Err(WireError::Length { what, value: body.len() + 2 });
        };
        let namespace = u16::from_be_bytes([a, b]);
        if !is_ours(namespace) {
            return Err(WireError::Namespace(namespace));
        }
        let trace_type = u32::from_be_bytes([0, c, d, e]);
        let profile = RecordProfile::of(trace_type, namespace).ok_or(WireError::TraceType(trace_type))?;
        let record = 4 * profile.words();
        if usize::from(node >> 3) != profile.words() {
            return Err(WireError::Length { what: "NodeLen", value: usize::from(node >> 3) });
        }
        if data.len() > MAX_TRACE || data.len() % record != 0 {
            return Err(WireError::Length { what, value: body.len() + 2 });
        }
        // The first bit of this octet is of the flags, and means nothing yet.
        let remaining = usize::from(remaining & 0x7f);
        let what = "RemainingLen";
        let used = match (4 * remaining).cmp(&data.len()) {
            Ordering::Greater => return Err(WireError::Length { what, value: remaining }),
            _ if 4 * remaining % record != 0 => return Err(WireError::Length { what, value: remaining }),
            _ => &data[4 * remaining..],
        };
        let capacity_hops = (data.len() / record) as u8;
        let overflow = node & OVERFLOW != 0;
        if profile == RecordProfile::Word {
            let (&[a, b, c, d], 0) = (data, remaining) else {
                return Err(WireError::Length { what, value: remaining });
            };
            let word = u32::from_be_bytes([a, b, c, d]);
            let word = Some(PathWord::from_bits(word).ok_or(WireError::Signal((word >> 24) as u8))?);
            return Ok(Self { namespace, profile, capacity_hops, overflow, records: Vec::new(), word });
        }
        let records =
            used.chunks_exact(record).rev().map(|words| NodeRecord::read(namespace, profile, words)).collect();
        Ok(Self { namespace, profile, capacity_hops, overflow, records, word: None })
    }
}

fn is_ours(namespace: u16) -> bool {
    matches!(namespace, NAMESPACE | WIDE_NAMESPACE)
}

/// Writes `record` into the header in front of `bytes`, as a transit hop does: only a header that begins as ours do, nothing is
/// moved. Where there is no room the overflow flag is set; a word is compared, and replaced.
///
/// # Errors
/// [`Refused`] when nothing was written.
pub fn push_record(bytes: &mut [u8], record: &NodeRecord) -> Result<(), Refused> {
    let [_, length, PADN, 0, TRACE_OPTION, option, _, PREALLOCATED, a, b, node, remaining, c, d, e, _, ..] = *bytes
    else {
        return Err(Refused::Foreign("no trace option at octet 4"));
    };
    let namespace = u16::from_be_bytes([a, b]);
    if !is_ours(namespace) {
        return Err(Refused::Foreign("the namespace is another"));
    }
    let profile = RecordProfile::of(u32::from_be_bytes([0, c, d, e]), namespace)
        .ok_or(Refused::Foreign("the trace type is not a profile's"))?;
    let words = profile.words();
    if usize::from(node >> 3) != words {
        return Err(Refused::Foreign("NodeLen is not the profile's"));
    }
    let header = 8 * (usize::from(length) + 1);
    let end = TRACE_AT + 2 + usize::from(option);
    let data = TRACE_AT + TRACE_HEADER;
    let left = usize::from(remaining & 0x7f);
    if end > header.min(bytes.len()) || data + 4 * left > end {
        return Err(Refused::Foreign("the lengths do not fit"));
    }
    if profile == RecordProfile::Word {
        let at = end - 4;
        let octets = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let word = PathWord::from_bits(u32::from_be_bytes(octets)).filter(|_| left == 0 && at == data);
        let mut word = word.ok_or(Refused::Foreign("the word is of no signal"))?;
        word.pass(record);
        bytes[at..end].copy_from_slice(&word.to_bits().to_be_bytes());
        return Ok(());
    }
    if left < words {
        bytes[TRACE_AT + 6] |= OVERFLOW;
        return Err(Refused::Full);
    }
    let mut written = Vec::with_capacity(4 * words);
    record.write(namespace, profile, &mut written);
    let at = data + 4 * (left - words);
    bytes[at..at + written.len()].copy_from_slice(&written);
    bytes[TRACE_AT + 7] -= words as u8;
    Ok(())
}
