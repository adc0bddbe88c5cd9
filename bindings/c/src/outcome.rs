//! How calls end: a value, or -1 with errno and a line that says more.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io;

/// The result of a call before it is put into C's terms.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: i32,
    /// One line where errno alone does not say it.
    text: Option<String>,
}

impl Failure {
    pub(crate) fn plain(errno: i32) -> Self {
        Self { errno, text: None }
    }

    pub(crate) fn told(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: Some(text.into()) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let errno = paceline_alcc::errno(&error);
        if error.raw_os_error().is_some() {
            return Self::plain(errno);
        }
        Self::told(errno, error.to_string())
    }
}

/// What C calls return: -1 is a failure.
pub(crate) trait Returned: Copy {
    const FAILED: Self;
}

impl Returned for i32 {
    const FAILED: Self = -1;
}

impl Returned for isize {
    const FAILED: Self = -1;
}

/// The outcome of a system call.
pub(crate) fn of<T: Returned + PartialEq>(returned: T) -> Outcome<T> {
    if returned == T::FAILED { Err(io::Error::last_os_error().into()) } else { Ok(returned) }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Runs a call and puts its outcome into C's terms.
pub(crate) fn answer<T: Returned>(call: impl FnOnce() -> Outcome<T>) -> T {
    call().unwrap_or_else(|failure| {
        // A thread that is ending has nowhere to keep it.
        let _ = TEXT.try_with(|text| {
            let line = failure.text.unwrap_or_default();
            *text.borrow_mut() = CString::new(line).unwrap_or_default();
        });
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = failure.errno };
        T::FAILED
    })
}

/// The line of the last failure in this thread.
pub(crate) fn error_text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
