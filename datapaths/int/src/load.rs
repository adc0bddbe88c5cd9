//! Loads a role's programs with their options.

use std::path::Path;

use libbpf_rs::{ErrorKind, MapCore, Object, ObjectBuilder, OpenObject};
use paceline_kernel::load::{heard, listen};

use crate::NodeError;

pub(crate) use paceline_kernel::BTF;
pub(crate) use paceline_kernel::load::missing;

/// Where the programs have their options.
const CONFIG: &str = ".rodata.config";

/// Loads an object whose options are these octets, after `prepare` has seen it.
pub(crate) fn load(
    role: &'static str,
    bytes: &[u8],
    config: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, NodeError> {
    if !Path::new(BTF).exists() {
        return Err(NodeError::NoBtf);
    }
    listen();
    loaded(bytes, config, prepare).map_err(|source| refused(role, source))
}

fn loaded(
    bytes: &[u8],
    config: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> libbpf_rs::Result<Object> {
    let mut object = ObjectBuilder::default().open_memory(bytes)?;
    let mut map = object.maps_mut().find(|map| map.name() == CONFIG).ok_or_else(missing)?;
    let place = map.initial_value_mut().and_then(|place| place.get_mut(..config.len())).ok_or_else(missing)?;
    place.copy_from_slice(config);
    prepare(&mut object)?;
    object.load()
}

/// The error for what the system said, after [`load`] has begun to listen.
pub(crate) fn refused(role: &'static str, source: libbpf_rs::Error) -> NodeError {
    // EPERM; a program that the verifier refuses is EACCES, which is the same kind.
    if source.kind() == ErrorKind::PermissionDenied && format!("{source:#}").contains("os error 1)") {
        return NodeError::NotRoot;
    }
    NodeError::Refused { role, source, said: heard() }
}

/// A map of an object.
pub(crate) fn map<'object>(object: &'object Object, name: &str) -> libbpf_rs::Result<libbpf_rs::Map<'object>> {
    object.maps().find(|map| map.name() == name).ok_or_else(missing)
}

/// Numbers of 32 bits as the programs read them.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
