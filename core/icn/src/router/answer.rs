//! Refusals and tokens, within what an address may get.

use std::net::SocketAddr;

use paceline_cc::Nanos;

use crate::UNIT;
use crate::ranges::Units;
use crate::wire::{AddressToken, DATA_HEAD, GRANT_BYTES, Grant, MissingReason, NACK_BYTES, Nack};

/// The answers to one request that leave at once.
pub(super) struct Answers<'a> {
    pub(super) to: SocketAddr,
    pub(super) nonce: u64,
    /// Bytes that may still go there.
    pub(super) room: usize,
    pub(super) message: &'a mut Vec<u8>,
    pub(super) reply: &'a mut dyn FnMut(SocketAddr, &[u8]),
}

impl Answers<'_> {
    /// Bytes of a token and a refusal.
    pub(super) const TOKEN_AND_REFUSAL: usize = GRANT_BYTES + NACK_BYTES;

    pub(super) fn grant(&mut self, token: AddressToken) -> bool {
        self.message.clear();
        Grant { nonce: self.nonce, token }.encode(self.message);
        self.leave()
    }

    pub(super) fn refuse(&mut self, units: Units, reason: MissingReason, retry_after: Nanos) {
        self.message.clear();
        Nack { nonce: self.nonce, units, reason, retry_after }.encode(self.message);
        self.leave();
    }

    /// How many units may go there besides a refusal of the others.
    pub(super) fn room_for_units(&self) -> usize {
        self.room.saturating_sub(NACK_BYTES) / (DATA_HEAD + UNIT)
    }

    fn leave(&mut self) -> bool {
        let fits = self.message.len() <= self.room;
        if fits {
            self.room = self.room.saturating_sub(self.message.len());
            (self.reply)(self.to, self.message);
        }
        fits
    }
}
