//! One file a command.

pub(crate) mod controllers;
pub(crate) mod race;
pub(crate) mod report;
pub(crate) mod trace;
pub(crate) mod validate;
