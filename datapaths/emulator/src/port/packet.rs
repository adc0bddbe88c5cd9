//! An AF_PACKET socket on one end of a pair of virtual Ethernet devices as a port. It needs no device node, and the kernel
//! stamps each packet when it arrives, so that a late wake-up does not show in the packet's delay.
//!
//! The other, inner end belongs to the namespace. It must have the address [`MAC`], and no ARP (`IFF_NOARP`: the path is a
//! wire between two hosts). Frames of segmentation offload come whole, with a virtual-network header, and become packets
//! here; packets that leave together are sent as such frames. The inner end may have only the offloads that such a header
//! describes ([`with_plain_offloads`]), and none where the kernel has no such header ([`PacketSocket::takes_frames`],
//! [`without_offloads`]).

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::offload::knows_datagrams;
use crate::frame::{Frame, Joined, Joiner, MAX_PACKET, Pool, Virtio};
use crate::port::{Interface, Port, refusal};
use paceline_linux::clock::Clock;
use paceline_linux::link::packets;
use paceline_linux::messages::{
    ControlMessageOwned, Errno, LinkAddr, MsgFlags, MultiHeaders, TimeSpec, cmsg_space, recvmmsg, sendmmsg,
};
use paceline_linux::sockopt::{ReceiveTimestampns, RxqOvfl, VirtualHeader, setsockopt};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use super::offload::{with_plain_offloads, without_offloads};

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
/// The same for those that the kernel has not carried on yet: sent from one processor, they may wait for another (our choice).
const SEND_BUFFER: usize = 32 << 20;
/// `sll_pkttype` of what this end itself sent (PACKET_OUTGOING in linux/if_packet.h).
const SENT_HERE: u8 = 4;

/// Whether this process may have buffers larger than the system's limit, as root of the system may.
pub fn may_buffer() -> bool {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    any.is_ok_and(|any| set_socket_recv_buffer_size_force(&any, RECEIVE_BUFFER).is_ok())
}

/// The Ethernet header of an IP packet; `None` for other packets.
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
    /// Whether each frame has a virtual-network header.
    virtual_header: bool,
    pool: Pool,
    slots: Vec<Vec<u8>>,
    joiner: Joiner,
    datagrams: bool,
    overflowed: u64,
    unusable: u64,
}

impl PacketSocket {
    /// Opens the interface `name`, the outer end of a pair, in the namespace of the calling thread. It must be up.
    ///
    /// # Errors
    /// When there is no such interface, or without the right to open raw sockets.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = packets(name)?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER))?;
        set_socket_send_buffer_size_force(&socket, SEND_BUFFER)
            .or_else(|_| set_socket_send_buffer_size(&socket, SEND_BUFFER))?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        setsockopt(&socket, RxqOvfl, &1)?;
        let virtual_header = setsockopt(&socket, VirtualHeader, &true).is_ok();
        let pool = Pool::new(Virtio::BYTES + HEADER + MAX_PACKET);
        let mut port = Self {
            socket,
            interface: Interface::here(name)?,
            virtual_header,
            slots: (0..BATCH).map(|_| pool.take()).collect(),
            pool,
            joiner: Joiner::default(),
            datagrams: knows_datagrams(),
            overflowed: 0,
            unusable: 0,
        };
        // Before it was bound it received from every interface of the namespace.
        let mut before = Vec::new();
        while !port.read(Clock::new(), &mut before)? {}
        (port.overflowed, port.unusable) = (0, 0);
        Ok(port)
    }

    /// Whether it can take frames of segmentation offload, and incomplete checksums.
    pub fn takes_frames(&self) -> bool {
        self.virtual_header
    }
}

