//! How calls end: a value, or -1 with errno and a line that says more.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io;

use paceline_named::client::{FetchError, FetchFailed};
use paceline_named::resolver::ResolveError;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    errno: i32,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        let errno = match &error {
            FetchError::System(failed) => failed.source.raw_os_error().unwrap_or(libc::EIO),
            FetchError::Refused(_) => libc::ECONNREFUSED,
            FetchError::NoSource(_) | FetchError::Failed { why: FetchFailed::Range { .. }, .. } => libc::EINVAL,
            FetchError::Failed { why: FetchFailed::Corrupt(_) | FetchFailed::Record(_), .. } => libc::EBADMSG,
            error if error.is_not_found() => libc::ENOENT,
            error if error.is_silence() => libc::ETIMEDOUT,
            _ => libc::EIO,
        };
        Self::new(errno, error.to_string())
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        let errno = match &error {
            ResolveError::System(failed) => failed.source.raw_os_error().unwrap_or(libc::EIO),
            ResolveError::Unknown { .. } => libc::ENOENT,
            ResolveError::Silent { .. } | ResolveError::Nowhere { .. } => libc::ETIMEDOUT,
            _ => libc::EIO,
        };
        Self::new(errno, error.to_string())
    }
}

/// What C calls return: -1 is a failure.
pub(crate) trait Returned {
    const FAILED: Self;
}

impl Returned for i32 {
    const FAILED: Self = -1;
}

impl Returned for isize {
    const FAILED: Self = -1;
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Runs a call and puts its outcome into C's terms.
pub(crate) fn answer<T: Returned>(call: impl FnOnce() -> Result<T, Failure>) -> T {
    call().unwrap_or_else(|failure| {
        // A thread that is ending has nowhere to keep it.
        let _ = TEXT.try_with(|text| *text.borrow_mut() = CString::new(failure.text).unwrap_or_default());
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = failure.errno };
        T::FAILED
    })
}

/// The line of the last failure in this thread.
pub(crate) fn error_text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
