//! A link that loses packets at random, for experiments: in place of a radio.

use std::os::fd::AsFd;

use crate::attach::{Attached, Place, Side, attach};
use crate::counters::counters;
use crate::interface::Interface;
use crate::load::{load, missing, refused, words};
use crate::{NodeError, RadioLink, TransitNode};

use libbpf_rs::{MapCore, Object};

const ROLE: &str = "lossy link";
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lossy.bpf.o"));

counters! {
    /// What a lossy link has counted, in packets on the wire.
    LossyCounters {
        /// Packets that passed.
        passed,
        /// Packets that were lost.
        lost,
    }
}

/// What arrives at an interface is lost at random, each buffer by itself. Dropping it ends that, as the end of the process does.
pub struct LossyLink {
    _attached: Attached,
    object: Object,
}

impl LossyLink {
    /// Begins at an interface of the calling thread's network namespace: with this share lost, from 0 to 1. What is lost is counted as
    /// the link's losses by `hop`, the hop in front of the link.
    ///
    /// It loses what a sink at the same interface does not see, whichever began first.
    ///
    /// # Errors
    /// One line: the process is not root, there is no such interface, or the share cannot be.
    pub fn open(interface: &str, share: f64, hop: Option<&TransitNode>) -> Result<Self, NodeError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(NodeError::Option { option: "loss", reason: format!("{share} is not a share; take 0 to 1") });
        }
        let interface = Interface::find(interface)?;
        let config = words(&[(share * f64::from(u32::MAX)) as u32]);
        if let Some(hop) = hop {
            let radio = RadioLink { lost: Some(0), ..RadioLink::default() };
            hop.set_radio(&radio).map_err(|source| refused(ROLE, source))?;
        }
        let radio = hop.map(TransitNode::radio_map).transpose().map_err(|source| refused(ROLE, source))?;
        let mut object = load(ROLE, OBJECT, &config, |object| match &radio {
            None => Ok(()),
            Some(radio) => {
                let mut map = object.maps_mut().find(|map| map.name() == radio.name()).ok_or_else(missing)?;
                map.reuse_fd(radio.as_fd())
            }
        })?;
        let attached = attach(ROLE, &mut object, "pl_int_lossy", &interface, (Side::Ingress, Place::First), None)?;
        Ok(Self { _attached: attached, object })
    }

    /// What it has counted.
    pub fn counters(&self) -> LossyCounters {
        LossyCounters::read(&self.object)
    }
}
