//! Queue mode: what the application writes waits in our queue, and leaves in chunks that the kernel stamps.

mod acks;

use std::io;
use std::os::fd::OwnedFd;

use paceline_cc::Time;
use paceline_transport::Hold;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::burst::Burst;
use crate::clock;
use crate::link::{LOOK, Link, SILENCE};
use crate::options::Acks;
use crate::stamps::{self, Stamped, Zero};

/// Where acknowledgements come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Stamps, whose positions count from there.
    Stamps(Zero),
    /// `TCP_INFO`.
    Info,
}

/// What queue mode needs.
pub(crate) struct Queued {
    source: Source,
    v6: bool,
    burst: Burst,
    /// When something was last acknowledged.
    news_at: Time,
    /// Looks in a row at which TCP held nothing back.
    clear: u32,
}

impl Queued {
    /// Stamps are switched on already where they are the source.
    pub(crate) fn new(source: Source, v6: bool) -> Self {
        Self { source, v6, burst: Burst::default(), news_at: Time::ZERO, clear: 0 }
    }

    /// Where acknowledgements come from.
    pub(crate) fn acks(&self) -> Acks {
        match self.source {
            Source::Stamps(_) => Acks::Stamps,
            Source::Info => Acks::Info,
        }
    }

    /// Nothing more is written by this.
    pub(crate) fn end(&self, fd: &OwnedFd) {
        if self.source != Source::Info {
            stamps::disable(fd);
        }
    }

    /// Hands to TCP what the controller permits; `all` when nothing more will be written.
    pub(crate) fn pump(&mut self, link: &mut Link, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
        let mut now = link.local(clock::now());
        link.above.tick(now);
        loop {
            link.above.set_chunk(self.burst.packets(link, now));
            let Some(bytes) = link.above.poll(now).filter(|&bytes| !link.waits_for_more(now, bytes, all)) else {
                break;
            };
            link.fill_until = None;
            self.stamp_chunk(link, fd, now, bytes);
            let (pieces, count) = link.queue.front(bytes as usize);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | SendFlags::EOR;
            match sendmsg(fd, &pieces[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(taken) => {
                    if link.above.in_flight() == 0 {
                        link.look_at = now + self.patience(link);
                    }
                    link.queue.consume(taken);
                    link.note_progress(now);
                    link.above.handed(now, taken as u32, link.held_since.is_some());
                }
                Err(Errno::AGAIN) => {
                    link.blocked = true;
                    self.stamp_departures(link, fd, true);
                    link.above.blocked(now);
                    link.look_at = link.look_at.min(now + self.patience(link));
                    break;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            now = link.local(clock::now());
        }
        if link.above.held_by() == Hold::Window {
            // What arrives behind a loss makes room and has no stamp.
            let patience = link.above.rtt().smoothed().unwrap_or(SILENCE).mul_div(1, 8).max(LOOK);
            link.look_at = link.look_at.min(now + patience);
        }
        Ok(())
    }

    /// A chunk of `bytes` is to be sent: lets it be stamped, or not.
    fn stamp_chunk(&mut self, link: &Link, fd: &OwnedFd, now: Time, bytes: u32) {
        if let Source::Stamps(zero) = self.source
            && let Some(covered) = self.burst.leaves(link, now, bytes)
        {
            stamps::set(fd, zero, if covered { Stamped::Nothing } else { self.stamped() });
        }
    }

    /// Before then no timer is needed for what may leave.
    pub(crate) fn next_burst(&self) -> Time {
        self.burst.patient_until()
    }

    /// A batch waits, and leaves without anything more being written.
    pub(crate) fn is_expected(&self, link: &Link) -> bool {
        self.burst.is_on() && link.queue.len() >= link.mss as usize && link.above.in_flight() > 0
    }
}

/// Switches stamps on where they are wanted and given; `quiet` when nothing of before is outstanding.
///
/// # Errors
/// They were asked for by name and the kernel gives none.
pub(crate) fn choose(fd: &OwnedFd, wanted: Acks, quiet: bool) -> io::Result<Source> {
    if wanted == Acks::Info {
        return Ok(Source::Info);
    }
    match stamps::enable(fd) {
        // Without a sure start the positions of bytes written before are in the way.
        Ok(zero) if zero == Zero::NextByte || quiet => Ok(Source::Stamps(zero)),
        Ok(_) => {
            stamps::disable(fd);
            Ok(Source::Info)
        }
        Err(error) if wanted == Acks::Stamps => {
            let hint =
                format!("the kernel stamps no acknowledgements on this socket ({error}); leave PACELINE_ACKS=auto");
            Err(io::Error::new(io::ErrorKind::Unsupported, hint))
        }
        Err(_) => Ok(Source::Info),
    }
}
