//! Options of what serves files.

use std::path::PathBuf;

/// From which folder, and for how long.
#[derive(clap::Args)]
pub(super) struct Serving {
    /// Files that are sent go into this folder, made if it does not exist, once they are whole, and replace none; those in it may be fetched.
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// End after the first session.
    #[arg(long)]
    pub(super) once: bool,
}
