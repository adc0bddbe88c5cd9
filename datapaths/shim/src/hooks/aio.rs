//! Asynchronous writes of the C library. Its threads make them by themselves, so such a socket is served inline.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicPtr;

use super::process::before;
use super::stream::written_past_us;
use crate::next;

before!(aio_write, before_write);
before!(aio_write64, before_write64);
before!(lio_listio, before_list);
before!(lio_listio64, before_list64);

/// The descriptor of a request: the first field of `struct aiocb` (POSIX leaves the order open; so it is in glibc and musl).
fn descriptor(request: *const c_int) -> Option<c_int> {
    // SAFETY: null, or the application's request.
    unsafe { request.as_ref() }.copied()
}

extern "C" fn before_write(request: *const c_int) -> *mut c_void {
    static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    descriptor(request).into_iter().for_each(written_past_us);
    next::find_any(&SLOT, c"aio_write")
}

extern "C" fn before_write64(request: *const c_int) -> *mut c_void {
    static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    descriptor(request).into_iter().for_each(written_past_us);
    next::find_any(&SLOT, c"aio_write64")
}

extern "C" fn before_list(_mode: c_int, list: *const *const c_int, count: c_int) -> *mut c_void {
    static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    listed(list, count);
    next::find_any(&SLOT, c"lio_listio")
}

extern "C" fn before_list64(_mode: c_int, list: *const *const c_int, count: c_int) -> *mut c_void {
    static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    listed(list, count);
    next::find_any(&SLOT, c"lio_listio64")
}

/// Requests that read are among them: a socket that is read so is written so as well, or not at all.
fn listed(list: *const *const c_int, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the application vouches for `count` of them.
        descriptor(unsafe { *list.add(at) }).into_iter().for_each(written_past_us);
    }
}
