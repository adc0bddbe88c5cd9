//! What is known of one source.

use paceline_cc::{Controller, Nanos, Time};

use super::SourceStats;
use crate::flow::RequestFlow;
use crate::ranges::MAX_UNITS;
use crate::wire::AddressToken;

/// Units that a router sends to an address that has not proved itself: this many fit into three times [`crate::wire::PADDED`].
const UNPROVED: u32 = 2;

/// What the router is thought to want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// A token, which it grants when it is asked by a padded request: one at a time.
    Wanted,
    /// No more than what it got.
    Given,
}

pub(super) struct Source {
    pub(super) flow: RequestFlow,
    pub(super) nonce: u64,
    pub(super) alive: bool,
    /// It has answered. Until then it may be dead.
    pub(super) heard: bool,
    /// It has said which record of a signed name it has.
    pub(super) said: bool,
    pub(super) proof: Proof,
    pub(super) token: Option<AddressToken>,
    /// A token came since one was last refused.
    granted: bool,
    pub(super) corrupt: u64,
    pub(super) waited: Nanos,
    /// Expiries of its timer that were seen.
    pub(super) timeouts: u64,
}

impl Source {
    pub(super) fn new(flow: RequestFlow, nonce: u64) -> Self {
        let mut source = Self {
            flow,
            nonce,
            alive: true,
            heard: false,
            said: false,
            proof: Proof::Wanted,
            token: None,
            granted: false,
            corrupt: 0,
            waited: Nanos::ZERO,
            timeouts: 0,
        };
        source.want_proof();
        source
    }

    fn want_proof(&mut self) {
        self.token = None;
        self.proof = Proof::Wanted;
        self.flow.set_largest_request(UNPROVED);
    }

    fn proved(&mut self) {
        self.proof = Proof::Given;
        self.flow.set_largest_request(MAX_UNITS);
    }

    pub(super) fn moved(&mut self, now: Time, controller: Box<dyn Controller>) {
        self.flow.moved(now, controller);
        self.heard = false;
        self.want_proof();
    }

    /// It may be asked: its address is proved, or nothing is on its way that might prove it.
    pub(super) fn is_ready(&self) -> bool {
        self.alive && !self.said && (self.proof == Proof::Given || self.flow.in_flight() == 0)
    }

    /// Something came from it over this path.
    pub(super) fn answered(&mut self) {
        self.heard = true;
    }

    /// It granted a token.
    pub(super) fn grant(&mut self, token: AddressToken) {
        self.token = Some(token);
        self.granted = true;
        self.proved();
    }

    /// It sent a unit: it wants nothing, or not yet.
    pub(super) fn served(&mut self) {
        if self.proof == Proof::Wanted {
            self.proved();
        }
    }

    /// It wants a token: the one that came since it said so last, or a new one.
    pub(super) fn refused(&mut self) {
        if !std::mem::take(&mut self.granted) {
            self.want_proof();
        }
    }

    pub(super) fn stats(&self) -> SourceStats {
        SourceStats {
            alive: self.alive,
            flow: self.flow.stats(),
            requests: self.flow.requests(),
            corrupt: self.corrupt,
            waited: self.waited,
            srtt: self.flow.srtt(),
        }
    }
}
