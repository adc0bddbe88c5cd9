//! Which paceline this is: its version, and the commit that it was built from.

use std::sync::OnceLock;

/// The version in every record.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// A program says at its start which commit it was built from (`paceline-commit`); what comes later is passed over. Libraries
/// do not know it, so that a commit does not build them again.
pub fn built_from(commit: Option<&'static str>) {
    if let Some(commit) = commit {
        let _ = COMMIT.set(commit);
    }
}

/// The commit that this program was built from, where it said so.
pub fn commit() -> Option<&'static str> {
    COMMIT.get().copied()
}

/// For people: the version, and the commit behind it.
pub fn build() -> String {
    named(VERSION, commit())
}

/// The same of any build.
pub fn named(version: &str, commit: Option<&str>) -> String {
    commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
}
