//! The keys of publishers: one each, in a file of its own, the same at both ends.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use paceline_files::{followed, secret};
use ring::hmac;
use ring::rand::SecureRandom;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Bytes of a key: as many as the hash has (RFC 2104 section 3).
const KEY_BYTES: usize = 32;
/// The most characters of a name. Our choice: a host's name fits, and a subject stays short.
const NAME_MAX: usize = 63;
/// The most bytes of a key's file. Our choice: four times what it needs.
const FILE_MAX: u64 = 512;
/// What the name of a key's file ends in.
const ENDING: &str = "key";

/// What a publisher may say. Its key's file names its roles, in lower case, and so do subjects.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum PublisherRole {
    /// Reports of flows.
    Sink,
    /// Reports of hops.
    Hop,
    /// What sources are to do.
    Controller,
    /// Nothing but a sign of life: the sender's agent.
    Agent,
}

/// Whether a text can name a publisher, a host or a domain: letters, digits, `-` and `_`, at most 63.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAME_MAX).contains(&text.len()) && text.chars().all(fits)
}

/// A publisher's key.
#[derive(Clone)]
pub struct PublisherKey {
    roles: Vec<PublisherRole>,
    secret: hmac::Key,
}

impl fmt::Debug for PublisherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// Why keys could not be had, or one not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublisherKeyError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    File {
        /// What was opened.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Others may read it, or it is another user's.
    #[error("{}: others can read or replace it; chown it to the user of this command, and chmod 600 it", .0.display())]
    Open(PathBuf),
    /// It is not a key.
    #[error(
        "{}: it is not a key: one line of roles (sink, hop, controller, agent; commas between them), a space and 64 hex \
         digits; make one with: paceline int key NAME",
        .0.display()
    )]
    Malformed(PathBuf),
    /// That name cannot be one.
    #[error("'{0}' cannot be a name: 1 to 63 letters, digits, - and _")]
    Name(String),
    /// It exists already.
    #[error("{}: the key exists; remove it first if it is to be replaced, at both ends", .0.display())]
    Exists(PathBuf),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

