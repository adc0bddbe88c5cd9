//! libpaceline_cc: the controllers of [`paceline_cc`] for C. `include/paceline_cc.h` says what each call does; here they are only
//! taken apart.
//!
//! Nothing here asks for the time, opens a socket or starts a thread. A file is read by [`controller::paceline_cc_new_local`] alone.
#![expect(unsafe_code, reason = "C gives pointers; each block says why it is sound")]

pub mod controller;
pub mod counted;
mod events;
pub mod flow;
pub mod handle;
mod outcome;
mod passing;
pub mod state;
pub mod structs;

use std::ffi::{c_char, c_int, c_void};

use paceline_cc::registry::controllers;

use outcome::{Failure, answer, error_text};
use passing::Name;

/// The interface's number: that of the shared library's name.
const ABI: u32 = 0;

/// The number of the interface; see `paceline_cc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_cc_abi() -> u32 {
    ABI
}

/// What the last failure of this thread was about; see `paceline_cc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_cc_error() -> *const c_char {
    error_text()
}

/// All controllers; see `paceline_cc.h`.
///
/// # Safety
/// `each` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_list(
    each: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char)>,
    context: *mut c_void,
) -> c_int {
    answer(|| {
        let each = each.ok_or_else(|| Failure::invalid("each: there is no function to call"))?;
        for entry in controllers() {
            let (name, summary) = (Name::<64>::of(entry.name), Name::<256>::of(entry.summary));
            // SAFETY: the caller's promise; both texts outlive the call.
            unsafe { each(context, name.as_ptr(), summary.as_ptr()) };
        }
        Ok(())
    })
}
