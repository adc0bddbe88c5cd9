//! A TUN device as a port. It needs `/dev/net/tun`, and no care for link-layer addresses.
//!
//! Frames of segmentation offload come whole, with a virtual-network header, and become packets here; packets that
//! leave together are written as such frames. Where the kernel refuses that, each packet is read and written on its own.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, read, writev};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::offload::knows_datagrams;
use crate::frame::{Frame, Joiner, MAX_PACKET, Pool, Virtio};
use crate::port::{Interface, Port, refusal};
use paceline_linux::clock::Clock;

/// Packets that the kernel should keep for us: to be set by netlink, as other ways need privilege outside the namespace (its default is 500; our choice: what 100 ms of 1 Gbit/s come to).
pub const BACKLOG: u32 = 10_000;
/// Reads before what was read is carried on (our choice).
const BATCH: usize = 64;

/// A TUN device: what the namespace routes to it is read here. Gone when dropped.
pub struct Tun {
    device: SyncDevice,
    interface: Interface,
    /// Whether each frame has a virtual-network header.
    virtual_header: bool,
    pool: Pool,
    /// A frame as it was read.
    slot: Vec<u8>,
    joiner: Joiner,
    datagrams: bool,
    unusable: u64,
}

impl Tun {
    /// Makes the device `name` in the namespace of the calling thread; it is down and has no address yet.
    ///
    /// # Errors
    /// Without `/dev/net/tun`, without the right to administer the namespace, or when the name is in use.
    pub fn create(name: &str) -> io::Result<Self> {
        Self::with_offload(name, true).or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::OPNOTSUPP) => Self::with_offload(name, false),
            _ => Err(error),
        })
    }

    fn with_offload(name: &str, wanted: bool) -> io::Result<Self> {
        let builder = DeviceBuilder::new().name(name).inherit_enable_state();
        let device = builder.with(|builder| _ = builder.offload(wanted)).build_sync()?;
        device.set_nonblocking(true)?;
        let pool = Pool::new(Virtio::BYTES + MAX_PACKET);
        Ok(Self {
            device,
            interface: Interface::here(name)?,
            virtual_header: wanted,
            slot: pool.take(),
            pool,
            joiner: Joiner::default(),
            datagrams: knows_datagrams(),
            unusable: 0,
        })
    }

    /// Takes in the frame of `length` bytes that was read.
    fn take(&mut self, length: usize, clock: Clock, frames: &mut Vec<Frame>) {
        let (virtio, from) = match self.slot.first_chunk() {
            Some(header) if self.virtual_header => (Virtio::read(*header), Virtio::BYTES),
            _ => (Virtio::default(), 0),
        };
        let range = from..length.max(from);
        let taken = Frame::take(virtio, &mut self.slot, range, &self.pool, clock.now(), frames);
        self.unusable += u64::from(taken.is_err());
    }
}

impl Port for Tun {
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn read(&mut self, clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool> {
        for _ in 0..BATCH {
            match read(&self.device, &mut self.slot[..]) {
                Ok(length) => self.take(length, clock, frames),
                Err(error) if refusal(&error.into()) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    fn write(&mut self, frames: &[Frame]) -> io::Result<u64> {
        let mut refused = 0;
        let mut sent = |slices: &[IoSlice<'_>], packets| match writev(&self.device, slices) {
            Ok(_) => Ok(()),
            Err(error) if refusal(&error.into()) || error == Errno::INVAL => {
                refused += packets;
                Ok(())
            }
            Err(error) => Err(error),
        };
        if self.virtual_header {
            for joined in self.joiner.join(frames, self.datagrams) {
                let header = joined.virtio().write(0);
                let slices: Vec<_> = std::iter::once(&header[..]).chain(joined.pieces()).map(IoSlice::new).collect();
                sent(&slices, joined.packets())?;
            }
        } else {
            for frame in frames {
                sent(&[IoSlice::new(&frame.bytes())], 1)?;
            }
        }
        Ok(refused)
    }

    fn overflowed(&self) -> u64 {
        self.unusable + self.interface.dropped()
    }
}
