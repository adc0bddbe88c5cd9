//! What the sending host says to the receiving one.

use super::{EDGE_OPTION, EDGE_TO_EDGE, STANDARD_OPTION, WireError};

/// The version of the option that this code speaks: the high four bits of its first octet.
pub(super) const VERSION: u8 = 1;
/// Octets of [`StandardEdge`] on the wire.
pub(super) const STANDARD: usize = 20;
/// Bodies of [`Edge`].
pub(super) const SHORT: usize = 14;
pub(super) const LONG: usize = 22;
/// Flags of the option.
const TCP_DATA: u8 = 8;
const LONG_FORM: u8 = 4;
const SEGMENTS: u8 = 2;
const SAMPLED: u8 = 1;
/// E2E-Type: 32-bit sequence, seconds and fraction (RFC 9197 section 4.6: bits 1, 2 and 3).
const STANDARD_TYPE: u16 = 0x7000;

/// The edge-to-edge option: the paper's, with a sequence number and a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Edge {
    /// Wire packets that this header stood for when it was put on: 1, or the segments of a buffer that is segmented later,
    /// all of which carry it. Saturates at 255.
    pub segs: u8,
    /// Number of the first of them within the flow: counts wire packets, from 0, and wraps.
    pub seq: u32,
    /// When, by the sending host's clock: the low 32 bits of its microseconds.
    pub sent_us: u32,
    /// The congestion window in packets; `None` where the source cannot read it.
    pub cwnd: Option<u32>,
    /// Not all packets of the flow have a header, and those without have numbers too.
    pub sampled: bool,
    /// The long form.
    pub long: Option<Long>,
}

/// What the long form of [`Edge`] adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Long {
    /// The flow's number, a keyed hash of its addresses and ports.
    pub flow: u32,
    /// Slow-start threshold in packets; 0xFFFF: that or more.
    pub ssthresh: u16,
    /// Smoothed RTT in units of 64 microseconds; 0xFFFF: 4.19 s or more.
    pub srtt_64us: u16,
}

impl Edge {
    /// Octets of the option.
    pub const fn octets(&self) -> usize {
        2 + if self.long.is_some() { LONG } else { SHORT }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.cwnd.is_some(), TCP_DATA)
            | flag(self.long.is_some(), LONG_FORM)
            | flag(self.segs > 1, SEGMENTS)
            | flag(self.sampled, SAMPLED);
        out.extend_from_slice(&[EDGE_OPTION, (self.octets() - 2) as u8, VERSION << 4 | flags, self.segs]);
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.sent_us.to_be_bytes());
        out.extend_from_slice(&self.cwnd.unwrap_or(u32::MAX).to_be_bytes());
        if let Some(Long { flow, ssthresh, srtt_64us }) = self.long {
            out.extend_from_slice(&flow.to_be_bytes());
            out.extend_from_slice(&ssthresh.to_be_bytes());
            out.extend_from_slice(&srtt_64us.to_be_bytes());
        }
    }

    pub(super) fn read(body: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::Length { what: "the length of the edge-to-edge option", value: body.len() };
        let first = *body.first().ok_or(wrong)?;
        if first >> 4 != VERSION {
            return Err(WireError::Version(first >> 4));
        }
        let (short, rest) = body.split_first_chunk::<SHORT>().ok_or(wrong)?;
        let [flags, segs, a, b, c, d, e, f, g, h, i, j, k, l] = *short;
        let long = match (flags & LONG_FORM != 0, rest) {
            (false, []) => None,
            (true, &[a, b, c, d, e, f, g, h]) => Some(Long {
                flow: u32::from_be_bytes([a, b, c, d]),
                ssthresh: u16::from_be_bytes([e, f]),
                srtt_64us: u16::from_be_bytes([g, h]),
            }),
            _ => return Err(wrong),
        };
        let cwnd = (flags & TCP_DATA != 0).then(|| u32::from_be_bytes([i, j, k, l]));
        let (seq, sent_us) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        Ok(Self { segs: segs.max(1), seq, sent_us, cwnd, sampled: flags & SAMPLED != 0, long })
    }
}

/// Sequence and time in the form of RFC 9197 section 4.6, for collectors that know only that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StandardEdge {
    /// As [`Edge::seq`].
    pub seq: u32,
    /// When: seconds.
    pub seconds: u32,
    /// When: microseconds of the second, as Linux writes them.
    pub micros: u32,
}

impl StandardEdge {
    pub(super) fn write(&self, namespace: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&[STANDARD_OPTION, (STANDARD - 2) as u8, 0, EDGE_TO_EDGE]);
        out.extend_from_slice(&namespace.to_be_bytes());
        out.extend_from_slice(&STANDARD_TYPE.to_be_bytes());
        for word in [self.seq, self.seconds, self.micros] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads the body behind its IOAM type.
    pub(super) fn read(body: &[u8]) -> Result<Self, WireError> {
        let &[a, b, c, d, ref words @ ..] = body else {
            return Err(WireError::Length {
                what: "the length of the RFC 9197 edge-to-edge option",
                value: body.len(),
            });
        };
        let namespace = u16::from_be_bytes([a, b]);
        if !super::is_ours(namespace) {
            return Err(WireError::Namespace(namespace));
        }
        let kind = u16::from_be_bytes([c, d]);
        match (kind, words) {
            (STANDARD_TYPE, &[a, b, c, d, e, f, g, h, i, j, k, l]) => Ok(Self {
                seq: u32::from_be_bytes([a, b, c, d]),
                seconds: u32::from_be_bytes([e, f, g, h]),
                micros: u32::from_be_bytes([i, j, k, l]),
            }),
            _ => Err(WireError::Length { what: "the E2E-Type", value: usize::from(kind) }),
        }
    }
}
