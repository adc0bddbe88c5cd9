//! What datagrams look like. `docs/design/udp-wire.md` says it field by field.
//!
//! Numbers are big-endian. Positions, instants and packet numbers take 48 bits: 256 TiB, 78 hours, 2^48 packets, after
//! which a session must end. A data packet's header is 24 bytes, so that over IPv4 and without a key 1448 bytes of
//! payload make 1500, as TCP's do.
//!
//! Reading is total: any bytes are a packet or a [`MalformedPacket`]. What is read is written as it was, byte by byte, so a packet
//! has one form.

mod codec;
pub mod control;
#[cfg(test)]
mod tests;

use paceline_cc::{Ecn, MAX_FEEDBACK, Time};
use paceline_transport::{AckSegment, ArrivalTime, MAX_ARRIVALS, MAX_SACKS, Range, Segment};

use codec::{Reader, put_u48};

/// The version that this code speaks: the high four bits of each datagram.
pub const VERSION: u8 = 1;
/// Bytes in front of every packet: version and kind, flags, session, packet number.
pub const HEADER: usize = 12;
/// Bytes in front of a data packet's payload, when the controller has no note.
pub const DATA_HEADER: usize = HEADER + 12;
/// What a controller's note adds to them.
pub const NOTE: usize = 8;
/// Numbers on the wire are below this.
pub const LIMIT: u64 = 1 << 48;

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedPacket {
    /// It ends within a field.
    #[error("the packet ends within a field")]
    Short,
    /// It goes on after the last field.
    #[error("the packet goes on after its last field")]
    Long,
    /// Another version.
    #[error("it is of version {0}, this is version {VERSION}; run the same paceline at both ends")]
    Version(u8),
    /// No known kind.
    #[error("no packet is of kind {0}")]
    Kind(u8),
    /// Flags that mean nothing.
    #[error("the flags {0:#04x} mean nothing in this packet")]
    Flags(u8),
    /// A field out of its range.
    #[error("{0} is out of range")]
    Value(&'static str),
}

/// A number that does not fit into 48 bits: the session has lasted too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session ends after 78 hours or 256 TiB; begin another")]
pub struct Beyond;

/// Kinds of packets: the low four bits of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum PacketKind {
    /// The client asks for a session.
    Hello = 1,
    /// The server asks it to prove its address.
    Challenge = 2,
    /// The server takes the session on.
    Welcome = 3,
    /// Payload of the sender.
    Data = 4,
    /// What the receiver saw.
    Ack = 5,
    /// The end, with its reason.
    Close = 6,
    /// The server will not take the session on.
    Refuse = 7,
}

/// The first twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// What follows.
    pub kind: PacketKind,
    /// What they mean depends on the kind.
    pub flags: u8,
    /// Which session: drawn at random by the server; 0 before there is one.
    pub session: u32,
    /// Counts the packets of one direction, never twice the same.
    pub number: u64,
}

impl PacketHeader {
    /// Reads the header in front of `bytes`.
    ///
    /// # Errors
    /// [`MalformedPacket`] when there is none, or one of another version or of no known kind.
    pub fn read(bytes: &[u8]) -> Result<Self, MalformedPacket> {
        let mut reader = Reader::new(bytes);
        let first = reader.u8()?;
        if first >> 4 != VERSION {
            return Err(MalformedPacket::Version(first >> 4));
        }
        Ok(Self {
            kind: PacketKind::from_repr(first & 15).ok_or(MalformedPacket::Kind(first & 15))?,
            flags: reader.u8()?,
            session: reader.u32()?,
            number: reader.u48()?,
        })
    }

    /// Appends it to `out`.
    ///
    /// # Errors
    /// [`Beyond`] when the packet number has run out.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Beyond> {
        out.push(VERSION << 4 | self.kind as u8);
        out.push(self.flags);
        out.extend_from_slice(&self.session.to_be_bytes());
        put_u48(out, self.number)
    }
}

mod data {
    pub(super) const RETRANSMISSION: u8 = 1;
    pub(super) const SYN: u8 = 2;
    pub(super) const CWR: u8 = 4;
    pub(super) const ECN_SHIFT: u8 = 3;
    pub(super) const NOTE: u8 = 32;
    pub(super) const ALL: u8 = 63;
}

