//! One connection: what it has in every mode, and the mode that it is in.
//!
//! Nothing here waits and nothing locks: an engine calls it when the socket has news, when a time has come, and when the
//! application has written.

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;

use paceline_cc::{ReceiverHalf, Time};
use paceline_linux::sockopt::{MaxPacingRate, setsockopt};
use rustix::io::Errno;

use crate::clock;
use crate::frame::Violation;
use crate::framed::Framed;
use crate::inline::Inline;
use crate::layer::Framing;
use crate::link::{Link, Program};
use crate::options::Acks;
use crate::queued::{Queued, Source};
use crate::stamps::Reader;

/// One connection.
pub(crate) struct Flow {
    pub(crate) link: Link,
    mode: Mode,
}

/// How its bytes reach TCP.
enum Mode {
    Queue(Queued),
    Inline(Inline),
    Framed(Box<Framed>),
}

impl Flow {
    /// Through the queue, in chunks; from here on it is compared with what the kernel has been given.
    pub(crate) fn queued(mut link: Link, fd: &OwnedFd, source: Source, v6: bool) -> Self {
        link.count_from_here(fd);
        Self { link, mode: Mode::Queue(Queued::new(source, v6)) }
    }

    /// Written to the kernel by the application.
    pub(crate) fn inline(mut link: Link, fd: &OwnedFd) -> Self {
        let mode = Mode::Inline(Inline::new(&mut link, fd));
        Self { link, mode }
    }

    /// Through the queue, in frames from the first byte on. Chunks are to be counted without their heads: the packets that
    /// the link knows have to be smaller by [`crate::frame::MAX_HEADER`].
    pub(crate) fn framed(link: Link, framing: Framing) -> Self {
        Self { link, mode: Mode::Framed(Box::new(Framed::new(framing))) }
    }

    /// Goes over to inline mode, if the queue is empty; says whether it has. Frames stay frames.
    pub(crate) fn go_inline(&mut self, fd: &OwnedFd) -> bool {
        if let Mode::Queue(queued) = &self.mode {
            if !self.link.queue.is_empty() {
                return false;
            }
            queued.end(fd);
            self.mode = Mode::Inline(Inline::new(&mut self.link, fd));
        }
        self.is_inline()
    }

