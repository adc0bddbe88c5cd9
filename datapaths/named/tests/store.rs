//! What a store holds, whatever happens to files meanwhile.

mod cache;
mod partial;
mod publish;
mod serve;

use std::path::Path;

use paceline_icn::{Name, UNIT};
use paceline_named::store::{Published, Store, StoreError};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Bytes drawn at random.
pub(crate) fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Pcg64::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// A folder with a store.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::create(&folder.path().join("store")).expect("a store");
        Self { folder, store }
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("room");
        std::fs::write(&path, content).expect("room");
        path
    }

    pub(crate) fn publish(&self, path: &Path) -> Result<Published, StoreError> {
        self.store.publish(path, None, &mut |_| ())
    }

    /// A published object of random bytes.
    pub(crate) fn object(&self, length: usize, seed: u64) -> (Name, Vec<u8>) {
        let content = random(length, seed);
        let path = self.file("object.bin", &content);
        (self.publish(&path).expect("room").name, content)
    }

    /// Names of files in the store's folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.store.folder()).expect("a store");
        let mut files: Vec<_> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        files
    }

    /// All units of an object.
    pub(crate) fn units(&self, name: &Name) -> Vec<Vec<u8>> {
        let stored = self.store.object(name).expect("readable").expect("published");
        let mut buffer = [0; UNIT];
        let mut unit = |unit| {
            let bytes = stored.read(unit, &mut buffer).expect("there");
            buffer[..bytes].to_vec()
        };
        (0..stored.stored_units()).map(&mut unit).collect()
    }
}

/// One line, for every error that a person sees.
pub(crate) fn line(error: &StoreError) -> String {
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}
