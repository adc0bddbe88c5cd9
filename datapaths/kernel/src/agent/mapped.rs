//! Maps of the kernel that this process has in its memory: what is written there is read by the module without a system call.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// A map in memory. Each word of it is read and written atomically, since the kernel does the same at the same time.
pub(super) struct Mapped {
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
    pub(super) fn new(map: impl AsFd, bytes: usize) -> io::Result<Self> {
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

    /// The 32 bits at `offset`.
    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, and as long-lived as `self`; any bits are a number.
        #[expect(unsafe_code, reason = "a pointer into shared memory")]
        unsafe {
            self.at(offset, 4).cast().as_ref()
        }
    }

    /// The 64 bits at `offset`.
    pub(super) fn wide(&self, offset: usize) -> &AtomicU64 {
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

/// What the agent wants of a flow: `struct answer` of `agent.h`, but for what this writes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Bytes a second; 0: the window alone limits the flow.
    pub(super) rate: u64,
    /// Which flow of its slot.
    pub(super) generation: u32,
    /// In packets.
    pub(super) window: u32,
    /// Time between reports in microseconds.
    pub(super) interval: u32,
    /// Packets delivered by the report that it answers.
    pub(super) delivered: u32,
    /// Recoveries, echoes and timeouts that are known.
    pub(super) episodes: u32,
    /// `ANSWER_*`.
    pub(super) flags: u32,
}

pub(super) const DECLINED: u32 = 1;
pub(super) const GLIDES: u32 = 2;
pub(super) const FOLLOWS: u32 = 4;
pub(super) const BUDGET: u32 = 8;

/// Bytes of `struct answer`, `struct control` and `struct counts`.
pub(super) const ANSWER_BYTES: usize = 40;
pub(super) const CONTROL_BYTES: usize = 16;
pub(super) const COUNTS_BYTES: usize = 24;

/// The answers of all slots.
pub(super) struct Answers(pub(super) Mapped);

impl Answers {
    /// Writes what the module reads at the flow's next event.
    pub(super) fn write(&self, slot: u32, answer: &Answer) {
        let start = slot as usize * ANSWER_BYTES;
        let put = |offset: usize, value: u32| self.0.word(start + offset).store(value, Ordering::Relaxed);
        self.0.wide(start).store(answer.rate, Ordering::Relaxed);
        put(16, answer.window);
        put(20, answer.interval);
        put(24, answer.delivered);
        put(28, answer.episodes);
        put(32, answer.flags);
        self.0.word(start + 8).store(answer.generation, Ordering::Release);
        self.0.word(start + 12).fetch_add(1, Ordering::Release);
    }
}
