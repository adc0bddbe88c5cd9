//! What a handle of C points to: something that runs a controller, the time that it was informed of, and whether it panicked.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use paceline_cc::Time;

use crate::outcome::{Code, Failure, answer, failed};

/// `paceline_cc`, `paceline_flow` and `paceline_counted` of the header.
pub struct Handle<T> {
    inner: T,
    clock: Clock,
    /// A call panicked: what is inside may be half changed.
    poisoned: Cell<bool>,
}

/// The latest time of an event.
pub(crate) struct Clock(Time);

impl Clock {
    /// The time of an event, which is not before that of the one before.
    #[inline]
    pub(crate) fn at(&self, now: u64) -> Result<Time, Failure> {
        if now < self.0.as_nanos() || now == u64::MAX {
            return Err(self.refuse(now));
        }
        Ok(Time::from_nanos(now))
    }

    #[cold]
    fn refuse(&self, now: u64) -> Failure {
        let before = self.0.as_nanos();
        if now == u64::MAX {
            return Failure::invalid("now: UINT64_MAX is never; give a time");
        }
        let text =
            format!("now: {now} comes after {before}; time does not run backwards, report events in their order");
        Failure::new(Code::Order, text)
    }

    /// Time goes on to that of an event that is reported.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) {
        self.0 = now;
    }
}

fn absent() -> Failure {
    Failure::invalid("there is no handle; make one, and look at what making it returned")
}

fn poisoned() -> Failure {
    Failure::new(Code::Panic, "an earlier call found a bug in the library; free the handle")
}

/// Makes a handle.
///
/// # Safety
/// `out` is null or a place for a pointer.
pub(crate) unsafe fn make<T>(out: *mut *mut Handle<T>, build: impl FnOnce() -> Result<T, Failure>) -> c_int {
    answer(|| {
        if out.is_null() {
            return Err(Failure::invalid("there is no place for the handle; give one"));
        }
        // SAFETY: the caller's promise.
        unsafe { out.write(std::ptr::null_mut()) };
        let handle = Handle { inner: build()?, clock: Clock(Time::ZERO), poisoned: Cell::new(false) };
        // SAFETY: the caller's promise.
        unsafe { out.write(Box::into_raw(Box::new(handle))) };
        Ok(())
    })
}

/// Gives a handle back.
///
/// # Safety
/// `handle` is null or was made here, and is not used again.
pub(crate) unsafe fn free<T>(handle: *mut Handle<T>) {
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        let handle = unsafe { Box::from_raw(handle) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}

/// Something happened to what a handle runs. A panic poisons it.
///
/// # Safety
/// `handle` is null or was made here, and no other thread uses it now.
#[inline]
pub(crate) unsafe fn event<T>(
    handle: *mut Handle<T>,
    call: impl FnOnce(&mut T, &mut Clock) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(Handle { inner, clock, poisoned: bad }) = (unsafe { handle.as_mut() }) else { return failed(absent()) };
    if bad.get() {
        return failed(poisoned());
    }
    match catch_unwind(AssertUnwindSafe(|| call(inner, clock))) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failed(failure),
        Err(payload) => {
            bad.set(true);
            failed(Failure::panicked(payload.as_ref()))
        }
    }
}

/// Something is asked of what a handle runs; of a poisoned one `otherwise` is answered, and the call fails.
///
/// # Safety
/// As of [`event`].
#[inline]
pub(crate) unsafe fn question<T>(
    handle: *const Handle<T>,
    call: impl FnOnce(&T) -> Result<(), Failure>,
    otherwise: impl FnOnce(&T) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(Handle { inner, poisoned: bad, .. }) = (unsafe { handle.as_ref() }) else { return failed(absent()) };
    if !bad.get() {
        match catch_unwind(AssertUnwindSafe(|| call(inner))) {
            Ok(Ok(())) => return 0,
            Ok(Err(failure)) => return failed(failure),
            Err(_) => bad.set(true),
        }
    }
    failed(otherwise(inner).err().unwrap_or_else(poisoned))
}
