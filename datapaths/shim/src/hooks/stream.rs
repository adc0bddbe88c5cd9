//! Streams of the C library on sockets. Its own writes do not come by here, so such a socket is served inline.

use std::ffi::{c_char, c_int, c_void};

use libc::FILE;

use super::process::before;
use crate::inside::Inside;
use crate::next;
use crate::notice::Notice;
use crate::state::{self, Route};

#[unsafe(no_mangle)]
extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if !mode.is_null() {
        // SAFETY: the application vouches for it.
        let mode = unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes();
        if mode.iter().any(|letter| b"wa+".contains(letter)) {
            written_past_us(fd);
        }
    }
    next::fdopen(fd, mode)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fclose(file: *mut FILE) -> c_int {
    if let Some(state) = state::own()
        && !file.is_null()
    {
        // SAFETY: the application vouches for it.
        let fd = unsafe { libc::fileno(file) };
        if fd >= 0 {
            if state.cared_for(fd).is_some() {
                // SAFETY: as above. What the stream holds is written before the descriptor is let go.
                unsafe { libc::fflush(file) };
            }
            let _inside = Inside::enter();
            state.closing(fd);
        }
    }
    next::fclose(file)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn vdprintf(fd: c_int, format: *const c_char, values: *mut c_void) -> c_int {
    written_past_us(fd);
    next::vdprintf(fd, format, values)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, values: *mut c_void) -> c_int {
    written_past_us(fd);
    next::__vdprintf_chk(fd, flag, format, values)
}

before! {
    fn dprintf(fd: c_int) {
        written_past_us(fd);
    }
}

before! {
    fn __dprintf_chk(fd: c_int) {
        written_past_us(fd);
    }
}

/// The C library is going to write to this descriptor by itself: what is queued goes first, and the rest inline.
pub(super) fn written_past_us(fd: c_int) {
    let Some(state) = state::get() else { return };
    let Some(conn) = state.tcp(fd) else { return };
    conn.go_direct();
    let conn = match state.route(fd, || usize::MAX) {
        Route::Kernel => return,
        Route::Inline(conn) => conn,
        Route::Queue(conn) => {
            let _inside = Inside::enter();
            conn.write_through(state.config.options.linger);
            conn
        }
    };
    conn.writes_unseen();
    if state.config.queues() {
        let _inside = Inside::enter();
        state.note(&Notice::Stream);
    }
}
