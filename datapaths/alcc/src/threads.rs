//! Threads of our own in a program that we know nothing of.
//!
//! The C library lays a program's thread-local storage into each thread's stack (glibc `allocate_stack`): a size that is right for what
//! the thread does is too little where the program, or a library of it, has much of that. So it is added.

use std::ffi::{c_int, c_void};
use std::thread::Builder;

use libc::{dl_iterate_phdr, dl_phdr_info, size_t};

/// What a thread of ours takes itself (our choice: several times what was measured; it costs memory only as far as it is used).
const STACK: usize = 1 << 20;

/// For a thread of this name.
pub fn builder(name: &str) -> Builder {
    Builder::new().name(name.to_owned()).stack_size(STACK.saturating_add(local_storage()))
}

/// Bytes of thread-local storage of all that is loaded: at least as much as the C library lays into a stack.
#[expect(unsafe_code, reason = "no safe call says what is loaded")]
fn local_storage() -> usize {
    unsafe extern "C" fn add(object: *mut dl_phdr_info, _: size_t, total: *mut c_void) -> c_int {
        // SAFETY: the C library's description of a loaded object, whose headers it keeps, and the sum below.
        let (headers, total) = unsafe {
            let object = &*object;
            let headers = match object.dlpi_phdr.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()),
            };
            (headers, &mut *total.cast::<usize>())
        };
        let local = headers.iter().filter(|header| header.p_type == libc::PT_TLS);
        let sizes = local.map(|header| header.p_memsz.saturating_add(header.p_align) as usize);
        *total = sizes.fold(*total, usize::saturating_add);
        0
    }
    let mut total = 0_usize;
    // SAFETY: `add` keeps nothing of what it is given, and the sum outlives the call.
    unsafe { dl_iterate_phdr(Some(add), (&raw mut total).cast()) };
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_loaded_counts() {
        // The standard library has some of its own in every program.
        let storage = local_storage();
        assert!((1..64 << 20).contains(&storage), "{storage}");
        assert_eq!(
            builder("name")
                .spawn(|| std::thread::current().name().map(str::to_owned))
                .unwrap()
                .join()
                .unwrap()
                .as_deref(),
            Some("name")
        );
    }
}
