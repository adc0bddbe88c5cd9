//! What a signed name stands for at the moment.

use std::net::SocketAddr;

use paceline_icn::Name;
use paceline_icn::name::Kind;

use super::reader::{Opening, Said};
use super::requester::{self, Taker};
use super::{FetchError, Options};

/// The object that `name` stands for: itself, or what the publisher's record names, asked of `sources`. The record is one that holds
/// now, by the wall's clock.
///
/// # Errors
/// [`FetchError`].
pub async fn target(name: &Name, sources: &[SocketAddr], options: Options) -> Result<Name, FetchError> {
    if name.kind() == Kind::Object {
        return Ok(*name);
    }
    let (mut queue, back) = requester::start(*name, sources, 0..u64::MAX, options, Taker::Reader)?;
    let _opening = Opening(Some(back));
    of(name, queue.recv().await)
}

/// As [`target`], for threads that are not of a runtime.
///
/// # Errors
/// [`FetchError`].
///
/// # Panics
/// Within an asynchronous runtime.
pub fn target_blocking(name: &Name, sources: &[SocketAddr], options: Options) -> Result<Name, FetchError> {
    if name.kind() == Kind::Object {
        return Ok(*name);
    }
    let (mut queue, back) = requester::start(*name, sources, 0..u64::MAX, options, Taker::Reader)?;
    let _opening = Opening(Some(back));
    of(name, queue.blocking_recv())
}

fn of(name: &Name, said: Option<Said>) -> Result<Name, FetchError> {
    match said {
        Some(Said::Target(target)) => Ok(target),
        Some(Said::End(_, Err(error))) => Err(error),
        _ => Err(FetchError::Gone(*name)),
    }
}
