//! The preloaded library from outside: where it is, and whether a program takes it, found out before the program runs.
//!
//! On systems other than Linux this crate is empty.
#![cfg(target_os = "linux")]

pub mod elf;
pub mod library;
pub mod program;

pub use elf::Elf;
pub use library::{Library, LibraryError};
pub use program::{Examined, examine};
