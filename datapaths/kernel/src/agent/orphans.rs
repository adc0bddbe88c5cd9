//! The maps of an agent that was killed: sockets that it steered keep the module, and with it the maps. The next agent takes
//! them over, so that it steers these sockets too.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapHandle, OpenObject};

/// A program of the module that uses all of its maps.
const PROGRAM: &str = "agent_init";

/// Gives the object that is about to be loaded the maps of one that has lost its agent, where there is one of the same shape. Says
/// whether it did.
///
/// # Errors
/// The system's.
pub(super) fn adopt(object: &mut OpenObject) -> libbpf_rs::Result<bool> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    // The newest, where several have survived.
    let program = ProgInfoIter::with_query_opts(options).filter(|program| program.name == PROGRAM).last();
    let Some(program) = program else { return Ok(false) };
    let infos: Vec<_> = MapInfoIter::default().filter(|map| program.map_ids.contains(&map.id)).collect();
    let find = |name: &OsStr| infos.iter().find(|info| info.name == name);
    let mut handles = Vec::new();
    for map in object.maps().filter(|map| is_shared(map.name())) {
        let same = find(map.name()).filter(|info| {
            (info.key_size, info.value_size, info.max_entries) == (map.key_size(), map.value_size(), map.max_entries())
        });
        let Some(info) = same else { return Ok(false) };
        let Ok(handle) = MapHandle::from_map_id(info.id) else { return Ok(false) };
        handles.push((map.name().to_owned(), handle));
    }
    for (name, handle) in &handles {
        if let Some(mut map) = object.maps_mut().find(|map| map.name() == name.as_os_str()) {
            map.reuse_fd(handle.as_fd())?;
        }
    }
    Ok(true)
}

/// The map is one that flows and agent share.
fn is_shared(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"pl_")
}
