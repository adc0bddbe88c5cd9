//! The reader's half of a fetch: a queue of verified bytes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_executor::block_on;
use paceline_icn::fetch::FetchStats;
use paceline_icn::{Manifest, Name, SignedRecord};
use rustix::event::{EventfdFlags, eventfd};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::UnboundedReceiver;

use super::FetchError;

/// What the requester says to the reader.
#[derive(Debug)]
pub(super) enum Said {
    /// The manifest, verified; once, first.
    Manifest(Box<Manifest>),
    /// That of a signed name; in place of a manifest.
    Record(Box<SignedRecord>),
    /// The next bytes.
    Bytes(Vec<Bytes>),
    /// Units that came, for a file.
    Units(Vec<(u64, Bytes)>),
    /// All bytes have been said, or it failed.
    End(Box<FetchStats>, Result<(), FetchError>),
}

/// What the reader says to the requester.
#[derive(Debug)]
pub(crate) struct Back {
    /// Bytes that were read.
    consumed: AtomicU64,
    stop: AtomicBool,
    bell: OwnedFd,
}

impl Back {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { consumed: AtomicU64::new(0), stop: AtomicBool::new(false), bell })
    }

    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Acquire)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Wakes the requester when it becomes readable.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// This many bytes were taken out of the queue.
    pub(crate) fn took(&self, bytes: u64) {
        self.consumed.fetch_add(bytes, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        // It rings already when it is full.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// The verified bytes of an object, or of a range of it, in order. Dropping it ends the fetch.
///
/// To be read by [`AsyncRead`], by [`Reader::chunk`] without a copy, or by [`Reader::chunk_blocking`] outside of a runtime. A failed
/// fetch gives the bytes that came before, then the error.
#[derive(Debug)]
pub struct Reader {
    name: Name,
    manifest: Manifest,
    queue: UnboundedReceiver<Said>,
    fetching: Fetching,
    batch: VecDeque<Bytes>,
    /// Read and not yet reported.
    unreported: u64,
    /// Report after this many.
    report_every: u64,
    end: Option<Box<FetchStats>>,
}

impl Reader {
    pub(super) fn new(
        name: Name,
        manifest: Manifest,
        queue: UnboundedReceiver<Said>,
        fetching: Fetching,
        receive_buffer: u64,
    ) -> Self {
        let batch = VecDeque::new();
        Self { name, manifest, queue, fetching, batch, unreported: 0, report_every: receive_buffer / 16, end: None }
    }

    /// The object's name; of a signed one, that of its target.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// What the object is.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What the fetch did; `None` before its end.
    pub fn stats(&self) -> Option<&FetchStats> {
        self.end.as_deref()
    }

    /// The next bytes, without a copy; `None` at the end.
    ///
    /// # Errors
    /// [`FetchError`], once; afterwards the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// As [`Reader::chunk`], for a task.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FetchError>> {
        ready!(self.poll_batch(cx))?;
        Poll::Ready(Ok(self.take()))
    }

    /// As [`Reader::chunk`], for threads that are not of a runtime.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn chunk_blocking(&mut self) -> Result<Option<Bytes>, FetchError> {
        block_on(self.chunk())
    }

    /// Waits until there are bytes at hand, or the end.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FetchError>> {
        while self.batch.is_empty() && self.end.is_none() {
            let Poll::Ready(said) = self.queue.poll_recv(cx) else {
                // A caller that reads all there is wants more.
                self.report();
                return Poll::Pending;
            };
            self.hear(said)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The next bytes at hand.
    fn take(&mut self) -> Option<Bytes> {
        let bytes = self.batch.pop_front()?;
        self.note(bytes.len());
        Some(bytes)
    }

    fn hear(&mut self, said: Option<Said>) -> Result<(), FetchError> {
        match said {
            // Comes once, before there is a reader.
            Some(Said::Manifest(_) | Said::Record(_) | Said::Units(_)) => Ok(()),
            Some(Said::Bytes(batch)) => {
                self.batch = batch.into();
                Ok(())
            }
            Some(Said::End(stats, result)) => {
                self.end = Some(stats);
                result
            }
            None => {
                self.end = Some(Box::default());
                Err(FetchError::Gone(self.name))
            }
        }
    }

    fn note(&mut self, bytes: usize) {
        self.unreported += bytes as u64;
        if self.unreported >= self.report_every {
            self.report();
        }
    }

    fn report(&mut self) {
        if self.unreported > 0 {
            self.fetching.0.took(self.unreported);
            self.unreported = 0;
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        while buf.remaining() > 0 {
            if this.batch.is_empty() {
                if buf.filled().len() > before {
                    break;
                }
                ready!(this.poll_batch(cx)).map_err(io::Error::other)?;
            }
            let Some(first) = this.batch.front_mut() else { break };
            let part = first.len().min(buf.remaining());
            buf.put_slice(&first[..part]);
            first.advance(part);
            if first.is_empty() {
                this.batch.pop_front();
            }
            this.note(part);
        }
        Poll::Ready(Ok(()))
    }
}

/// A fetch that runs: it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Fetching(pub(crate) Arc<Back>);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
        self.0.ring();
    }
}