impl PublisherKey {
    /// A key of these bytes.
    pub fn new(roles: &[PublisherRole], secret: &[u8; KEY_BYTES]) -> Self {
        Self { roles: roles.to_vec(), secret: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// Reads a key from the text of its file.
    pub fn parse(text: &str) -> Option<Self> {
        let (roles, digits) = text.strip_suffix('\n').unwrap_or(text).split_once(' ')?;
        let roles = roles.split(',').map(|role| role.parse().ok()).collect::<Option<Vec<_>>>()?;
        Some(Self::new(&roles, &from_hex(digits)?))
    }

    /// What its publisher may say.
    pub fn roles(&self) -> &[PublisherRole] {
        &self.roles
    }

    pub(crate) fn sign(&self, message: &[u8]) -> hmac::Tag {
        hmac::sign(&self.secret, message)
    }

    /// Compares in constant time.
    pub(crate) fn verify(&self, message: &[u8], mac: &[u8; KEY_BYTES]) -> bool {
        hmac::verify(&self.secret, message, mac).is_ok()
    }
}

/// The keys that an end knows, by publisher.
#[derive(Clone, Debug, Default)]
pub struct Keys(BTreeMap<String, PublisherKey>);

impl Keys {
    /// Reads every `NAME.key` of a folder. Other files are left alone.
    ///
    /// # Errors
    /// One line that names the file: it cannot be read, others can read it, it is not a key.
    pub fn read(folder: &Path) -> Result<Self, PublisherKeyError> {
        let of = |error| PublisherKeyError::File { path: folder.to_owned(), error };
        let mut keys = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(of)? {
            let path = entry.map_err(of)?.path();
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if !is_name(name) {
                return Err(PublisherKeyError::Name(name.to_owned()));
            }
            keys.insert(name.to_owned(), read(&path)?);
        }
        Ok(Self(keys))
    }

    /// Adds one.
    #[must_use]
    pub fn with(mut self, name: &str, key: PublisherKey) -> Self {
        self.0.insert(name.to_owned(), key);
        self
    }

    /// That of a publisher.
    pub fn of(&self, name: &str) -> Option<&PublisherKey> {
        self.0.get(name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes a key for a publisher, in a file that its owner alone can read; the folder is made where there is none. Answers the
    /// file's path.
    ///
    /// # Errors
    /// When the name cannot be one, there is a key of that name, or the system refuses.
    pub fn make(folder: &Path, name: &str, roles: &[PublisherRole]) -> Result<PathBuf, PublisherKeyError> {
        if !is_name(name) {
            return Err(PublisherKeyError::Name(name.to_owned()));
        }
        let mut bytes = [0; KEY_BYTES];
        ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| PublisherKeyError::Random)?;
        let path = folder.join(name).with_extension(ENDING);
        let of = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => PublisherKeyError::Exists(path.clone()),
            _ => PublisherKeyError::File { path: path.clone(), error },
        };
        fs::create_dir_all(folder).map_err(of)?;
        let roles: Vec<&str> = roles.iter().map(Into::into).collect();
        secret::create(&path, format!("{} {}\n", roles.join(","), HEXLOWER.encode(&bytes)).as_bytes()).map_err(of)?;
        Ok(path)
    }
}

fn read(path: &Path) -> Result<PublisherKey, PublisherKeyError> {
    let of = |error| PublisherKeyError::File { path: path.to_owned(), error };
    let file = followed(path).map_err(of)?;
    let owner = file.metadata().map_err(of)?.uid();
    let own = owner == rustix::process::geteuid().as_raw() || owner == 0;
    if !own || secret::check(&file, path).is_err() {
        return Err(PublisherKeyError::Open(path.to_owned()));
    }
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text).map_err(of)?;
    PublisherKey::parse(&text).ok_or_else(|| PublisherKeyError::Malformed(path.to_owned()))
}

/// Small letters alone, so that there is one spelling.
pub(crate) fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn the_mac_is_hmac_sha_256() {
        // RFC 4231 section 4.3, test case 2; a key shorter than a block is filled up with zeros.
        let mut secret = [0; KEY_BYTES];
        secret[..4].copy_from_slice(b"Jefe");
        let key = PublisherKey::new(&[PublisherRole::Sink], &secret);
        let digits = HEXLOWER.encode(key.sign(b"what do ya want for nothing?").as_ref());
        assert_eq!(digits, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let mac = from_hex(&digits).unwrap();
        assert!(key.verify(b"what do ya want for nothing?", &mac));
        assert!(!key.verify(b"what do ya want for nothing", &mac));
    }

    #[test]
    fn a_key_that_was_made_is_read_and_its_owner_alone_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = Keys::make(folder.path(), "sta2", &[PublisherRole::Sink, PublisherRole::Hop]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(folder.path().join("README"), "what these are").unwrap();
        let keys = Keys::read(folder.path()).unwrap();
        assert_eq!(
            (keys.len(), keys.of("sta2").unwrap().roles()),
            (1, [PublisherRole::Sink, PublisherRole::Hop].as_slice())
        );
        assert!(matches!(Keys::make(folder.path(), "sta2", &[PublisherRole::Sink]), Err(PublisherKeyError::Exists(_))));
        assert!(matches!(Keys::make(folder.path(), "../a", &[PublisherRole::Sink]), Err(PublisherKeyError::Name(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Keys::read(folder.path()), Err(PublisherKeyError::Open(_))));
        // A FIFO without a writer holds up nothing.
        fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let said = Keys::read(folder.path()).unwrap_err().to_string();
        assert!(said.ends_with("sta2.key: it is not a regular file"), "{said}");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let digits = "0".repeat(64);
        assert!(PublisherKey::parse(&format!("sink {digits}\n")).is_some());
        let wrong = [
            String::new(),
            digits.clone(),
            format!("king {digits}"),
            format!("sink, {digits}"),
            format!("sink {digits}0"),
            format!("sink {}", "F".repeat(64)),
            format!("sink {digits}\n\n"),
            "sink \u{e9}".to_owned() + &"0".repeat(62),
        ];
        for text in wrong {
            assert!(PublisherKey::parse(&text).is_none(), "{text}");
        }
    }
}
