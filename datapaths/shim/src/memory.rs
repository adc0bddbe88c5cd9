//! The application's buffers. The kernel answers `EFAULT` for one that cannot be read; in our own code that would end the
//! program. So the kernel is asked to read a byte of each page first.

use std::ffi::c_int;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_void, iovec};

/// Linux's smallest page. Asking more often than each page does no harm.
const PAGE: usize = 4096;
/// Pages asked for in one call: 256 kB (our choice: few calls for a large buffer, and little room on the stack).
const BATCH: usize = 64;

/// The kernel does not let a process read itself so (a container's filter): buffers are taken as they are.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Buffers are to be taken as they are.
pub(crate) fn refuse() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// What can be read of `parts`, up to the first byte that cannot.
///
/// # Errors
/// The error number of a call with these arguments: `EFAULT` when not even the first byte can be read, `EINVAL` for a length that
/// is negative or too large.
///
/// # Safety
/// What can be read now can be read for the time of the call.
pub(crate) unsafe fn readable<'a>(process: libc::pid_t, parts: &[iovec]) -> Result<Vec<IoSlice<'a>>, c_int> {
    let mut slices = Vec::with_capacity(parts.len());
    for part in parts {
        if part.iov_len > isize::MAX as usize {
            return Err(libc::EINVAL);
        }
        if (part.iov_base as usize).checked_add(part.iov_len).is_none_or(|end| end > isize::MAX as usize) {
            return Err(libc::EFAULT);
        }
    }
    let total: usize = parts.iter().fold(0, |total, part| total.saturating_add(part.iov_len));
    let sound = sound_bytes(process, parts);
    if sound == 0 && total > 0 {
        return Err(libc::EFAULT);
    }
    let mut left = sound;
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        let len = part.iov_len.min(left);
        left -= len;
        if len > 0 {
            // SAFETY: the kernel has just read from each of its pages, and the caller promises the rest.
            slices.push(IoSlice::new(unsafe { std::slice::from_raw_parts(part.iov_base.cast(), len) }));
        }
    }
    Ok(slices)
}

/// Copies `count` values that the application names; `None` where the kernel would answer `EFAULT`.
pub(crate) fn load<T: Copy>(process: libc::pid_t, from: *const T, count: usize) -> Option<Vec<T>> {
    let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize)?;
    let mut copy: Vec<T> = Vec::new();
    copy.try_reserve_exact(count).ok()?;
    // SAFETY: there is room for this many bytes.
    let copied = unsafe { copy_in(process, from.cast(), copy.as_mut_ptr().cast(), bytes) };
    if copied {
        // SAFETY: they were just filled in.
        unsafe { copy.set_len(count) };
    }
    copied.then_some(copy)
}

/// Copies what the application names; says whether all of it can be read.
///
/// # Safety
/// There is room for this many bytes.
unsafe fn copy_in(process: libc::pid_t, from: *const u8, to: *mut u8, bytes: usize) -> bool {
    if bytes > 0 && !REFUSED.load(Ordering::Relaxed) {
        let room = iovec { iov_base: to.cast(), iov_len: bytes };
        let source = iovec { iov_base: from.cast_mut().cast(), iov_len: bytes };
        // SAFETY: the caller's room; what cannot be read is an error.
        let read = unsafe { libc::process_vm_readv(process, &room, 1, &source, 1, 0) };
        if read >= 0 || crate::next::errno() == libc::EFAULT {
            return read == bytes as isize;
        }
        REFUSED.store(true, Ordering::Relaxed);
    }
    if from.is_null() {
        return bytes == 0;
    }
    // SAFETY: the application vouches for them, and the caller for the room.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
    true
}

/// A value that the application names; `None` where the kernel would answer `EFAULT`.
pub(crate) fn load_one<T: Copy>(process: libc::pid_t, from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: room for the value.
    let copied = unsafe { copy_in(process, from.cast(), value.as_mut_ptr().cast(), size_of::<T>()) };
    // SAFETY: it was just filled in.
    copied.then(|| unsafe { value.assume_init() })
}

/// Puts values where the application names; says whether it can be written to. The kernel would answer `EFAULT` where not.
pub(crate) fn store<T: Copy>(process: libc::pid_t, to: *mut T, values: &[T]) -> bool {
    let bytes = size_of_val(values);
    if bytes > 0 && !REFUSED.load(Ordering::Relaxed) {
        let source = iovec { iov_base: values.as_ptr().cast_mut().cast(), iov_len: bytes };
        let room = iovec { iov_base: to.cast(), iov_len: bytes };
        // SAFETY: what cannot be written to is an error.
        let written = unsafe { libc::process_vm_writev(process, &source, 1, &room, 1, 0) };
        if written >= 0 || crate::next::errno() == libc::EFAULT {
            return written == bytes as isize;
        }
        REFUSED.store(true, Ordering::Relaxed);
    }
    if to.is_null() {
        return bytes == 0;
    }
    // SAFETY: the application vouches for the room.
    unsafe { ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), to.cast::<u8>(), bytes) };
    true
}

/// Bytes from the beginning of `parts` up to the first page that cannot be read.
fn sound_bytes(process: libc::pid_t, parts: &[iovec]) -> usize {
    let mut pages = parts.iter().flat_map(pages).peekable();
    let mut sound = 0_usize;
    while pages.peek().is_some() {
        let nothing = iovec { iov_base: ptr::null_mut(), iov_len: 1 };
        let (mut ask, mut spans, mut count) = ([nothing; BATCH], [0; BATCH], 0);
        for ((ask, span), (address, bytes)) in ask.iter_mut().zip(&mut spans).zip(pages.by_ref().take(BATCH)) {
            (ask.iov_base, *span) = (address as *mut c_void, bytes);
            count += 1;
        }
        let read = read_one_each(process, &ask[..count]).unwrap_or(count);
        sound = spans[..read].iter().fold(sound, |sound, &bytes| sound.saturating_add(bytes));
        if read < count {
            break;
        }
    }
    sound
}

/// The first address in each page of a part, and how many of its bytes lie there.
fn pages(part: &iovec) -> impl Iterator<Item = (usize, usize)> {
    let (mut at, end) = (part.iov_base as usize, part.iov_base as usize + part.iov_len);
    std::iter::from_fn(move || {
        let from = at;
        at = end.min((from / PAGE + 1) * PAGE);
        (from < end).then_some((from, at - from))
    })
}

/// How many of these bytes, each at an address of its own, the kernel could read; `None` where it does not.
fn read_one_each(process: libc::pid_t, ask: &[iovec]) -> Option<usize> {
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let mut bytes = [0_u8; BATCH];
    let room = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: ask.len() };
    // SAFETY: there is room for a byte of each; what cannot be read is an error.
    let read = unsafe { libc::process_vm_readv(process, &room, 1, ask.as_ptr(), ask.len() as u64, 0) };
    if let Ok(read) = usize::try_from(read) {
        return Some(read);
    }
    if crate::next::errno() == libc::EFAULT {
        return Some(0);
    }
    REFUSED.store(true, Ordering::Relaxed);
    None
}
