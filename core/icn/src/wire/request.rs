//! Requests as bytes.

use super::{AddressToken, BadMessage, BadRanges, Kind, MAX_MESSAGE, TOKEN_BYTES, UnitRequest, take};
use crate::name::{NAME_BYTES, Name};
use crate::ranges::{MAX_RANGES, Ranges, Units};

/// Options: those below 128 must be understood.
const PADDING: u8 = 0;
const TOKEN: u8 = 1;
const MAY_BE_SKIPPED: u8 = 128;

/// Bytes of an option's type and length.
const OPTION_HEAD: usize = 3;

fn option(kind: u8, length: usize) -> [u8; OPTION_HEAD] {
    let [high, low] = (length as u16).to_be_bytes();
    [kind, high, low]
}

impl UnitRequest {
    /// Appends the message to `message`.
    pub fn encode(&self, message: &mut Vec<u8>) {
        let start = message.len();
        let ranges = self.ranges.as_slice();
        message.extend_from_slice(&[Kind::Request.byte(), self.hops]);
        message.extend_from_slice(&self.nonce.to_be_bytes());
        message.extend_from_slice(&self.name.to_bytes());
        message.push(ranges.len() as u8);
        let mut end = None;
        for range in ranges {
            match end {
                None => message.extend_from_slice(&range.first.to_be_bytes()),
                Some(end) => message.extend_from_slice(&((range.first - end) as u32).to_be_bytes()),
            }
            message.extend_from_slice(&(range.count as u16).to_be_bytes());
            end = Some(range.end());
        }
        if let Some(AddressToken(token)) = &self.token {
            message.extend_from_slice(&option(TOKEN, TOKEN_BYTES));
            message.extend_from_slice(token);
        }
        let padded = self.padded.min(MAX_MESSAGE);
        let length = message.len() - start;
        if padded > length {
            let zeros = (padded - length).saturating_sub(OPTION_HEAD);
            message.extend_from_slice(&option(PADDING, zeros));
            message.resize(message.len() + zeros, 0);
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BadMessage`], with the first thing that is wrong.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, BadMessage> {
        let length = bytes.len();
        if length > MAX_MESSAGE {
            return Err(BadMessage::Long(length - MAX_MESSAGE));
        }
        let bytes = &mut bytes;
        let [kind, hops] = take(bytes, "head")?;
        if Kind::read(kind)? != Kind::Request {
            return Err(BadMessage::Kind(kind & 0xf));
        }
        let nonce = u64::from_be_bytes(take(bytes, "nonce")?);
        let name = Name::from_bytes(&take::<NAME_BYTES>(bytes, "name")?)?;
        let ranges = read_ranges(bytes)?;
        let (mut token, mut padded) = (None, 0);
        while !bytes.is_empty() {
            let [kind, high, low] = take(bytes, "option")?;
            let size = usize::from(u16::from_be_bytes([high, low]));
            let (value, rest) = bytes.split_at_checked(size).ok_or(BadMessage::Short {
                what: "option",
                wanted: size,
                left: bytes.len(),
            })?;
            *bytes = rest;
            match kind {
                PADDING if padded > 0 => return Err(BadMessage::Twice(kind)),
                PADDING if value.iter().any(|byte| *byte != 0) => return Err(BadMessage::Padding),
                PADDING => padded = length,
                TOKEN if token.is_some() => return Err(BadMessage::Twice(kind)),
                TOKEN => {
                    let value = value.try_into().map_err(|_| BadMessage::OptionLength { kind, length: size })?;
                    token = Some(AddressToken(value));
                }
                MAY_BE_SKIPPED.. => {}
                _ => return Err(BadMessage::Option(kind)),
            }
        }
        Ok(Self { nonce, name, ranges, token, hops, padded })
    }
}

fn read_ranges(bytes: &mut &[u8]) -> Result<Ranges, BadMessage> {
    let [used] = take(bytes, "number of ranges")?;
    let used = usize::from(used);
    let bad = |index, why| BadMessage::Ranges { index, why };
    if !(1..=MAX_RANGES).contains(&used) {
        return Err(bad(used, BadRanges::Number));
    }
    let first = u64::from_be_bytes(take(bytes, "first range")?);
    let count = u32::from(u16::from_be_bytes(take(bytes, "first range")?));
    let units = Units { first, count };
    let past_end = |units: &Units| units.first.checked_add(units.count.into()).is_none();
    let mut ranges =
        Ranges::new(units).ok_or_else(|| bad(0, if past_end(&units) { BadRanges::End } else { BadRanges::Units }))?;
    let mut end = units.end();
    for index in 1..used {
        let gap = u32::from_be_bytes(take(bytes, "range")?);
        let count = u32::from(u16::from_be_bytes(take(bytes, "range")?));
        if gap == 0 {
            return Err(bad(index, BadRanges::Touches));
        }
        let first = end.checked_add(gap.into()).ok_or_else(|| bad(index, BadRanges::End))?;
        let units = Units { first, count };
        if !ranges.push_units(units) {
            return Err(bad(index, if past_end(&units) { BadRanges::End } else { BadRanges::Units }));
        }
        end = units.end();
    }
    Ok(ranges)
}
