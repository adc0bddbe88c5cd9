//! Where a part of an object is.

use std::path::{Path, PathBuf};

use paceline_icn::{Layout, Name};

/// How the units lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in a store: unit by unit.
    Stored = 0,
    /// The object's bytes and nothing else, so that the file is the object when it is whole.
    Content = 1,
}

impl Form {
    /// Bytes of the data's file.
    pub(super) fn bytes(self, layout: &Layout) -> u64 {
        match self {
            Self::Stored => layout.stored_bytes(),
            Self::Content => layout.length(),
        }
    }
}

/// Where a part of an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The file of its bytes.
    pub data: PathBuf,
    /// The file of its manifest and of the bits.
    pub map: PathBuf,
    /// How the units lie in it.
    pub form: Form,
}

/// What the file of bits has behind the name of the other.
pub(crate) const UNITS: &str = ".units";

impl Paths {
    /// In a cache.
    pub fn in_cache(folder: &Path, name: &Name) -> Self {
        let data = folder.join(name.to_string());
        Self { map: with(&data, UNITS), data, form: Form::Stored }
    }

    /// Of a fetch into the file `out`: beside it, as [`paceline_files::part_of`] says, and with `.units` behind that.
    pub fn beside(out: &Path) -> Self {
        let data = paceline_files::part_of(out);
        Self { map: with(&data, UNITS), data, form: Form::Content }
    }
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
