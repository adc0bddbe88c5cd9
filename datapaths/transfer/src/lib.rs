//! Uploads and downloads over framed connections above TCP: a server that keeps files and gives them, and a client of it.
//!
//! [`paceline_alcc::transfer`] is what both ends say to each other; here are sockets, files, threads and TLS. An upload is gone on with where
//! it stopped, appears when it is whole and its hash equal, and needs a token where the server has a key. `docs/guide/upload.md` says how to
//! use it by the command, `examples/` from a program.
//!
//! On systems other than Linux this crate is empty.
#![cfg(target_os = "linux")]

mod channel;
pub mod client;
mod hash;
pub mod server;
pub mod tls;

use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};

pub use channel::ChannelError;
pub use client::{ClientError, Exchanged, Remote, TransferObserver};
pub use server::{SessionError, UploadEvent, UploadOptions, UploadOutcome, UploadServeError, UploadServer};

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

/// Bytes that no one can guess, such as those of a key.
///
/// # Errors
/// [`NoRandom`].
pub fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}

/// Seconds since 1970, by which tokens expire.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
