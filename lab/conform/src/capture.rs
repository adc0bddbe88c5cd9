//! Captured packets of any file that tcpdump and Wireshark read, and a TCP flow from them: what is in flight at its sender, as an estimate
//! of its window.
//!
//! Packets of the flow must have been captured at the sender. The window is the largest flight of the last round trip: what the flow does
//! not use of its window is not seen. What arrived behind a gap, by SACK or by acknowledgements that repeat, and what is lost is not in
//! flight, as in the sender's own count. A loss is seen by its repair.

mod copies;
mod feed;
mod flow;
mod found;
mod link;
mod order;
mod packet;
mod records;
mod sections;

use std::io::Read;
use std::net::SocketAddr;
use std::str::FromStr;

use paceline_lab::input::compressed;
pub use paceline_transport::seen::{NewlyAcked, SeenSegment, SegmentMeaning, Tcp};

use crate::read::FileError;
use crate::trajectory::Trajectory;
pub use copies::Copies;
use flow::Flows;
pub use flow::probes;
use found::Findings;
use order::Order;
pub use packet::{CapturePlace, CapturedPacket, Sacks};
pub use records::is_capture;
use records::{Broken, End, Halt, Record, records};

/// Whose packets: from where to where its data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourTuple {
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
}

/// A text that does not name a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write SENDER:PORT-RECEIVER:PORT, such as 10.0.0.1:443-10.0.0.2:50000")]
pub struct NotAFlow;

impl FromStr for FourTuple {
    type Err = NotAFlow;

    /// `10.0.0.1:443-10.0.0.2:50000`, `[fd00::1]:443-[fd00::2]:50000`.
    fn from_str(text: &str) -> Result<Self, NotAFlow> {
        let (from, to) = text.split_once('-').ok_or(NotAFlow)?;
        Ok(Self { from: from.parse().map_err(|_| NotAFlow)?, to: to.parse().map_err(|_| NotAFlow)? })
    }
}

impl std::fmt::Display for FourTuple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

/// What a file is that has to be unpacked or converted before it is read, by its first bytes: with the fix.
pub fn unread(head: &[u8]) -> Option<String> {
    compressed(head).or_else(|| found::other_capture(head))
}

/// Reads a capture (pcap or pcapng, of any link type that has IP packets): the flow that is wanted, else the one that sent most.
///
/// # Errors
/// [`FileError`] when it is not a capture, is damaged at its start, has not the flow, or no TCP at all.
pub fn read(file: &str, from: impl Read, wanted: Option<FourTuple>) -> Result<Trajectory, FileError> {
    let mut flows = Flows::default();
    let notes = packets(file, from, &mut |packet| flows.take(file, packet))?;
    let mut trajectory = flows.trajectory(file, wanted)?;
    trajectory.notes.splice(0..0, notes);
    Ok(trajectory)
}

/// Gives every IP packet of a capture to `take`, in the order of time; the answer is what is to be said of the file, a sentence each.
///
/// A file that is damaged or cut off is read up to there. Each packet is given as often as it is in the file: [`Copies`] knows them again.
///
/// # Errors
/// [`FileError`] when it is not a capture, is damaged at its start, or has no IP packets: with what it has. What `take` says.
pub fn packets(
    file: &str,
    mut from: impl Read,
    take: &mut impl FnMut(&CapturedPacket) -> Result<(), FileError>,
) -> Result<Vec<String>, FileError> {
    let mut head = Vec::new();
    let read = (&mut from).take(16).read_to_end(&mut head);
    read.map_err(|error| FileError::new(file, 0, format!("cannot be read ({error}); name a capture")))?;
    if !is_capture(&head) {
        let problem = unread(&head);
        let problem =
            problem.as_deref().unwrap_or("it is not a capture; give a pcap or pcapng file, such as tcpdump writes");
        return Err(FileError::new(file, 0, problem));
    }
    let (mut findings, mut order) = (Findings::default(), Order::default());
    let ended = records(head.as_slice().chain(from), &mut |record| match findings.packet(record) {
        Some(packet) => order.push(packet, take),
        None => Ok(()),
    });
    let broken = match ended {
        Ok(()) => None,
        Err(Halt::Taker(error)) => return Err(error),
        Err(Halt::Broken(broken)) => Some(broken),
    };
    order.finish(take)?;
    if findings.packets == 0 {
        if let Some(Broken { problem, .. }) = broken {
            let problem = format!("it is damaged or cut off ({problem}); give the whole file");
            return Err(FileError::new(file, 0, problem));
        }
        return Err(FileError::new(file, 0, findings.refusal()));
    }
    let mut notes = Vec::new();
    if let Some(Broken { number, problem }) = broken {
        notes.push(format!("It is damaged or cut off at packet {number} ({problem}): read up to there."));
    }
    notes.extend(findings.notes());
    notes.extend(order.notes());
    Ok(notes)
}
