//! Packet logs: taps that write what they see to a file.
//!
//! A disk may be slow or full, and the emulator may not wait for it: a thread of its own writes, and a log that cannot be
//! kept up or written ends with one line in [`crate::EmulatorReport::troubles`], while the run goes on. What a log is
//! written to comes into its place only when all of it is there.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

pub mod mahimahi;
pub mod pcapng;

pub use mahimahi::Mahimahi;
pub use pcapng::Pcapng;

/// Bytes handed to the writing thread at once (our choice).
const CHUNK: usize = 256 << 10;
/// Chunks that may wait for the disk: 64 MB (our choice: some seconds of 100 Mbit/s).
const WAITING: usize = 256;

/// A packet log that was not kept.
#[derive(Debug, thiserror::Error)]
#[error("{name}: the packet log is lost: {problem}")]
pub struct LogLost {
    /// What messages call the log.
    pub name: String,
    /// Why.
    pub problem: LogProblem,
}

/// Why a packet log was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogProblem {
    /// It could not be written, or not put in its place.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// Too many bytes waited for the disk.
    #[error("the disk is too slow for it; log to a faster one, or fewer bytes of each packet")]
    TooSlow,
    /// The thread that writes is gone.
    #[error("its thread panicked")]
    Panicked,
}

/// Hands bytes to a thread that writes them.
pub(crate) struct Sink {
    chunk: Vec<u8>,
    /// `None` once it failed.
    chunks: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    overrun: bool,
}

impl Sink {
    /// Writes to `file`; `place` puts it in its place when all is written.
    pub(crate) fn new<W: Write + Send + 'static>(
        mut file: W,
        place: impl FnOnce(W) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel::<Vec<u8>>(WAITING);
        let body = move || {
            for chunk in receiver {
                if chunk.is_empty() {
                    return file.flush().and_then(|()| place(file));
                }
                file.write_all(&chunk)?;
            }
            // Abandoned: no empty chunk came. The file goes, and nothing is put in its place.
            Ok(())
        };
        let thread = thread::Builder::new().name("log".to_owned()).spawn(body)?;
        Ok(Self { chunk: Vec::with_capacity(CHUNK), chunks: Some(sender), thread: Some(thread), overrun: false })
    }

    fn hand_over(&mut self) {
        let Some(chunks) = &self.chunks else { return };
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        match chunks.try_send(chunk) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => self.overrun = true,
            // The thread says why at the end.
            Err(TrySendError::Disconnected(_)) => {}
        }
        self.chunks = None;
    }

    /// Writes the rest and puts the file in its place; once.
    pub(crate) fn finish(&mut self) -> Result<(), LogProblem> {
        self.hand_over();
        if let Some(chunks) = self.chunks.take() {
            // The end. Here it may wait.
            let _ = chunks.send(Vec::new());
        }
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = thread.join();
        if self.overrun {
            return Err(LogProblem::TooSlow);
        }
        Ok(ended.map_err(|_| LogProblem::Panicked)??)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunks.is_some() {
            self.chunk.extend_from_slice(bytes);
            if self.chunk.len() >= CHUNK {
                self.hand_over();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_sink_places_what_was_written_and_only_when_finished() {
        let placed = Arc::new(Mutex::new(None));
        let begin = || {
            let placed = Arc::clone(&placed);
            let place = move |file: Vec<u8>| {
                *placed.lock().unwrap() = Some(file);
                Ok(())
            };
            Sink::new(Vec::new(), place).unwrap()
        };
        let mut abandoned = begin();
        abandoned.write_all(b"half").unwrap();
        drop(abandoned);
        let mut sink = begin();
        let wanted: Vec<u8> = (0..3 * CHUNK).map(|index| index as u8).collect();
        wanted.chunks(1000).for_each(|chunk| sink.write_all(chunk).unwrap());
        assert_eq!(*placed.lock().unwrap(), None);
        sink.finish().unwrap();
        assert!(placed.lock().unwrap().as_ref() == Some(&wanted));
        // Once is enough.
        sink.finish().unwrap();
    }

    #[test]
    fn a_full_disk_is_one_line_at_the_end() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Sink::new(full, |_| panic!("a broken file is not placed")).unwrap();
        for _ in 0..10 {
            sink.write_all(&[7; CHUNK]).unwrap();
        }
        assert_eq!(sink.finish().unwrap_err().to_string(), "No space left on device (os error 28)");
    }
}
