//! paceline in the kernel: TCP congestion controls that are loaded by eBPF (`struct_ops`). [`MODULES`] lists them,
//! [`Module::load`] loads one, [`Selection`] gives it to the sockets of one cgroup. A module's source is `src/bpf/NAME.bpf.c`, its
//! arithmetic `src/bpf/NAME.h`, which tests compile for the host too.
//!
//! Needs Linux 6.4 or newer with BTF, and to load it root. What is loaded may be selected by any user's socket
//! (`TCP_CONGESTION`).
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

pub mod agent;
mod cgroup;
pub mod default;
mod holders;
mod hystart;
pub mod load;
mod mapped;
mod modules;
mod needs;
mod record;
mod select;

pub use agent::{Informant, KernelAgent, KernelAgentError, SelectedFlow};
pub use cgroup::{Cgroup, CgroupError};
pub use default::{ChangedDefault, DefaultError};
pub use holders::{Holder, holders};
pub use hystart::KernelHyStart;
pub use load::{LoadError, Loaded};
pub use mapped::Mapped;
pub use modules::{
    AGENT, CHIRP, CHIRP_CUBIC, CHIRP_R, COPA, CUBIC, CUBIC_EQ1, CUBIC_EQ2, CUBIC_EQ3, CUBIC_L1, CUBIC_L1G, CUBIC_L2,
    DCTCP, MODULES, Module, OPEN_WINDOW, module,
};
pub use needs::{BTF, Kernel, Need};
pub use record::Records;
pub use select::Selection;
