//! In place of `filler.rs`, where this was built without eBPF.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use paceline_icn::{BucketMemory, Limits, Secrets};
use paceline_linux::clock::Clock;

use super::popular::Tell;
use super::{KernelStoreConfig, ServerError, Shared};
use crate::store::Store;

pub(super) struct Filler(Infallible);

#[expect(dead_code, reason = "as the other one")]
pub(super) struct Around {
    pub(super) listen: SocketAddr,
    pub(super) clock: Clock,
    pub(super) secrets: Secrets,
    pub(super) limits: Arc<Limits>,
    pub(super) store: Store,
    pub(super) shared: Arc<Shared>,
}

impl Filler {
    pub(super) const fn open(_: &KernelStoreConfig) -> Result<Self, ServerError> {
        Err(ServerError::NoKernelStore)
    }

    pub(super) fn buckets(&self) -> Arc<dyn BucketMemory> {
        match self.0 {}
    }

    pub(super) fn begin(self, _: Around) -> Result<(Tell, fn()), ServerError> {
        match self.0 {}
    }
}
