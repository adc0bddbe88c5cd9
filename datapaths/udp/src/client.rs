//! What a client asks of a server of files.

use std::net::SocketAddr;

use paceline_cc::datapath::UDP;
use paceline_cc::{Ability, Misfit, Nanos, Spec};

use crate::seal::TAG;
use crate::transfer::{PlanError, TransferPlan, room};
use crate::wire::control::{Hello, SessionJob};

/// A transfer that a client wants.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which way, and of what.
    pub job: SessionJob,
    /// The sender's controller.
    pub controller: Spec,
    /// Largest packet on the path in bytes, IP header included.
    pub mtu: u16,
    /// Packets for one acknowledgement.
    pub ack_every: u8,
    /// How many bytes, where this end knows.
    pub bytes: Option<u64>,
    /// The file's name at the server; empty where it has none.
    pub name: String,
}

/// Why a transfer cannot be asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OrderError {
    /// The controller needs what UDP lacks.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The other end is to send by a model of a file of this end.
    #[error("the other end sends, and has no such file; name a model that comes with paceline")]
    LocalModel,
    /// Packets of no sensible size.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Order {
    /// How to ask `peer`, with a key (`sealed`) or without, and how both ends then speak.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn hello(&self, peer: SocketAddr, sealed: bool, patience: Nanos) -> Result<(Hello, TransferPlan), OrderError> {
        let spec = &self.controller;
        UDP.carries(spec)?;
        let overhead = if sealed { TAG } else { 0 };
        let mss = room(self.mtu, peer.is_ipv4(), overhead, spec.needs(Ability::ReceiverHalf));
        // A receiver needs no more than the name of a controller without a receiver half.
        let receives = matches!(self.job, SessionJob::Discard | SessionJob::Store);
        if spec.is_local() && !receives {
            return Err(OrderError::LocalModel);
        }
        let controller = if spec.is_local() { spec.entry().name.to_owned() } else { spec.to_string() };
        let hello = Hello {
            random: [0; 16],
            cookie: None,
            job: self.job,
            mss,
            // They cost nine bytes a packet; chirps cannot do without.
            arrivals: true,
            ack_every: self.ack_every,
            bytes: self.bytes,
            controller,
            name: self.name.clone(),
        };
        let plan = TransferPlan { controller: spec.clone(), ..TransferPlan::of(&hello, patience)? };
        Ok((hello, plan))
    }
}
