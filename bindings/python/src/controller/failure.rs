//! What went wrong in a controller in Python: a controller's calls have no errors to answer, so it is kept for whoever runs the
//! world, on whose thread the controllers are called.

use std::cell::RefCell;
use std::fmt;

use pyo3::PyErr;

thread_local! {
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

/// What went wrong.
#[derive(Debug)]
pub(crate) struct Fault {
    /// One line: controller, class, method, place.
    pub(crate) what: String,
    /// What was raised, if anything was.
    pub(crate) exception: Option<PyErr>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Begins anew.
pub(crate) fn clear() {
    FAULT.set(None);
}

/// The first fault since.
pub(crate) fn take() -> Option<Fault> {
    FAULT.take()
}

/// A controller of this thread's world is wrong.
pub(crate) fn put(fault: Fault) {
    FAULT.with_borrow_mut(|first| {
        first.get_or_insert(fault);
    });
}
