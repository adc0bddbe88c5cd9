//! The switch of `pl_cubic`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::load::into_io;

/// Whether HyStart (Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks 2011) may end slow start, for flows
/// of [`CUBIC`](crate::CUBIC).
///
/// A process that may ask the kernel for maps (`CAP_SYS_ADMIN`) can switch, whichever process loaded the module. What is set ends with
/// the flow, or with the module.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// use paceline_kernel::KernelHyStart;
///
/// KernelHyStart::Off.set_for_all()?;
/// let flow = std::net::TcpStream::connect("192.0.2.1:80")?;
/// KernelHyStart::On.set(&flow)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelHyStart {
    /// As for all flows; for all, [`KernelHyStart::On`].
    Default,
    /// As Linux's `hystart=1`.
    On,
    /// Slow start ends with the first loss or mark.
    Off,
}

/// The maps of `src/bpf/cubic.bpf.c`.
const OF_FLOW: &str = "pl_cubic_flow";
const OF_ALL: &str = "pl_cubic_all";

impl KernelHyStart {
    /// Sets it for one flow, before it begins or later. It matters as long as the flow is in slow start.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the module is not loaded, [`io::ErrorKind::PermissionDenied`] without privilege; what the
    /// kernel says when `socket` is not a TCP socket.
    pub fn set(self, socket: &impl AsFd) -> io::Result<()> {
        self.write(OF_FLOW, &socket.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Sets it for all flows that have no setting of their own.
    ///
    /// # Errors
    /// As [`KernelHyStart::set`].
    pub fn set_for_all(self) -> io::Result<()> {
        self.write(OF_ALL, &0_u32.to_ne_bytes())
    }

    fn write(self, map: &str, key: &[u8]) -> io::Result<()> {
        // The numbers of `enum hystart_switch`.
        let value: u32 = match self {
            Self::Default => 0,
            Self::On => 1,
            Self::Off => 2,
        };
        // Sockets that outlive a load keep its maps: there may be several of that name, and the switch is for all of them.
        let ids: Vec<u32> = MapInfoIter::default().filter(|info| info.name == map).map(|info| info.id).collect();
        if ids.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "pl_cubic is not loaded; load it first"));
        }
        for id in ids {
            let map = MapHandle::from_map_id(id).map_err(into_io)?;
            map.update(key, &value.to_ne_bytes(), MapFlags::ANY).map_err(into_io)?;
        }
        Ok(())
    }
}
