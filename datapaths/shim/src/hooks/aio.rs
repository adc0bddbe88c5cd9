//! Asynchronous writes of the C library. Its threads make them by themselves, so such a socket is served inline.

use std::ffi::c_int;

use super::process::before;
use super::stream::written_past_us;

/// The descriptor of a request: the first field of `struct aiocb` (POSIX leaves the order open; so it is in glibc and musl).
fn descriptor(request: *const c_int) -> Option<c_int> {
    // SAFETY: null, or the application's request.
    unsafe { request.as_ref() }.copied()
}

before! {
    fn aio_write(request: *const c_int) {
        descriptor(request).into_iter().for_each(written_past_us);
    }
}

before! {
    fn aio_write64(request: *const c_int) {
        descriptor(request).into_iter().for_each(written_past_us);
    }
}

before! {
    fn lio_listio(_mode: c_int, list: *const *const c_int, count: c_int) {
        listed(list, count);
    }
}

before! {
    fn lio_listio64(_mode: c_int, list: *const *const c_int, count: c_int) {
        listed(list, count);
    }
}

/// Requests that read are among them: a socket that is read so is written so as well, or not at all.
fn listed(list: *const *const c_int, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the application vouches for `count` of them.
        descriptor(unsafe { *list.add(at) }).into_iter().for_each(written_past_us);
    }
}
