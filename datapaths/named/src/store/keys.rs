//! Keys of publishers.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use paceline_files::secret;
use ring::rand::{SecureRandom, SystemRandom};

use super::error::{StoreError, cannot, write_failed};

/// Bytes of a key's file at most (our choice: the longest has 85).
const LONGEST: u64 = 4096;

/// Reads a publisher's key: PKCS#8 in DER, with or without its public half (RFC 8410, RFC 5958).
///
/// # Errors
/// When the file cannot be read, others than its owner may read it, or it holds no such key.
pub fn read_key(path: &Path) -> Result<SigningKey, StoreError> {
    let read = || {
        let (file, mut bytes) = (File::open(path)?, Vec::new());
        secret::check(&file, path)?;
        file.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| cannot("used", path, error))?;
    SigningKey::from_pkcs8_der(&bytes).map_err(|_| StoreError::Key { path: path.to_owned() })
}

/// Makes a new key, writes it to a file that only its owner may read, and reads it. A file that is there stays as it is.
///
/// # Errors
/// When there is a file already, or it cannot be written.
pub fn create_key(path: &Path) -> Result<SigningKey, StoreError> {
    let cannot = |what: &'static str| cannot("made", path, io::Error::other(what));
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| cannot("the system has no random bytes"))?;
    let key = SigningKey::from_bytes(&seed).to_pkcs8_der().map_err(|_| cannot("the key has no PKCS#8 form"))?;
    secret::create(path, key.as_bytes()).map_err(|error| write_failed(path, error))?;
    read_key(path)
}
