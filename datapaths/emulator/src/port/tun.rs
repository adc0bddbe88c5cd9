//! A TUN device as a port. It needs `/dev/net/tun`, and no care for link-layer addresses.
//!
//! The kernel delivers whole segmentation-offload frames with a virtual-network header; they are split here into the
//! packets that a wire would carry, checksums completed, so that a link model sees those. What comes out of a path is
//! written packet by packet: to join segments again would hide from the receiver how far apart they arrived.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use tun_rs::{DeviceBuilder, IDEAL_BATCH_SIZE, SyncDevice, VIRTIO_NET_HDR_LEN};

use crate::frame::{Frame, MAX_PACKET};
use crate::port::{Interface, Port, refusal};
use paceline_clock::Clock;

/// Packets that the kernel should keep for us: to be set by netlink, as other ways need privilege outside the namespace (its default is 500; our choice: what 100 ms of 1 Gbit/s come to).
pub const BACKLOG: u32 = 10_000;
/// Reads before what was read is carried on (our choice).
const BATCH: usize = 64;

/// A TUN device: what the namespace routes to it is read here. Gone when dropped.
pub struct Tun {
    device: SyncDevice,
    interface: Interface,
    /// The frame as it was read, and the packets it was split into with their lengths.
    whole: Vec<u8>,
    pieces: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    /// A packet behind space for its virtual-network header.
    written: Vec<u8>,
    unusable: u64,
}

impl Tun {
    /// Makes the device `name` in the namespace of the calling thread; it is down and has no address yet.
    ///
    /// # Errors
    /// Without `/dev/net/tun`, without the right to administer the namespace, or when the name is in use.
    pub fn create(name: &str) -> io::Result<Self> {
        let builder = DeviceBuilder::new().name(name).inherit_enable_state();
        let device = builder.with(|builder| _ = builder.offload(true)).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(Self {
            device,
            interface: Interface::here(name)?,
            whole: vec![0; VIRTIO_NET_HDR_LEN + MAX_PACKET],
            pieces: vec![vec![0; MAX_PACKET]; IDEAL_BATCH_SIZE],
            sizes: vec![0; IDEAL_BATCH_SIZE],
            written: Vec::new(),
            unusable: 0,
        })
    }
}

impl Port for Tun {
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn read(&mut self, clock: Clock, frames: &mut Vec<Frame>) -> io::Result<bool> {
        for _ in 0..BATCH {
            match self.device.recv_multiple(&mut self.whole, &mut self.pieces, &mut self.sizes, 0) {
                Ok(count) => {
                    let now = clock.now();
                    let pieces = self.pieces.iter().zip(&self.sizes).take(count);
                    frames.extend(pieces.map(|(piece, size)| Frame::new(piece[..*size].to_vec(), now)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                // Not from the kernel: a frame that could not be split.
                Err(error) if error.raw_os_error().is_none() => self.unusable += 1,
                Err(error) if refusal(&error) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn write(&mut self, frames: &[Frame]) -> io::Result<u64> {
        let mut refused = 0;
        for frame in frames {
            self.written.clear();
            self.written.resize(VIRTIO_NET_HDR_LEN, 0);
            self.written.extend_from_slice(&frame.bytes);
            match nix::unistd::write(&self.device, &self.written) {
                Ok(_) => {}
                Err(error) if refusal(&error.into()) || error == Errno::EINVAL => refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refused)
    }

    fn overflowed(&self) -> u64 {
        self.unusable + self.interface.dropped()
    }
}