    /// The application writes to the kernel.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.mode, Mode::Inline(_))
    }

    /// Bytes travel in frames.
    pub(crate) fn is_framed(&self) -> bool {
        matches!(self.mode, Mode::Framed(_))
    }

    /// Where acknowledgements are read; never [`Acks::Auto`].
    pub(crate) fn acks(&self) -> Acks {
        match &self.mode {
            Mode::Queue(queued) => queued.acks(),
            Mode::Inline(_) | Mode::Framed(_) => Acks::Info,
        }
    }

    /// Hands to TCP what the controller permits; `all` when nothing more will be written.
    ///
    /// # Errors
    /// The connection's: it is dead, and what was queued is lost.
    pub(crate) fn pump(&mut self, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
        let link = &mut self.link;
        if link.blocked || link.dead {
            return Ok(());
        }
        let pumped = match &mut self.mode {
            Mode::Queue(queued) => queued.pump(link, fd, all),
            Mode::Inline(_) => Ok(()),
            Mode::Framed(framed) => framed.pump(link, fd, all),
        };
        if pumped.is_err() {
            link.die();
        }
        pumped
    }

    /// Reads the stamps that wait and informs the controller.
    pub(crate) fn read_stamps(&mut self, fd: &OwnedFd, reader: &mut Reader) {
        if let Mode::Queue(queued) = &mut self.mode {
            queued.read_stamps(&mut self.link, fd, reader);
        }
    }

    /// Reads what the peer has sent in frames.
    ///
    /// # Errors
    /// `EPROTO` when it broke the format ([`Flow::broken`] says how), or the connection's: it is dead.
    pub(crate) fn read_frames(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        let Mode::Framed(framed) = &mut self.mode else { return Ok(()) };
        let read = framed.read(&mut self.link, fd);
        if read.is_err() {
            self.link.die();
        }
        read
    }

    /// The connection may be over, or have gone on without a word: looks whether it has.
    pub(crate) fn look_now(&mut self, fd: &OwnedFd) {
        let now = self.link.local(clock::now());
        match &mut self.mode {
            Mode::Queue(queued) => queued.look(&mut self.link, fd, now),
            Mode::Inline(_) | Mode::Framed(_) => drop(self.link.look(fd, now)),
        }
    }

    /// A time has come: the controller's clock, and the look at what happened without a word. In inline mode the program may have
    /// written through the library since the last.
    pub(crate) fn timer(&mut self, fd: &OwnedFd, reader: &mut Reader, has_written: impl Fn() -> bool) {
        match &mut self.mode {
            Mode::Queue(queued) => queued.timer(&mut self.link, fd, reader),
            Mode::Inline(inline) => inline.timer(&mut self.link, fd, has_written),
            Mode::Framed(framed) => framed.timer(&mut self.link, fd),
        }
    }

    /// When [`Flow::timer`] and [`Flow::pump`] want to be called; never for an idle connection.
    pub(crate) fn next_wake(&self) -> Time {
        let link = &self.link;
        match &self.mode {
            _ if link.dead => Time::NEVER,
            Mode::Queue(queued) => link.next_wake(queued.next_burst()),
            Mode::Inline(_) => link.absolute(link.look_at),
            Mode::Framed(framed) => link.next_wake(Time::ZERO).min(framed.next_ack(link)),
        }
    }

    /// A batch waits, and leaves without anything more being written.
    pub(crate) fn is_expected(&self) -> bool {
        matches!(&self.mode, Mode::Queue(queued) if queued.is_expected(&self.link))
    }

    /// Nothing waits for TCP, neither in the queue nor of what was framed.
    pub(crate) fn is_empty(&self) -> bool {
        let framed_is_out = match &self.mode {
            Mode::Framed(framed) => framed.is_out() || self.link.dead,
            Mode::Queue(_) | Mode::Inline(_) => true,
        };
        self.link.queue.is_empty() && framed_is_out
    }

    /// After bytes were taken or sent: what protects the stream while some wait.
    pub(crate) fn protect(&mut self, fd: &OwnedFd) {
        let busy = !self.is_empty();
        self.link.protect(fd, busy);
    }

    /// In inline mode: the application writes.
    pub(crate) fn watch(&mut self, fd: &OwnedFd) {
        if let Mode::Inline(inline) = &mut self.mode {
            inline.watch(&mut self.link, fd);
        }
    }

    /// The kernel's options are the program's again; in inline mode until it writes.
    pub(crate) fn let_go(&mut self, fd: &OwnedFd) {
        match &mut self.mode {
            Mode::Inline(inline) => inline.let_go(&mut self.link, fd),
            Mode::Queue(_) | Mode::Framed(_) => self.link.program.restore(fd),
        }
    }

    /// In inline mode: `fd` is another socket of the program's by now, which may have got what was meant for this one.
    pub(crate) fn take_back(&self, fd: &OwnedFd) {
        if let Mode::Inline(inline) = &self.mode {
            inline.take_back(&self.link, fd);
        }
    }

    /// The program has set options of its own that the engine uses as well.
    pub(crate) fn set_program(&mut self, fd: &OwnedFd, program: Program) {
        self.link.program = program;
        match &mut self.mode {
            Mode::Inline(inline) => inline.set_program(&self.link, fd),
            Mode::Queue(_) | Mode::Framed(_) => drop(setsockopt(fd, MaxPacingRate, &program.pacing)),
        }
    }

    /// In inline mode: a reading is due.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_inline() && self.link.look_at != Time::NEVER
    }

    /// The end of our stream has been sent.
    pub(crate) fn shut(&mut self) {
        if let Mode::Framed(framed) = &mut self.mode {
            framed.shut();
        }
    }

    /// In framed mode: the receiver half of the peer's controller.
    pub(crate) fn set_half(&mut self, half: Box<dyn ReceiverHalf>) {
        if let Mode::Framed(framed) = &mut self.mode {
            framed.set_half(half);
        }
    }

    /// How the peer broke the format of frames.
    pub(crate) fn broken(&self) -> Option<Violation> {
        match &self.mode {
            Mode::Framed(framed) => framed.broken(),
            Mode::Queue(_) | Mode::Inline(_) => None,
        }
    }

    /// Bytes of the peer's stream that came in frames: nothing when there are none yet, 0 at the end.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> Option<usize> {
        match &mut self.mode {
            Mode::Framed(framed) => framed.receive(bytes).or(self.link.dead.then_some(0)),
            Mode::Queue(_) | Mode::Inline(_) => None,
        }
    }
}
