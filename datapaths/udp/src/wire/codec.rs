//! Fields of packets, read without trust.

use super::{Beyond, LIMIT, MalformedPacket};

/// Reads fields one after the other.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], MalformedPacket> {
        let (field, rest) = self.bytes.split_at_checked(count).ok_or(MalformedPacket::Short)?;
        self.bytes = rest;
        Ok(field)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedPacket> {
        let (field, rest) = self.bytes.split_first_chunk().ok_or(MalformedPacket::Short)?;
        self.bytes = rest;
        Ok(*field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, MalformedPacket> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, MalformedPacket> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, MalformedPacket> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u48(&mut self) -> Result<u64, MalformedPacket> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    pub(super) fn u64(&mut self) -> Result<u64, MalformedPacket> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn end(self) -> Result<(), MalformedPacket> {
        if self.bytes.is_empty() { Ok(()) } else { Err(MalformedPacket::Long) }
    }
}

pub(super) fn put_u48(out: &mut Vec<u8>, value: u64) -> Result<(), Beyond> {
    if value >= LIMIT {
        return Err(Beyond);
    }
    out.extend_from_slice(&value.to_be_bytes()[2..]);
    Ok(())
}
