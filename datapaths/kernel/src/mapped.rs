//! Maps of the kernel that this process has in its memory: what is written there is read by programs without a system call.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// A map in memory. Each word of it is read and written atomically, since the kernel does the same at the same time.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the process until `drop`, and is only reached through atomics.
#[expect(unsafe_code, reason = "a pointer into shared memory")]
unsafe impl Send for Mapped {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a pointer into shared memory")]
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The first `bytes` of an array map that permits it (`BPF_F_MMAPABLE`).
    ///
    /// # Errors
    /// The system's.
    pub fn new(map: impl AsFd, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(page_size());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where; nothing else is mapped there, and the length is that of the mapping until `drop`.
        #[expect(unsafe_code, reason = "mmap has no safe call")]
        let start = unsafe { mmap(null_mut(), bytes, protection, MapFlags::SHARED, map, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, bytes })
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.is_multiple_of(bytes) && offset + bytes <= self.bytes, "{offset} of {}", self.bytes);
        // SAFETY: the offset lies within the mapping.
        #[expect(unsafe_code, reason = "a pointer into shared memory")]
        unsafe {
            self.start.add(offset)
        }
    }

    /// The 32 bits at `offset`, in bytes from its start.
    ///
    /// # Panics
    /// Where that is past its end, or not aligned.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, and as long-lived as `self`; any bits are a number.
        #[expect(unsafe_code, reason = "a pointer into shared memory")]
        unsafe {
            self.at(offset, 4).cast().as_ref()
        }
    }

    /// The 64 bits at `offset`.
    ///
    /// # Panics
    /// As [`Mapped::word`].
    pub fn wide(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `word`.
        #[expect(unsafe_code, reason = "a pointer into shared memory")]
        unsafe {
            self.at(offset, 8).cast().as_ref()
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it outlives `self`.
        #[expect(unsafe_code, reason = "munmap has no safe call")]
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
