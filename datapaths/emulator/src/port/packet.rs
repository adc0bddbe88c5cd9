//! An AF_PACKET socket on one end of a pair of virtual Ethernet devices as a port. It needs no device node, and the kernel
//! stamps each packet when it arrives, so that a late wake-up does not show in the packet's delay.
//!
//! The other, inner end belongs to the namespace. It must have the address [`MAC`], no ARP (`IFF_NOARP`: the path is a
//! wire between two hosts), and no offloads ([`without_offloads`]), so that what is read is what a wire would carry.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, bind,
    recvmmsg, sendmmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::frame::{Frame, MAX_PACKET};
use crate::port::{Interface, Port, refusal};
use paceline_clock::Clock;

pub use super::offload::without_offloads;

/// The link-layer address that every inner end has: locally administered, the rest spells "pacel". Both sides of a path
/// may share it, since each is alone on its wire.
pub const MAC: [u8; 6] = [0x02, b'p', b'a', b'c', b'e', b'l'];

/// Packets read or written by one call of the kernel.
const BATCH: usize = 64;
/// Ethernet header: destination, source, type.
const HEADER: usize = 14;
/// Buffer for packets that wait to be read, in bytes as the kernel counts them (our choice: a 1500-byte packet counts
/// as 2304, so 100 ms at 1 Gbit/s come to 19 MB). Without privilege the kernel's limit for all sockets applies.
const RECEIVE_BUFFER: usize = 32 << 20;
/// `sll_pkttype` of what this end itself sent (PACKET_OUTGOING in linux/if_packet.h).
const SENT_HERE: u8 = 4;

/// Whether this process may have buffers larger than the system's limit, as root of the system may.
pub fn may_buffer() -> bool {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    any.is_ok_and(|any| setsockopt(&any, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_ok())
}

/// The Ethernet header of an IP packet; `None` when it is none.
fn header(packet: &[u8]) -> Option<[u8; HEADER]> {
    let kind: [u8; 2] = match packet.first()? >> 4 {
        4 => [0x08, 0x00],
        6 => [0x86, 0xdd],
        _ => return None,
    };
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&MAC);
    // Sent by another address than the receiver's own, else it would take it for a loop.
    header[6..12].copy_from_slice(&MAC);
    header[11] ^= 1;
    header[12..].copy_from_slice(&kind);
    Some(header)
}

/// A socket that reads and writes all packets of one interface.
pub struct PacketSocket {
    socket: OwnedFd,
    interface: Interface,
    slots: Vec<Vec<u8>>,
    overflowed: u64,
}

impl PacketSocket {
    /// Opens the interface `name`, the outer end of a pair, in the namespace of the calling thread. It must be up.
    ///
    /// # Errors
    /// When there is no such interface, or without the right to open raw sockets.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
        let addresses = getifaddrs()?.filter(|interface| interface.interface_name == name);
        let link = addresses.filter_map(|interface| interface.address?.as_link_addr().copied()).next();
        let link = link.ok_or_else(|| io::Error::other(format!("there is no interface '{name}' here")))?;
        bind(socket.as_raw_fd(), &link)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        let interface = Interface::here(name)?;
        let mut port = Self { socket, interface, slots: vec![vec![0; HEADER + MAX_PACKET]; BATCH], overflowed: 0 };
        // Before it was bound it heard every interface of the namespace.
        let mut before = Vec::new();
        while !port.read(Clock::new(), &mut before)? {}
        port.overflowed = 0;
        Ok(port)
    }
}

thread_local! {
    /// Scratch for the kernel's calls. It holds pointers, so that it cannot move with a socket to another thread.
    static INCOMING: RefCell<MultiHeaders<LinkAddr>> = RefCell::new(incoming());
    static OUTGOING: RefCell<MultiHeaders<LinkAddr>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

/// Headers with space for a timestamp and the number of packets dropped.
fn incoming() -> MultiHeaders<LinkAddr> {
    MultiHeaders::preallocate(BATCH, Some(nix::cmsg_space!(TimeSpec, u32)))
}

impl Port for PacketSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn read(&mut self, clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool> {
        INCOMING.with_borrow_mut(|headers| self.read_batch(clock, frames, headers))
    }

    fn write(&mut self, frames: &[Frame]) -> io::Result<u64> {
        OUTGOING.with_borrow_mut(|headers| {
            let batches = frames.chunks(BATCH).map(|batch| self.write_batch(batch, headers));
            batches.sum()
        })
    }

    fn overflowed(&self) -> u64 {
        self.overflowed + self.interface.dropped()
    }
}

impl PacketSocket {
    fn read_batch(
        &mut self,
        clock: Clock,
        frames: &mut Vec<Frame>,
        headers: &mut MultiHeaders<LinkAddr>,
    ) -> io::Result<bool> {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self.slots.iter_mut().map(|slot| [IoSliceMut::new(slot)]).collect();
        let batch = match recvmmsg(self.socket.as_raw_fd(), headers, &mut slices, MsgFlags::MSG_DONTWAIT, None) {
            Ok(batch) => batch,
            Err(error) if refusal(&error.into()) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut count = 0;
        for message in batch {
            count += 1;
            let mut arrived = None;
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::ScmTimestampns(stamp) => arrived = Some(clock.of_kernel(stamp)),
                    ControlMessageOwned::RxqOvfl(dropped) => self.overflowed = u64::from(dropped),
                    _ => {}
                }
            }
            let ours = message.address.is_none_or(|from| from.pkttype() == SENT_HERE);
            let Some(bytes) = message.iovs().next().and_then(|frame| frame.get(HEADER..)) else { continue };
            if !ours && header(bytes).is_some() {
                frames.push(Frame::new(bytes.to_vec(), arrived.unwrap_or_else(|| clock.now())));
            }
        }
        if count == BATCH {
            // Where the kernel had less to say it wrote shorter lengths into the headers. Drops show in the batch after a
            // full one, since packets are dropped when many wait.
            *headers = incoming();
        }
        Ok(count < BATCH)
    }

    fn write_batch(&mut self, batch: &[Frame], scratch: &mut MultiHeaders<LinkAddr>) -> io::Result<u64> {
        let headers: Vec<_> = batch.iter().map(|frame| header(&frame.bytes).unwrap_or_default()).collect();
        let slices = headers.iter().zip(batch).map(|(header, frame)| [&header[..], &frame.bytes].map(IoSlice::new));
        let slices: Vec<[IoSlice<'_>; 2]> = slices.collect();
        let (mut sent, mut refused) = (0, 0);
        while sent < batch.len() {
            let rest = &slices[sent..];
            let to = vec![None; rest.len()];
            match sendmmsg(self.socket.as_raw_fd(), scratch, rest, to, [], MsgFlags::MSG_DONTWAIT) {
                Ok(results) => sent += results.count().max(1),
                // The first of the rest.
                Err(error) if refusal(&error.into()) || error == Errno::EINVAL => {
                    refused += 1;
                    sent += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refused)
    }
}
