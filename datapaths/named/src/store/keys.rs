//! Keys of publishers.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;

use super::error::{StoreError, cannot, write_failed};

/// Reads a publisher's key: PKCS#8 in DER, with or without its public half (RFC 8410, RFC 5958).
///
/// # Errors
/// When the file cannot be read, or holds no such key.
pub fn read_key(path: &Path) -> Result<Ed25519KeyPair, StoreError> {
    let bytes = fs::read(path).map_err(|error| cannot("read", path, error))?;
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes).map_err(|_| StoreError::Key { path: path.to_owned() })
}

/// Makes a new key, writes it to a file that only its owner may read, and reads it. A file that is there stays as it is.
///
/// # Errors
/// When there is a file already, or it cannot be written.
pub fn create_key(path: &Path) -> Result<Ed25519KeyPair, StoreError> {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| cannot("made", path, io::Error::other("the system has no random bytes")))?;
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(key.as_ref()).and_then(|()| file.sync_all()).inspect_err(|_| _ = fs::remove_file(path))
    };
    write().map_err(|error| write_failed(path, error))?;
    read_key(path)
}