thread_local! {
    /// Scratch for the kernel's calls. It holds pointers, so that it cannot move with a socket to another thread.
    static INCOMING: RefCell<MultiHeaders<LinkAddr>> = RefCell::new(incoming());
    static OUTGOING: RefCell<MultiHeaders<LinkAddr>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

/// Headers with space for a timestamp and the number of packets dropped.
fn incoming() -> MultiHeaders<LinkAddr> {
    MultiHeaders::preallocate(BATCH, Some(cmsg_space!(TimeSpec, u32)))
}

impl Port for PacketSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn read(&mut self, clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool> {
        INCOMING.with_borrow_mut(|headers| self.read_batch(clock, frames, headers))
    }

    fn write(&mut self, frames: &[Frame]) -> io::Result<u64> {
        OUTGOING.with_borrow_mut(|scratch| {
            let socket = self.socket.as_fd();
            if !self.virtual_header {
                let batches = frames.chunks(BATCH).map(|batch| write_packets(socket, batch, scratch));
                return batches.sum();
            }
            let mut refused = 0;
            let mut joined = self.joiner.join(frames, self.datagrams);
            loop {
                let batch: Vec<_> = joined.by_ref().take(BATCH).collect();
                if batch.is_empty() {
                    return Ok(refused);
                }
                refused += write_frames(socket, &batch, scratch)?;
            }
        })
    }

    fn overflowed(&self) -> u64 {
        self.overflowed + self.unusable + self.interface.dropped()
    }
}

impl PacketSocket {
    fn read_batch(
        &mut self,
        clock: Clock,
        frames: &mut Vec<Frame>,
        headers: &mut MultiHeaders<LinkAddr>,
    ) -> io::Result<bool> {
        let virtual_header = self.virtual_header;
        let before = if virtual_header { Virtio::BYTES } else { 0 };
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self.slots.iter_mut().map(|slot| [IoSliceMut::new(slot)]).collect();
        let batch = match recvmmsg(self.socket.as_raw_fd(), headers, &mut slices, MsgFlags::MSG_DONTWAIT, None) {
            Ok(batch) => batch,
            // The header cannot describe it; it is gone.
            Err(Errno::EINVAL) if virtual_header => {
                self.unusable += 1;
                return Ok(false);
            }
            Err(error) if refusal(&error.into()) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        // What is to be taken: its slot, its length and when it arrived.
        let (mut count, mut taken) = (0, Vec::with_capacity(BATCH));
        for message in batch {
            let mut arrived = None;
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::ScmTimestampns(stamp) => arrived = Some(clock.of_kernel(stamp.into())),
                    ControlMessageOwned::RxqOvfl(dropped) => self.overflowed = u64::from(dropped),
                    _ => {}
                }
            }
            let ours = message.address.is_none_or(|from| from.pkttype() == SENT_HERE);
            if !ours {
                taken.push((count, message.bytes, arrived.unwrap_or_else(|| clock.now())));
            }
            count += 1;
        }
        for (slot, length, arrived) in taken {
            let slot = &mut self.slots[slot];
            let from = before + HEADER;
            if slot.get(from..length).and_then(header).is_none() {
                continue;
            }
            let virtio = slot.first_chunk().filter(|_| virtual_header).map(|bytes| Virtio::read(*bytes));
            let virtio = virtio.unwrap_or_default().without(HEADER as u16);
            let split = virtio.map(|virtio| Frame::take(virtio, slot, from..length, &self.pool, arrived, frames));
            self.unusable += u64::from(!matches!(split, Some(Ok(()))));
        }
        if count == BATCH {
            // Where the kernel had less to say it wrote shorter lengths into the headers. Drops show in the batch after a
            // full one, since packets are dropped when many wait.
            *headers = incoming();
        }
        Ok(count < BATCH)
    }
}

/// Sends frames as they are, behind virtual-network headers; says how many packets were refused.
fn write_frames(socket: BorrowedFd<'_>, batch: &[Joined<'_>], scratch: &mut MultiHeaders<LinkAddr>) -> io::Result<u64> {
    let link = |joined: &Joined<'_>| joined.pieces().next().and_then(header).unwrap_or_default();
    let headers = batch.iter().map(|joined| (joined.virtio().write(HEADER as u16), link(joined)));
    let headers: Vec<_> = headers.collect();
    let slices = headers.iter().zip(batch).map(|((virtio, link), joined)| {
        [&virtio[..], link].into_iter().chain(joined.pieces()).map(IoSlice::new).collect()
    });
    let slices: Vec<Vec<IoSlice<'_>>> = slices.collect();
    send_all(socket, &slices, |refused| batch[refused].packets(), scratch)
}

/// Sends packets complete and one by one; says how many were refused.
fn write_packets(socket: BorrowedFd<'_>, batch: &[Frame], scratch: &mut MultiHeaders<LinkAddr>) -> io::Result<u64> {
    let packets: Vec<_> = batch.iter().map(Frame::bytes).collect();
    let headers: Vec<_> = packets.iter().map(|packet| header(packet).unwrap_or_default()).collect();
    let slices = headers.iter().zip(&packets).map(|(header, packet)| [&header[..], packet].map(IoSlice::new).to_vec());
    let slices: Vec<Vec<IoSlice<'_>>> = slices.collect();
    send_all(socket, &slices, |_| 1, scratch)
}

/// Sends messages; of one that is refused, `packets` says how many packets it is.
fn send_all(
    socket: BorrowedFd<'_>,
    messages: &[Vec<IoSlice<'_>>],
    packets: impl Fn(usize) -> u64,
    scratch: &mut MultiHeaders<LinkAddr>,
) -> io::Result<u64> {
    let (mut sent, mut refused) = (0, 0);
    while sent < messages.len() {
        let rest = &messages[sent..];
        let to = vec![None; rest.len()];
        match sendmmsg(socket.as_raw_fd(), scratch, rest, to, [], MsgFlags::MSG_DONTWAIT) {
            Ok(results) => sent += results.count().max(1),
            // The first of the rest.
            Err(error) if refusal(&error.into()) || error == Errno::EINVAL => {
                refused += packets(sent);
                sent += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(refused)
}
