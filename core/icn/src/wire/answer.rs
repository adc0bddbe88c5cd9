//! Answers as bytes.

use super::{
    AddressToken, BadMessage, Grant, Kind, MissingReason, Nack, UnitAnswer, UnitHead, from_micros, micros, take,
};
use crate::UNIT;
use crate::ranges::Units;

/// Bytes before a unit in its message. The same for all, so that segments of one size leave together.
pub const DATA_HEAD: usize = 30;

/// Flag of a unit: the router's storage limits it.
const APP_LIMITED: u8 = 1;

/// Bytes of a refusal.
pub(crate) const NACK_BYTES: usize = 26;

/// Bytes of a message that grants a token.
pub(crate) const GRANT_BYTES: usize = 34;

impl UnitHead {
    /// What stands before the unit's bytes. A number of stored units of zero is written as unknown, since there is always one.
    pub fn encode_head(&self) -> [u8; DATA_HEAD] {
        let mut head = [0; DATA_HEAD];
        head[0] = Kind::Data.byte();
        head[1] = if self.app_limited { APP_LIMITED } else { 0 };
        head[2..10].copy_from_slice(&self.nonce.to_be_bytes());
        head[10..18].copy_from_slice(&self.unit.to_be_bytes());
        head[18..26].copy_from_slice(&self.stored_units.unwrap_or(0).to_be_bytes());
        head[26..30].copy_from_slice(&micros(self.waited));
        head
    }
}

impl Nack {
    /// Appends the message to `message`.
    pub fn encode(&self, message: &mut Vec<u8>) {
        message.reserve(NACK_BYTES);
        message.extend_from_slice(&[Kind::Nack.byte(), self.reason as u8]);
        message.extend_from_slice(&self.nonce.to_be_bytes());
        message.extend_from_slice(&self.units.first.to_be_bytes());
        message.extend_from_slice(&self.units.count.to_be_bytes());
        message.extend_from_slice(&micros(self.retry_after));
    }
}

impl MissingReason {
    const ALL: [Self; 6] = [Self::NotFound, Self::End, Self::Busy, Self::NoToken, Self::Changed, Self::Loop];

    fn read(byte: u8) -> Result<Self, BadMessage> {
        Self::ALL.into_iter().find(|known| *known as u8 == byte).ok_or(BadMessage::Reason(byte))
    }
}

impl Grant {
    /// Appends the message to `message`.
    pub fn encode(&self, message: &mut Vec<u8>) {
        message.reserve(GRANT_BYTES);
        message.extend_from_slice(&[Kind::Grant.byte(), 0]);
        message.extend_from_slice(&self.nonce.to_be_bytes());
        message.extend_from_slice(&self.token.0);
    }
}

impl<'a> UnitAnswer<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`BadMessage`], with the first thing that is wrong.
    #[inline]
    pub fn decode(mut message: &'a [u8]) -> Result<Self, BadMessage> {
        let bytes = &mut message;
        let [first, second] = take(bytes, "head")?;
        let kind = Kind::read(first)?;
        if kind == Kind::Request {
            return Err(BadMessage::Kind(first & 0xf));
        }
        let nonce = u64::from_be_bytes(take(bytes, "nonce")?);
        let answer = match kind {
            Kind::Data => {
                if second & !APP_LIMITED != 0 {
                    return Err(BadMessage::Flags(second));
                }
                let unit = u64::from_be_bytes(take(bytes, "number of the unit")?);
                let stored_units = u64::from_be_bytes(take(bytes, "stored units")?);
                let waited = from_micros(take(bytes, "time at the router")?);
                if bytes.is_empty() {
                    return Err(BadMessage::Empty);
                }
                if bytes.len() > UNIT {
                    return Err(BadMessage::Long(bytes.len() - UNIT));
                }
                let stored_units = (stored_units > 0).then_some(stored_units);
                let app_limited = second == APP_LIMITED;
                return Ok(Self::Data(UnitHead { nonce, unit, stored_units, waited, app_limited }, bytes));
            }
            Kind::Nack => {
                let reason = MissingReason::read(second)?;
                let first = u64::from_be_bytes(take(bytes, "units")?);
                let count = u32::from_be_bytes(take(bytes, "units")?);
                let retry_after = from_micros(take(bytes, "time to wait")?);
                if count == 0 {
                    return Err(BadMessage::Empty);
                }
                Self::Nack(Nack { nonce, units: Units { first, count }, reason, retry_after })
            }
            Kind::Grant | Kind::Request => {
                if second != 0 {
                    return Err(BadMessage::Flags(second));
                }
                Self::Grant(Grant { nonce, token: AddressToken(take(bytes, "token")?) })
            }
        };
        if bytes.is_empty() { Ok(answer) } else { Err(BadMessage::Long(bytes.len())) }
    }
}
