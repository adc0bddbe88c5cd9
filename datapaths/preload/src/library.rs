//! Where the preloaded library is.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::Elf;

/// File name of the preloaded library.
pub const LIBRARY: &str = "libpaceline_shim.so";
/// The variable that names it, instead of the places where it is looked for.
pub const PLACE: &str = "PACELINE_SHIM";
/// The variable with what the dynamic linker loads first.
pub const PRELOAD: &str = "LD_PRELOAD";

/// The preloaded library.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its absolute path.
    pub path: PathBuf,
    /// What it says of itself.
    pub elf: Elf,
}

/// Why there is no library, or why it cannot be preloaded.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The folder of this process cannot be had.
    #[error("{PLACE}: {}: {source}", path.display())]
    Relative {
        /// What the variable names.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The place of this program cannot be had.
    #[error("the path of this executable cannot be found")]
    Executable(#[source] io::Error),
    /// It is in none of the places. `cargo install` brings the command alone.
    #[error(
        "{LIBRARY}: it is not in {}; in paceline's sources run: make build install PREFIX={} (or name it in {PLACE})",
        folder.display(), folder.parent().unwrap_or(folder).display()
    )]
    Missing {
        /// Where this program is.
        folder: PathBuf,
    },
    /// `LD_PRELOAD` cannot hold its path.
    #[error("{}: LD_PRELOAD takes no path with a space or a colon; move the library and name it in {PLACE}", .0.display())]
    Unfit(PathBuf),
    /// It cannot be read.
    #[error("{}: {source}; name the library {LIBRARY} in {PLACE}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("{}: it is not a shared library; name {LIBRARY} in {PLACE}", .0.display())]
    NotALibrary(PathBuf),
    /// Its path has bytes that are not text.
    #[error("the path of the library is not text")]
    NotText,
}

impl Library {
    /// Finds it: named by `PACELINE_SHIM`, beside this executable, or in `../lib/paceline` from there.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn find() -> Result<Self, LibraryError> {
        let path = match std::env::var_os(PLACE).filter(|place| !place.is_empty()) {
            Some(place) => {
                std::path::absolute(&place).map_err(|source| LibraryError::Relative { path: place.into(), source })?
            }
            None => {
                let executable = std::env::current_exe().map_err(LibraryError::Executable)?;
                let folder = executable.parent().unwrap_or(Path::new("/"));
                let places = [folder.join(LIBRARY), folder.join("../lib/paceline").join(LIBRARY)];
                let found = places.iter().find(|place| place.exists());
                let found = found.ok_or_else(|| LibraryError::Missing { folder: folder.to_owned() })?;
                found.canonicalize().unwrap_or_else(|_| found.clone())
            }
        };
        if path.display().to_string().contains([' ', ':', '\n', '\t']) {
            return Err(LibraryError::Unfit(path));
        }
        match Elf::read(&path) {
            Ok(Some(elf)) if elf.linker.is_none() && !elf.needed.is_empty() => Ok(Self { path, elf }),
            Ok(_) => Err(LibraryError::NotALibrary(path)),
            Err(source) => Err(LibraryError::Unreadable { path, source }),
        }
    }

    /// The value of `LD_PRELOAD`: this library before those that are preloaded already, and once.
    ///
    /// # Errors
    /// [`LibraryError::NotText`].
    pub fn preload(&self) -> Result<OsString, LibraryError> {
        let present = std::env::var(PRELOAD).unwrap_or_default();
        let others = present.split([' ', ':']).filter(|path| !path.is_empty());
        let others = others.filter(|path| Path::new(path).file_name() != Some(OsStr::new(LIBRARY)));
        let own = self.path.to_str().ok_or(LibraryError::NotText)?;
        Ok(std::iter::once(own).chain(others).collect::<Vec<_>>().join(":").into())
    }
}
