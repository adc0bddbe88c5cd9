//! The commit that this program is built from. A crate of its own, on which programs alone depend: a commit builds them
//! again, and no library.

/// In hexadecimal; `+changed.DIGEST` behind it where the sources were changed since. Nothing where they are built without their
/// history, and the environment's `PACELINE_COMMIT` does not name it.
pub const COMMIT: Option<&str> = option_env!("PACELINE_BUILT_FROM");