mod ack {
    pub(super) const SYN: u8 = 1;
    pub(super) const ECE: u8 = 2;
    pub(super) const MARKS: u8 = 4;
    pub(super) const DUPLICATE: u8 = 8;
    pub(super) const FEEDBACK: u8 = 16;
    pub(super) const ARRIVALS: u8 = 32;
    pub(super) const SACKS_SHIFT: u8 = 6;
}

/// The flags of a data packet.
pub fn data_flags(segment: &Segment) -> u8 {
    let ecn = match segment.ecn {
        Ecn::Off => 0,
        Ecn::Classic => 1,
        Ecn::Exact => 2,
        Ecn::L4s => 3,
    };
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    flag(segment.retransmission, data::RETRANSMISSION)
        | flag(segment.syn, data::SYN)
        | flag(segment.cwr, data::CWR)
        | ecn << data::ECN_SHIFT
        | flag(segment.note != 0, data::NOTE)
}

/// Appends what comes between header and payload.
///
/// # Errors
/// [`Beyond`] when position or time have run out.
pub fn write_data(out: &mut Vec<u8>, segment: &Segment) -> Result<(), Beyond> {
    put_u48(out, segment.seq)?;
    put_u48(out, segment.sent_at.as_nanos())?;
    if segment.note != 0 {
        out.extend_from_slice(&segment.note.to_be_bytes());
    }
    Ok(())
}

/// Reads a data packet's segment and its payload from what comes after the header.
///
/// # Errors
/// [`MalformedPacket`] when the packet is.
pub fn read_data(flags: u8, body: &[u8]) -> Result<(Segment, &[u8]), MalformedPacket> {
    if flags & !data::ALL != 0 {
        return Err(MalformedPacket::Flags(flags));
    }
    let mut reader = Reader::new(body);
    let seq = reader.u48()?;
    let sent_at = Time::from_nanos(reader.u48()?);
    let note = if flags & data::NOTE != 0 { reader.u64()? } else { 0 };
    if flags & data::NOTE != 0 && note == 0 {
        return Err(MalformedPacket::Value("a note"));
    }
    let payload = reader.rest();
    let syn = flags & data::SYN != 0;
    if syn && !payload.is_empty() {
        return Err(MalformedPacket::Long);
    }
    let segment = Segment {
        seq,
        bytes: u32::try_from(payload.len()).map_err(|_| MalformedPacket::Long)?,
        sent_at,
        retransmission: flags & data::RETRANSMISSION != 0,
        syn,
        cwr: flags & data::CWR != 0,
        ecn: match flags >> data::ECN_SHIFT & 3 {
            0 => Ecn::Off,
            1 => Ecn::Classic,
            2 => Ecn::Exact,
            _ => Ecn::L4s,
        },
        note,
    };
    Ok((segment, payload))
}

/// The flags of an acknowledgement.
pub fn ack_flags(segment: &AckSegment) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    flag(segment.syn, ack::SYN)
        | flag(segment.ece, ack::ECE)
        | flag(segment.ce_packets > 0, ack::MARKS)
        | flag(segment.duplicate.is_some(), ack::DUPLICATE)
        | flag(segment.feedback.is_some(), ack::FEEDBACK)
        | flag(segment.arrivals.is_some(), ack::ARRIVALS)
        | (segment.sack_count.min(MAX_SACKS as u8)) << ack::SACKS_SHIFT
}

