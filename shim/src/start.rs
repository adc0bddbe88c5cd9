//! The beginning and the end of the program.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::config::Config;
use crate::inside::Inside;
use crate::next;
use crate::notice;
use crate::state;

/// Variable that the first program of a tree of programs sets: the line at the start was written.
const SAID: &str = "PACELINE_SAID";

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    let _inside = Inside::enter();
    let config = match Config::from_env() {
        Ok(config) => config,
        Err(error) => {
            notice::say(&error, None);
            next::_exit(2);
            return;
        }
    };
    if !config.quiet && std::env::var_os(SAID).is_none() {
        let program = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
        let program = program.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned();
        notice::say(&format!("{program}: {}", config.describe()), config.log.as_deref());
        // SAFETY: the program has not begun, so no other thread reads the environment.
        unsafe { std::env::set_var(SAID, "1") };
    }
    state::begin(config);
}

extern "C" fn end() {
    finish();
}

/// Sends what is queued before the process ends. What is written later is sent at once.
pub(crate) fn finish() {
    let Some(state) = state::own() else { return };
    let _inside = Inside::enter();
    state.ending.store(true, Ordering::Relaxed);
    state.finish();
}
