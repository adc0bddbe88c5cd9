//! What a signed name stands for at the moment.

use std::net::SocketAddr;

use futures_executor::block_on;
use paceline_icn::name::NameKind;
use paceline_icn::{Name, SignedRecord};

use super::reader::Said;
use super::requester::{self, Taker};
use super::{FetchError, Options};

/// The publisher's record of the signed name `name`: the one of the largest version that `sources` have, which holds now by the wall's clock
/// and is not older than version `known` (0: none was seen).
///
/// # Errors
/// [`FetchError`].
pub async fn record(
    name: &Name,
    sources: &[SocketAddr],
    known: u64,
    options: Options,
) -> Result<SignedRecord, FetchError> {
    let taker = Taker::Record { known };
    let (mut queue, _fetching) = requester::start(*name, sources, 0..u64::MAX, options, taker)?;
    match queue.recv().await {
        Some(Said::Record(record)) => Ok(*record),
        Some(Said::End(_, Err(error))) => Err(error),
        _ => Err(FetchError::Gone(*name)),
    }
}

/// As [`record`], for threads that are not of a runtime.
///
/// # Errors
/// [`FetchError`].
pub fn record_blocking(
    name: &Name,
    sources: &[SocketAddr],
    known: u64,
    options: Options,
) -> Result<SignedRecord, FetchError> {
    block_on(record(name, sources, known, options))
}

/// The object that `name` stands for: itself, or what the publisher's [`record`] names. A caller that asks again later should remember the
/// record's version, or an old record may be taken for the newest.
///
/// # Errors
/// [`FetchError`].
pub async fn target(name: &Name, sources: &[SocketAddr], options: Options) -> Result<Name, FetchError> {
    if name.kind() == NameKind::Object {
        return Ok(*name);
    }
    record(name, sources, 0, options).await.map(|record| record.target)
}

/// As [`target`], for threads that are not of a runtime.
///
/// # Errors
/// [`FetchError`].
pub fn target_blocking(name: &Name, sources: &[SocketAddr], options: Options) -> Result<Name, FetchError> {
    block_on(target(name, sources, options))
}
