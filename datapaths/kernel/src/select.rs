//! Selects a congestion control for the sockets of one cgroup.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};

use crate::LoadError;
use crate::load::{explain, listen, missing};

/// The object that `build.rs` makes of `src/bpf/select.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/select.bpf.o"));

/// What it is called where it is refused.
const NAME: &str = "the selection for a cgroup";

/// Bytes of a name, with the zero at its end. Linux include/net/tcp.h, `TCP_CA_NAME_MAX`.
const NAME_BYTES: usize = 16;

/// A program that gives each new TCP socket of a cgroup and of those below it a congestion control: those that connect before
/// their handshake, those that listen with all that they accept. A socket for which its program has chosen one keeps that. Ends
/// when it is dropped, and with the process; sockets keep what they have.
pub struct Selection {
    _link: Link,
    object: Object,
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection").finish_non_exhaustive()
    }
}

impl Selection {
    /// Begins to select the controller of that name, which the kernel may know now or later, in the cgroup whose folder is open as
    /// `cgroup`.
    ///
    /// # Errors
    /// When the process is not root, or the kernel refuses the program.
    ///
    /// # Panics
    /// When the name has more than 15 bytes.
    pub fn start(cgroup: BorrowedFd<'_>, name: &str) -> Result<Self, LoadError> {
        assert!(name.len() < NAME_BYTES, "{name}: the kernel's names have at most 15 bytes");
        listen();
        attach(cgroup, name).map_err(|source| explain(NAME, source))
    }

    /// Sockets that did not get it: no one had it loaded at that time, or their route has a controller of its own.
    pub fn refused(&self) -> u64 {
        let map = self.object.maps().find(|map| map.name() == "refused");
        let value = map.and_then(|map| map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }
}

fn attach(cgroup: BorrowedFd<'_>, name: &str) -> libbpf_rs::Result<Selection> {
    let mut open = ObjectBuilder::default().name("select")?.open_memory(OBJECT)?;
    let mut constants =
        open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata")).ok_or_else(missing)?;
    // The name is the only constant.
    let bytes = constants.initial_value_mut().and_then(|bytes| bytes.get_mut(..name.len())).ok_or_else(missing)?;
    bytes.copy_from_slice(name.as_bytes());
    let object = open.load()?;
    let program = object.progs_mut().next().ok_or_else(missing)?;
    let link = program.attach_cgroup(cgroup.as_raw_fd())?;
    Ok(Selection { _link: link, object })
}
