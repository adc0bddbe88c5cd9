//! Whether a thread is in this library's own code, where calls of the C library are not the application's.

use std::cell::Cell;

use crate::next;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, hooks called by this thread pass. What the application sees of `errno` does not change.
pub(crate) struct Inside {
    before: bool,
    errno: i32,
}

impl Inside {
    pub(crate) fn enter() -> Self {
        Self { before: INSIDE.replace(true), errno: next::errno() }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
        next::set_errno(self.errno);
    }
}

/// Whether this thread is in our own code.
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Makes every call of this thread our own: for the engine's.
pub(crate) fn stay() {
    INSIDE.set(true);
}
