//! How a file is written, by every command and service. Our choice of rules, because each was once broken:
//!
//! - A file is whole or not there: a [`Draft`] has no name until it is on the disk, and then takes its place.
//! - What is not a regular file is never replaced. A device, a FIFO or `-` (standard output) that the user named is written to in order;
//!   a link is refused, and so is everything else.
//! - What outlives its process is a [`Kept`] file, under a name that is ours, with a note beside it that says what it is a part of.
//!   Anything else that stands there stays as it is.
//! - What others than we can have put there is opened by [`regular()`], which follows no link and waits for no one.
//! - A stranger names a file of a folder by its plain name ([`plain()`]), and gets regular files alone ([`given()`]).
//! - Secrets are for their owner alone ([`secret`]).

mod draft;
mod fault;
#[cfg(target_os = "linux")]
mod kept;
mod place;
#[cfg(target_os = "linux")]
mod regular;
#[cfg(target_os = "linux")]
pub mod secret;
#[cfg(target_os = "linux")]
mod served;

use std::fs::File;
use std::path::Path;

pub use draft::{Draft, abandon, check_folder, write, write_regular};
pub use fault::{OutputError, Unfit, is_full};
#[cfg(target_os = "linux")]
pub use kept::{Kept, Unplaced, part_of, tidy};
pub use place::{is_standard, replace};
#[cfg(target_os = "linux")]
pub use regular::{create_own, followed, own, regular};
#[cfg(target_os = "linux")]
pub use served::{NotPlain, given, plain};

/// The folder that a path is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Puts the names of a path's folder on the disk.
///
/// # Errors
/// The system's.
pub fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    File::open(folder_of(path)).and_then(|folder| folder.sync_all())
}
