//! Timestamps on the error queue: when the last byte of each write left and was acknowledged.
//!
//! Source: Linux `Documentation/networking/timestamping.rst`, `net/ipv4/tcp.c` (`tcp_tx_timestamp`). A stamp names a byte by
//! its offset from the one that was next when stamps were switched on, modulo 2^32. Writes that share a packet buffer
//! share a stamp, so each chunk is written with `MSG_EOR`. The queue is bounded and drops silently: a stamp says that
//! everything up to its byte was acknowledged, and what is missing is repaired from `TCP_INFO`.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use paceline_cc::Time;
use paceline_linux::messages::{ControlMessageOwned, Errno, MsgFlags, MultiHeaders, recvmmsg};
use paceline_linux::sockopt::{Timestamping, setsockopt};

use crate::clock::Offset;

const TX_SOFTWARE: u32 = 1 << 1;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;
/// Offsets count from the next byte to be written, not from the first unacknowledged one. Since Linux 6.2.
const OPT_ID_TCP: u32 = 1 << 16;

/// `SO_EE_ORIGIN_TIMESTAMPING`.
const ORIGIN: u8 = 4;
/// `SCM_TSTAMP_SND`, `SCM_TSTAMP_ACK`.
const SENT: u32 = 0;
const ACKED: u32 = 2;

/// What happened to a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It was given to the device.
    Left,
    /// It was acknowledged.
    Acked,
}

/// One stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) event: Event,
    /// The byte, modulo 2^32.
    pub(crate) id: u32,
    pub(crate) at: Time,
}

/// The byte from which a kernel counts offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// The one that was next to be written when stamps were switched on.
    NextByte,
    /// The first that was unacknowledged then.
    FirstUnacknowledged,
}

/// What a write gets stamps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamped {
    /// Nothing.
    Nothing,
    /// Its acknowledgement.
    Acks,
    /// Its departure and its acknowledgement.
    DeparturesAndAcks,
}

impl Zero {
    fn flags(self) -> u32 {
        match self {
            Self::NextByte => OPT_ID_TCP,
            Self::FirstUnacknowledged => 0,
        }
    }
}

impl Stamped {
    fn flags(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Acks => TX_ACK,
            Self::DeparturesAndAcks => TX_ACK | TX_SOFTWARE,
        }
    }
}

fn request(fd: &impl AsFd, zero: Zero, stamped: Stamped) -> io::Result<()> {
    setsockopt(fd, Timestamping, &(SOFTWARE | OPT_ID | OPT_TSONLY | zero.flags() | stamped.flags()))
}

/// Says which stamps what is written from now on gets; `zero` as [`enable`] said.
pub(crate) fn set(fd: &impl AsFd, zero: Zero, stamped: Stamped) {
    // The kernel took more than these.
    let _ = request(fd, zero, stamped);
}

/// Switches stamps on. Says from where the kernel counts.
///
/// # Errors
/// The kernel gives none.
pub(crate) fn enable(fd: &impl AsFd) -> io::Result<Zero> {
    match request(fd, Zero::NextByte, Stamped::DeparturesAndAcks) {
        Ok(()) => Ok(Zero::NextByte),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            request(fd, Zero::FirstUnacknowledged, Stamped::DeparturesAndAcks)?;
            Ok(Zero::FirstUnacknowledged)
        }
        Err(error) => Err(error),
    }
}

/// Switches stamps off.
pub(crate) fn disable(fd: &impl AsFd) {
    // A kernel that took the flags takes none of them.
    let _ = setsockopt(fd, Timestamping, &0);
}

/// Stamps read in one call.
const BATCH: usize = 32;
/// Room for the control messages of one: `SCM_TIMESTAMPING` and `IPV6_RECVERR` take 128 bytes.
const CONTROL: usize = 192;

/// Reads error queues; one for all sockets of a thread.
pub(crate) struct Reader {
    /// For IPv4, for IPv6: a header that has held the shorter messages has no room for the longer.
    headers: [Option<MultiHeaders<()>>; 2],
    pub(crate) stamps: Vec<Stamp>,
    /// The stamping clock was set since the read before: times of `stamps` mean nothing.
    pub(crate) clock_was_set: bool,
    count: usize,
    offset: Offset,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self::since(Offset::measure())
    }

    /// Goes on where another one was when it measured the clocks.
    pub(crate) fn since(offset: Offset) -> Self {
        let stamps = Vec::with_capacity(BATCH);
        Self { headers: [None, None], stamps, clock_was_set: false, count: 0, offset }
    }

    /// The clocks at the newest read.
    pub(crate) fn offset(&self) -> Offset {
        self.offset
    }

    /// How many stamps were read since this was last asked.
    pub(crate) fn take_count(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    /// Replaces `stamps` by up to a batch from the queue, oldest first. Says whether there may be more.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn read(&mut self, fd: &impl AsFd, v6: bool) -> io::Result<bool> {
        self.stamps.clear();
        let slot = &mut self.headers[usize::from(v6)];
        let headers = slot.get_or_insert_with(|| MultiHeaders::preallocate(BATCH, Some(Vec::with_capacity(CONTROL))));
        let mut nothing: [[IoSliceMut<'_>; 0]; BATCH] = std::array::from_fn(|_| []);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let messages = match recvmmsg(fd.as_fd().as_raw_fd(), headers, &mut nothing, flags, None) {
            Ok(messages) => messages,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let offset = Offset::measure();
        self.clock_was_set = offset.was_set_since(&self.offset);
        self.offset = offset;
        let (mut count, mut foreign) = (0, false);
        for message in messages {
            count += 1;
            match message.cmsgs().ok().and_then(|controls| parse(controls, &offset)) {
                Some(stamp) => self.stamps.push(stamp),
                None => foreign = true,
            }
        }
        if foreign {
            // A message of another kind may have left a header with less room.
            *slot = None;
        }
        self.count += count;
        Ok(count == BATCH)
    }
}

fn parse(controls: impl Iterator<Item = ControlMessageOwned>, offset: &Offset) -> Option<Stamp> {
    let (mut at, mut what) = (None, None);
    for control in controls {
        match control {
            ControlMessageOwned::ScmTimestampsns(stamps) => {
                at = Some(offset.map(stamps.system.into()));
            }
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                let event = match (error.ee_origin, error.ee_info) {
                    (ORIGIN, SENT) => Event::Left,
                    (ORIGIN, ACKED) => Event::Acked,
                    _ => return None,
                };
                what = Some((event, error.ee_data));
            }
            _ => {}
        }
    }
    let ((event, id), at) = (what?, at?);
    Some(Stamp { event, id, at })
}

/// The position behind the byte `id`, which is known modulo 2^32 and lies near `known`: the stamps of a connection cover
/// less than 2^31 bytes at any time.
pub(crate) fn position(id: u32, known: u64) -> u64 {
    let end = id.wrapping_add(1);
    let ahead = end.wrapping_sub(known as u32) as i32;
    known.saturating_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::position;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

        #[test]
        fn offsets_beyond_32_bits_are_exact(
            start in 0..u64::from(u32::MAX) * 5,
            steps in proptest::collection::vec(1..2_000_000_000_u64, 1..50),
        ) {
            let mut known = start;
            for step in steps {
                let end = known + step;
                prop_assert_eq!(position((end - 1) as u32, known), end);
                // A stamp from before what is known, as a retransmission's, is behind it.
                prop_assert_eq!(position((known.max(1) - 1) as u32, end), known.max(1));
                known = end;
            }
        }
    }
}
