//! The beginning of the program.

use std::ffi::c_int;

use crate::config::Config;
use crate::end;
use crate::inside::Inside;
use crate::next;
use crate::notice::{self, Notice};
use crate::sandbox;
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
            notice::say(&error.to_string(), None);
            next::_exit(2);
            return;
        }
    };
    if !sandbox::leaves_room() {
        if !config.quiet {
            notice::say(&Notice::Sandbox.to_string(), config.log.as_deref());
        }
        return;
    }
    if !config.quiet && std::env::var_os(SAID).is_none() {
        notice::say(&format!("TCP sockets are served: {}", config.describe()), config.log.as_deref());
        // SAFETY: the program has not begun, so no other thread reads the environment.
        unsafe { std::env::set_var(SAID, "1") };
    }
    state::begin(config);
    // SAFETY: the function is of this library, which is never unloaded. It runs after the program's own.
    unsafe { at_quick_exit(end) };
}

unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

extern "C" fn end() {
    end::finish();
}
