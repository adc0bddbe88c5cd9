//! What a port read at once, shared by the packets in it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::layout::Layout;
use super::virtio::PartialChecksum;

/// Buffers kept for the next frames (our choice: 4 MB).
const KEPT: usize = 64;

/// Buffers of one length that come back when the last packet in them is gone.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    length: usize,
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Pool {
    /// Of buffers of `length` bytes.
    pub(crate) fn new(length: usize) -> Self {
        Self { length, free: Arc::default() }
    }

    /// A buffer; its bytes are of no meaning.
    pub(crate) fn take(&self) -> Vec<u8> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; self.length])
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() == self.length && free.len() < KEPT {
            free.push(buffer);
        }
    }
}

/// Bytes from the IP header on, and what they are.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    range: Range<usize>,
    pub(super) content: Content,
    home: Option<Pool>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// One packet, and what of it is still to be computed.
    Packet(Option<PartialChecksum>),
    /// This many packets behind one header, each with `size` bytes of payload but the last, which may have fewer.
    Segments { layout: Layout, size: u16, count: u16 },
}

impl Buffer {
    /// One packet.
    pub(super) fn packet(bytes: Vec<u8>, partial: Option<PartialChecksum>) -> Self {
        let range = 0..bytes.len();
        Self { bytes, range, content: Content::Packet(partial), home: None }
    }

    /// What `range` of `bytes` holds; `bytes` goes back to `home` at the end.
    pub(super) fn new(bytes: Vec<u8>, range: Range<usize>, content: Content, home: Option<Pool>) -> Self {
        Self { bytes, range, content, home }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.range.clone()]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}