/// Appends an acknowledgement. Arrivals further from `cumulative` than 2 GiB or more than 4.2 s before `received_at` are
/// left out: no sender waits for them.
///
/// # Errors
/// [`Beyond`] when a position or time has run out.
pub fn write_ack(out: &mut Vec<u8>, segment: &AckSegment) -> Result<(), Beyond> {
    put_u48(out, segment.cumulative)?;
    put_u48(out, segment.echo_sent_at.as_nanos())?;
    put_u48(out, segment.received_at.as_nanos())?;
    if segment.ce_packets > 0 {
        put_u48(out, segment.ce_bytes)?;
        put_u48(out, segment.ce_packets)?;
    }
    for range in segment.sacks().iter().chain(&segment.duplicate) {
        put_u48(out, range.start)?;
        put_u48(out, range.end)?;
    }
    if let Some(blob) = &segment.feedback {
        let blob = &blob[..blob.len().min(MAX_FEEDBACK)];
        out.push(blob.len() as u8);
        out.extend_from_slice(blob);
    }
    if let Some(arrivals) = &segment.arrivals {
        let count_at = out.len();
        out.push(0);
        for arrival in arrivals.iter().take(MAX_ARRIVALS) {
            let Some(offset) = offset(arrival.seq, segment.cumulative) else { continue };
            let Ok(before) = u32::try_from(segment.received_at.since(arrival.at).as_nanos()) else { continue };
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&before.to_be_bytes());
            out[count_at] += 1;
        }
    }
    Ok(())
}

fn offset(seq: u64, from: u64) -> Option<i32> {
    i32::try_from(i64::try_from(seq).ok()? - i64::try_from(from).ok()?).ok()
}

/// Reads an acknowledgement from what comes after the header.
///
/// # Errors
/// [`MalformedPacket`] when the packet is.
pub fn read_ack(flags: u8, body: &[u8]) -> Result<AckSegment, MalformedPacket> {
    let mut reader = Reader::new(body);
    let cumulative = reader.u48()?;
    let echo_sent_at = Time::from_nanos(reader.u48()?);
    let received_at = Time::from_nanos(reader.u48()?);
    let (ce_bytes, ce_packets) = if flags & ack::MARKS != 0 { (reader.u48()?, reader.u48()?) } else { (0, 0) };
    if flags & ack::MARKS != 0 && ce_packets == 0 {
        return Err(MalformedPacket::Value("a count of marks"));
    }
    let sack_count = flags >> ack::SACKS_SHIFT;
    let mut sacks = [Range::default(); MAX_SACKS];
    for sack in sacks.iter_mut().take(usize::from(sack_count)) {
        *sack = range(&mut reader)?;
    }
    let duplicate = if flags & ack::DUPLICATE != 0 { Some(range(&mut reader)?) } else { None };
    let feedback = if flags & ack::FEEDBACK != 0 {
        let length = usize::from(reader.u8()?);
        if length > MAX_FEEDBACK {
            return Err(MalformedPacket::Value("the length of the feedback"));
        }
        Some(reader.bytes(length)?.into())
    } else {
        None
    };
    let arrivals = if flags & ack::ARRIVALS != 0 {
        let count = usize::from(reader.u8()?);
        if count > MAX_ARRIVALS {
            return Err(MalformedPacket::Value("the number of arrivals"));
        }
        let arrival = |_| arrival(&mut reader, cumulative, received_at);
        Some((0..count).map(arrival).collect::<Result<Box<[_]>, _>>()?)
    } else {
        None
    };
    reader.end()?;
    Ok(AckSegment {
        cumulative,
        sacks,
        sack_count,
        duplicate,
        syn: flags & ack::SYN != 0,
        echo_sent_at,
        received_at,
        ece: flags & ack::ECE != 0,
        ce_bytes,
        ce_packets,
        arrivals,
        feedback,
    })
}

fn range(reader: &mut Reader<'_>) -> Result<Range, MalformedPacket> {
    let range = Range { start: reader.u48()?, end: reader.u48()? };
    if range.start < range.end { Ok(range) } else { Err(MalformedPacket::Value("a range")) }
}

fn arrival(reader: &mut Reader<'_>, cumulative: u64, received_at: Time) -> Result<ArrivalTime, MalformedPacket> {
    let offset = i64::from(reader.u32()? as i32);
    let before = u64::from(reader.u32()?);
    let seq = cumulative.checked_add_signed(offset).ok_or(MalformedPacket::Value("an arrival's position"))?;
    let at = received_at.as_nanos().checked_sub(before).ok_or(MalformedPacket::Value("an arrival's time"))?;
    Ok(ArrivalTime { seq, at: Time::from_nanos(at) })
}
