//! libpacelineicn: [`paceline_named::client`] for C. `include/paceline_icn.h` says what each call does; here they are only taken apart.
//!
//! A descriptor is one end of a pair of sockets. A thread writes what was verified into the other one, so that the kernel's calls for
//! waiting work, and a program that does not read stops the fetch.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "C gives pointers; each block says why it is sound")]

mod open;
mod outcome;

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::ssize_t;

use outcome::{Failure, answer, error_text};

/// What an object is; see `paceline_icn.h`.
#[repr(C)]
pub struct Stat {
    length: u64,
    media_type: [u8; 208],
    name: [u8; 64],
    reserved: [u64; 8],
}

/// A text of C.
///
/// # Safety
/// `text` is null or a C string that outlives the answer.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::new(libc::EFAULT, format!("{what}: there is none")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::new(libc::EINVAL, format!("{what}: it is not UTF-8 text")))
}

/// Opens an object; see `paceline_icn.h`.
///
/// # Safety
/// `name` and `sources` are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_icn_open(
    name: *const c_char,
    sources: *const c_char,
    first: u64,
    last: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let (name, sources) = unsafe { (text(name, "name")?, text(sources, "sources")?) };
        open::open(name, sources, first, last)
    })
}

/// read(2); see `paceline_icn.h`.
///
/// # Safety
/// As of read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_icn_read(fd: c_int, buf: *mut c_void, len: usize) -> ssize_t {
    answer(|| {
        let file = open::find(fd)?;
        if len == 0 {
            return Ok(0);
        }
        if buf.is_null() {
            return Err(Failure::new(libc::EFAULT, "no place to read to"));
        }
        // SAFETY: the caller's promise: this many bytes are there; read(2) writes to them alone.
        let got = unsafe { libc::read(fd, buf, len) };
        match got {
            -1 => Err(std::io::Error::last_os_error().into()),
            0 => file.end().map(|()| 0),
            got => Ok(got),
        }
    })
}

/// What an open object is; see `paceline_icn.h`.
///
/// # Safety
/// `stat` is null or points to a `struct paceline_icn_stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_icn_stat(fd: c_int, stat: *mut Stat) -> c_int {
    answer(|| {
        let file = open::find(fd)?;
        // SAFETY: the caller's promise.
        let stat = unsafe { stat.as_mut() }.ok_or_else(|| Failure::new(libc::EFAULT, "no place to fill in"))?;
        *stat = file.stat();
        Ok(0)
    })
}

/// close(2); see `paceline_icn.h`.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_icn_close(fd: c_int) -> c_int {
    answer(|| open::close(fd).map(|()| 0))
}

/// What the last failure of this thread was about; see `paceline_icn.h`.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_icn_error() -> *const c_char {
    error_text()
}
