//! A connected socket in the care of an engine.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use paceline_cc::{ReceiverHalf, Remembered};
use rustix::event::epoll;
use rustix::io::Errno;

use crate::clock;
use crate::figures::SocketStats;
use crate::held::Lent;
use crate::inner::Inner;
use crate::options::Mode;
use crate::stamps::Reader;

/// A connected TCP socket whose sending a controller decides. See [`crate::Engine::adopt`].
///
/// Calls are those of one socket: several threads may write at once, and what each writes stays together only as far as
/// the queue takes it in one piece, as with the kernel. Dropping it is [`Socket::close`] with the engine's linger time.
pub struct Socket {
    pub(crate) inner: Arc<Inner>,
}

impl Socket {
    /// Writes, as `send(2)` does. Blocking: returns when all is taken, or at the socket's `SO_SNDTIMEO`. Non-blocking:
    /// takes what there is room for. No signal is raised.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing was taken because the queue is full. The connection's error
    /// (`ECONNRESET`, `ETIMEDOUT`, `EPIPE`) once after it has failed; `EPIPE` from then on, and after
    /// [`Socket::shutdown_write`]. [`io::ErrorKind::Interrupted`] when a signal arrived before anything was taken.
    pub fn send(&self, bufs: &[IoSlice<'_>], nonblocking: bool) -> io::Result<usize> {
        self.send_after(0, bufs, nonblocking)
    }

    /// As [`Socket::send`], as the rest of a call of which this many bytes `went`: when any did, the connection's error is told again to the
    /// next call, since this one says how many they were.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send_after(&self, went: usize, bufs: &[IoSlice<'_>], nonblocking: bool) -> io::Result<usize> {
        if self.mode() == Mode::Inline {
            // Before, since it may block; after, since the engine may have looked in between and found nothing.
            self.wrote();
            let sent = self.inner.send_inline(bufs, nonblocking);
            self.wrote();
            return sent;
        }
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut done = 0;
        loop {
            let failed = {
                let mut state = self.inner.lock();
                let failed = state.failed(went + done > 0);
                if failed.is_none() {
                    done += self.inner.write(&mut state, bufs, done);
                    if done < total {
                        self.inner.refuse(&mut state);
                    }
                }
                failed
            };
            let stop = match failed {
                // Linux `sk_stream_error`: an error that was not told yet comes first.
                Some(Errno::PIPE) if went + done == 0 => self.inner.untold().unwrap_or(Errno::PIPE),
                Some(error) => error,
                None if done == total => return Ok(done),
                None if nonblocking => Errno::AGAIN,
                None => match self.inner.wait_for_room() {
                    Ok(()) => continue,
                    Err(error) => error,
                },
            };
            return if done > 0 { Ok(done) } else { Err(self.inner.told(stop)) };
        }
    }

    /// In mode [`Mode::Framed`]: reads the peer's bytes, as `recv(2)` does. 0 is the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when non-blocking and there are none, or in another mode;
    /// [`io::ErrorKind::InvalidData`] with a [`Violation`](crate::frame::Violation) when the peer broke the format, which
    /// [`Socket::send`] says too.
    pub fn recv(&self, bytes: &mut [u8], nonblocking: bool) -> io::Result<usize> {
        self.inner.recv(bytes, nonblocking.then_some(Duration::ZERO))
    }

    /// As [`Socket::recv`], which waits for `limit` at most.
    ///
    /// # Errors
    /// As [`Socket::recv`]; [`io::ErrorKind::WouldBlock`] when nothing came in that time.
    pub fn recv_within(&self, bytes: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.inner.recv(bytes, Some(limit))
    }

    /// In mode [`Mode::Framed`]: the receiver half of the peer's controller
    /// ([`paceline_cc::Spec::build_receiver`]), once it is known which that is. From now on acknowledgements carry its feedback.
    pub fn set_receiver_half(&self, half: Box<dyn ReceiverHalf>) {
        self.inner.set_half(half);
    }

    /// Payload bytes of a full packet, as its controller, and the peer's receiver half, are to know it.
    pub fn mss(&self) -> u32 {
        self.inner.lock().flow.link.mss
    }

    /// Bytes for which the queue has room.
    pub fn room(&self) -> usize {
        self.inner.lock().flow.link.queue.room()
    }

    /// Bytes in the queue: written, not yet handed to TCP.
    pub fn queued(&self) -> usize {
        self.inner.lock().flow.link.queue.len()
    }

    /// Waits until the queue is empty; says whether it is. Gives up when the peer has taken nothing for `limit`. What TCP then
    /// holds it delivers by itself.
    pub fn drain(&self, limit: Duration) -> bool {
        self.inner.drain(clock::now(), limit, u64::MAX)
    }

    /// Reads the stamps that wait on the error queue, which the engine's thread would do soon: until then a set that the
    /// socket stands in says `EPOLLERR`.
    pub fn catch_up(&self) {
        // Not one for each thread: a signal handler's thread may not have it yet, and be in the middle of an allocation.
        let mut reader = Reader::since(*self.inner.shared.clocks());
        self.inner.on_events(epoll::EventFlags::ERR, &mut reader);
        *self.inner.shared.clocks() = reader.offset();
    }

    /// A chunk that is not full waits no longer for more: the application has said that what it wrote is complete (it took
    /// `TCP_CORK` away).
    pub fn push(&self) {
        let mut state = self.inner.lock();
        state.flow.link.push();
        self.inner.advance(&mut state);
    }

