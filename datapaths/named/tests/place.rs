//! A store with a router in front of it, for the tests of requesters.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use paceline_cc::Rate;
use paceline_icn::Name;
use paceline_named::client::Options;
use paceline_named::router::{Server, ServerConfig};
use paceline_named::store::Store;

/// A folder with a store in it.
pub(crate) struct Shop {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

/// Bytes that no run of a wrong length or order repeats.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let words = (0_u32..).flat_map(|number| number.wrapping_mul(2_654_435_761).rotate_left(7).to_le_bytes());
    words.take(length).collect()
}

impl Shop {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("store")).unwrap();
        Self { folder, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Publishes these bytes.
    pub(crate) fn publish(&self, bytes: &[u8]) -> Name {
        let file = self.path("file.bin");
        fs::write(&file, bytes).unwrap();
        self.store.publish(&file, None, &mut |_| ()).unwrap().name
    }

    /// Begins to serve.
    pub(crate) fn serve(&self) -> Server {
        self.serve_at(SocketAddr::from(([127, 0, 0, 1], 0)), Rate::INFINITY)
    }

    pub(crate) fn serve_at(&self, listen: SocketAddr, rate: Rate) -> Server {
        let store = self.store.folder().to_owned();
        Server::start(&ServerConfig { rate, ..ServerConfig::new(store, listen) }).unwrap()
    }
}

pub(crate) fn options() -> Options {
    Options::new("bbr".parse().unwrap())
}
