//! Loads the program, and puts it on an interface.

use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::libbpf_sys::XDP_ATTACHED_DRV;
use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, Object, ObjectBuilder, Xdp, XdpFlags};
use paceline_kernel::BTF;
use paceline_kernel::load::{heard, listen, missing};
use paceline_linux::interface::Interfaces;
use paceline_linux::link::link;

use crate::KernelStoreError;
use crate::store::PART_UNITS;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/store.bpf.o"));

/// Linux include/uapi/linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;

/// Bytes of a unit's packet over IPv6.
const PACKET: u32 = 40 + 8 + 30 + 1400;

/// The program and its maps, with so many slabs; `bytes` are what was asked for.
pub(crate) fn load(slabs: u32, bytes: u64) -> Result<Object, KernelStoreError> {
    if !Path::new(BTF).exists() {
        return Err(KernelStoreError::NoBtf);
    }
    listen();
    let loaded = || {
        let mut object = ObjectBuilder::default().open_memory(OBJECT)?;
        for mut map in object.maps_mut() {
            match map.name().to_str() {
                Some("units") => map.set_max_entries(slabs * PART_UNITS)?,
                Some("parts") => map.set_max_entries(slabs)?,
                _ => {}
            }
        }
        object.load()
    };
    loaded().map_err(|source: libbpf_rs::Error| {
        let said = format!("{source:#}");
        // A program that the verifier refuses is EACCES, which is the same kind.
        if source.kind() == ErrorKind::PermissionDenied && said.contains("os error 1)") {
            KernelStoreError::NotRoot
        } else if ["os error 12)", "os error 7)"].iter().any(|errno| said.contains(errno)) {
            KernelStoreError::Memory(bytes)
        } else {
            refused(source)
        }
    })
}

/// The error for what the system said, after [`load`] has begun to listen.
pub(crate) fn refused(source: libbpf_rs::Error) -> KernelStoreError {
    KernelStoreError::Refused { source, said: heard() }
}

/// A map of the object.
pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle, KernelStoreError> {
    let map = object.maps().find(|map| map.name() == name).ok_or_else(missing);
    map.and_then(|map| MapHandle::try_from(&map)).map_err(refused)
}

/// Puts the program on an interface of the calling thread's network namespace. The kernel takes it away with its descriptor.
pub(crate) fn attach(object: &Object, name: &str) -> Result<Link, KernelStoreError> {
    let none = || KernelStoreError::NoInterface(name.to_owned());
    let found = link(name).ok().flatten().ok_or_else(none)?;
    if found.hatype() != ARPHRD_ETHER {
        return Err(KernelStoreError::NotEthernet(name.to_owned()));
    }
    let mtu = Interfaces::open().and_then(|all| all.mtu(name)).map_err(|_| none())?;
    if mtu < PACKET {
        return Err(KernelStoreError::Mtu { name: name.to_owned(), mtu, wanted: PACKET });
    }
    let index = i32::try_from(found.ifindex()).map_err(|_| none())?;
    let program = object.progs_mut().find(|program| program.name() == "pl_store").ok_or_else(|| refused(missing()))?;
    let link = program.attach_xdp(index).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => KernelStoreError::NotRoot,
        _ => KernelStoreError::Attach { name: name.to_owned(), source },
    })?;
    // Without native XDP the kernel takes it all the same, and copies every packet.
    let mode = Xdp::new(program.as_fd()).query(index, XdpFlags::NONE).map_err(refused)?.attach_mode;
    if u32::from(mode) == XDP_ATTACHED_DRV { Ok(link) } else { Err(KernelStoreError::NotNative(name.to_owned())) }
}
