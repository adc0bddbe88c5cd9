//! How calls end: 0, or a negative number and a line that says more.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `PACELINE_E*` of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Invalid = -1,
    Misfit = -2,
    TooBig = -3,
    Order = -4,
    Panic = -5,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::Invalid, text)
    }

    /// Of a panic's payload.
    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let said =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let said = said.unwrap_or("without a text");
        Self::new(Code::Panic, format!("the library has a bug ({said}); free the handle, and report the call"))
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Keeps the line of a failure for `paceline_cc_error`, and gives its code.
#[cold]
pub(crate) fn failed(failure: Failure) -> c_int {
    let line = CString::new(failure.text).unwrap_or_default();
    // A thread that is ending has nowhere to keep it.
    let _ = TEXT.try_with(|text| *text.borrow_mut() = line);
    failure.code as c_int
}

/// Runs a call that has no handle, and puts its outcome into C's terms.
pub(crate) fn answer(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failed(failure),
        Err(payload) => failed(Failure::panicked(payload.as_ref())),
    }
}

/// The line of the last failure in this thread.
pub(crate) fn error_text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