    /// Whether chunks that are not full leave at once, as with `TCP_NODELAY`, which the socket itself always has.
    pub fn set_nodelay(&self, nodelay: bool) {
        let mut state = self.inner.lock();
        state.flow.link.nodelay = nodelay;
        self.inner.advance(&mut state);
    }

    /// Ends the stream once the queue is empty, and returns at once: `shutdown(SHUT_WR)`.
    pub fn shutdown_write(&self) {
        let mut state = self.inner.lock();
        state.ended = true;
        self.inner.advance(&mut state);
    }

    /// Lets go of the socket once the queue is empty. When the peer has taken nothing for `linger`, the rest is dropped and
    /// the connection reset; of zero, what TCP does not take at once is. Returns at once unless the socket's `SO_LINGER`
    /// says to wait, as `close(2)` does; with an `SO_LINGER` of zero the connection is reset.
    pub fn close(&self, linger: Duration) {
        self.inner.close(linger);
    }

    /// Drops what is queued and resets the connection at once, even if others hold the socket. The next call on it says
    /// `ECONNRESET`.
    pub fn abort(&self) {
        self.inner.abort();
    }

    /// Sets `SO_LINGER`, which [`Socket::close`] goes by; `None` switches it off. While the queue holds bytes the socket itself
    /// has one of zero, so that the end of the process resets the connection: one that is set at the socket then
    /// counts, except one of zero, which cannot be distinguished from it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        Ok(self.inner.lock().flow.link.set_linger(&self.inner.fd(), linger)?)
    }

    /// An eventfd that is ready for writing (`POLLOUT`) while the queue has room: it stops when the queue is full, and
    /// is ready again when a quarter of it is free. Put it into a set in the socket's place; `None` for one that
    /// was [lent](crate::Lent) and inline from the start, which says itself when there is room.
    pub fn full(&self) -> Option<BorrowedFd<'_>> {
        self.inner.full().map(AsFd::as_fd)
    }

    /// Another descriptor of the socket.
    ///
    /// # Errors
    /// The operating system's: too many descriptors.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.inner.fd().try_clone()
    }

    /// Of one that the program [lends](crate::Lent): it is about to close the number that it lent, and has this one as well. One that
    /// means another socket is not taken; says whether it is.
    pub fn is_at(&self, fd: Lent) -> bool {
        self.inner.rename(fd)
    }

    /// Of one that the program [lends](crate::Lent): it was closed by a call that was not seen, and the engine has forgotten it.
    pub fn is_lost(&self) -> bool {
        self.inner.lost.load(Ordering::Acquire)
    }

    /// Another process has the socket from now on, or another program in this one: it is as the program has it, until this program
    /// writes to it again.
    pub fn let_go(&self) {
        self.inner.let_go();
    }

    /// Sets the program's own `SO_MAX_PACING_RATE` in bytes a second, which bounds the controller's.
    pub fn set_max_pacing_rate(&self, rate: u64) {
        self.inner.set_program(|program| program.pacing = rate);
    }

    /// Sets the program's own `TCP_NOTSENT_LOWAT` in bytes, which bounds the engine's; zero stands for no bound.
    pub fn set_not_sent_lowat(&self, bytes: u32) {
        self.inner.set_program(|program| program.not_sent = bytes);
    }

    /// How bytes reach TCP at present; never [`Mode::Auto`].
    pub fn mode(&self) -> Mode {
        self.inner.mode()
    }

    /// Goes over to [`Mode::Inline`]: from now on the application writes to the kernel, and reports it by [`Socket::wrote`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while the queue is not empty: [`Socket::drain`] it first. [`io::ErrorKind::Unsupported`] in
    /// mode [`Mode::Framed`]: its peer reads frames.
    pub fn write_through(&self) -> io::Result<()> {
        let mut state = self.inner.lock();
        if state.flow.is_framed() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if state.gone || !state.flow.go_inline(&self.inner.fd()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inner.inline.store(true, Ordering::Release);
        self.inner.shared.hear_nothing(&self.inner.fd());
        self.inner.advance(&mut state);
        Ok(())
    }

    /// Whether the engine is watching already, so that [`Socket::wrote`] has nothing to do. Takes no lock.
    pub fn is_watched(&self) -> bool {
        self.inner.watched.load(Ordering::Acquire)
    }

    /// In mode [`Mode::Inline`]: the application has written to the kernel, not by [`Socket::send`]. Cheap while the engine is
    /// watching already. A call that may block is also reported before it.
    pub fn wrote(&self) {
        if self.inner.inline.load(Ordering::Acquire) && !self.inner.watched.swap(true, Ordering::AcqRel) {
            self.inner.watch();
        }
    }

    /// In mode [`Mode::Inline`], of a socket that was [lent](crate::Lent): the application writes to the kernel by `call`, and says
    /// [`Socket::wrote`] afterwards. All its writes come by here, unless [`Socket::writes_unseen`]: what the kernel has besides others have
    /// written, who are not steered.
    pub fn written_by<T>(&self, call: impl FnOnce() -> T) -> T {
        self.inner.writes.by(call)
    }

    /// From now on not all of the application's writes come by [`Socket::written_by`].
    pub fn writes_unseen(&self) {
        self.inner.writes.unseen();
    }

    /// State and counters.
    pub fn stats(&self) -> SocketStats {
        self.inner.stats()
    }

    /// What its controller has learnt of the path so far, for a later socket to the same place ([`adopt_observed`](crate::Engine::adopt_observed)).
    pub fn remember(&self) -> Option<Remembered> {
        let state = self.inner.lock();
        let link = &state.flow.link;
        link.above.controller().remember(link.local(clock::now()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let linger = self.inner.shared.options.linger;
        self.inner.close(linger);
    }
}
