//! paceline in the kernel: TCP controllers that are loaded by eBPF (`struct_ops`).
//!
//! There is one so far, the "open window": it keeps TCP's congestion window large and constant and repairs losses as always, so that a
//! controller above the socket (ALCC) alone decides how much is in flight. Over it a loss costs the flow a repair and no
//! window, which is what bounds ALCC over CUBIC (ALCC, section 7). `src/bpf/open_window.bpf.c` is the controller, this is
//! its loader.
//!
//! Needs Linux 6.4 or newer with BTF, and to load it root. What is loaded may be selected by any user's socket
//! (`TCP_CONGESTION`).
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::{ErrorKind, Link, MapCore, ObjectBuilder, PrintLevel, set_print};

/// The compiled controller.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/open_window.bpf.o"));

/// Where the kernel says what its types are.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The controllers that a socket can select.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The controller "open window", loaded. Dropping it takes it out of the kernel: no further socket can select it, and those
/// that have it keep it until they close.
///
/// Never make it a default: nothing but the application then limits what is in flight. It refuses (a socket that gets it as
/// its namespace's `net.ipv4.tcp_congestion_control` is given Reno).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let open_window = paceline_kernel::OpenWindow::load()?;
/// // From here on: setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "paceline_open").
/// drop(open_window);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OpenWindow {
    _link: Link,
}

/// Why the controller could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The process lacks the privilege, or has it in a user namespace only.
    #[error(
        "a TCP controller is loaded by root alone (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN outside of user namespaces); run it as root"
    )]
    NotRoot,
    /// The kernel does not say what its types are.
    #[error("the kernel has no BTF ({BTF} is missing); take one built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf,
    /// The kernel knows no TCP controllers by eBPF, or not those that end with a link.
    #[error("the kernel takes no TCP controller from eBPF; take Linux 6.4 or newer with CONFIG_BPF_JIT=y")]
    NoStructOps,
    /// Another process has loaded it.
    #[error("{} is loaded already, by another process; use it as it is, or end that process", OpenWindow::NAME)]
    Loaded,
    /// The kernel refused it for another reason.
    #[error("the kernel refuses {}: {source}{}", OpenWindow::NAME, said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default())]
    Refused {
        /// The step, and what the system said.
        source: libbpf_rs::Error,
        /// libbpf's first complaint.
        said: Option<String>,
    },
}

impl OpenWindow {
    /// The controller's name, for `TCP_CONGESTION`.
    pub const NAME: &str = "paceline_open";

    /// Loads it, for every network namespace.
    ///
    /// # Errors
    /// One line: the process is not root, the kernel lacks BTF or `struct_ops`, or it is loaded already.
    pub fn load() -> Result<Self, LoadError> {
        if is_loaded() {
            return Err(LoadError::Loaded);
        }
        if !Path::new(BTF).exists() {
            return Err(LoadError::NoBtf);
        }
        if !has_struct_ops() {
            return Err(LoadError::NoStructOps);
        }
        FIRST_COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner).clear();
        set_print(Some((PrintLevel::Warn, complain)));
        attach().map(|link| Self { _link: link }).map_err(explain)
    }
}

/// Whether a socket can select the open window now, whichever process loaded it.
pub fn is_loaded() -> bool {
    let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
    available.split_whitespace().any(|name| name == OpenWindow::NAME)
}

/// Kernels before 6.4 have structures of operations, but none that end with a link.
fn has_struct_ops() -> bool {
    Btf::from_vmlinux().is_ok_and(|btf| {
        let has = |name| btf.type_by_name::<Struct<'_>>(name).is_some();
        has("bpf_struct_ops_tcp_congestion_ops") && has("bpf_struct_ops_link")
    })
}

fn attach() -> libbpf_rs::Result<Link> {
    let mut object = ObjectBuilder::default().name("open_window")?.open_memory(OBJECT)?.load()?;
    let mut maps = object.maps_mut();
    let mut operations = maps.find(|map| map.name() == OpenWindow::NAME).ok_or_else(|| {
        // It is in the object that was compiled with this crate.
        libbpf_rs::Error::from(std::io::Error::from(std::io::ErrorKind::NotFound))
    })?;
    operations.attach_struct_ops()
}

fn explain(source: libbpf_rs::Error) -> LoadError {
    match source.kind() {
        ErrorKind::PermissionDenied => LoadError::NotRoot,
        ErrorKind::AlreadyExists => LoadError::Loaded,
        _ => {
            let said = FIRST_COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner).clone();
            LoadError::Refused { source, said: (!said.is_empty()).then_some(said) }
        }
    }
}

/// What libbpf complained of first since loading began: the rest follows from it.
static FIRST_COMPLAINT: Mutex<String> = Mutex::new(String::new());

/// libbpf would print it.
#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs passes the text by value")]
fn complain(_level: PrintLevel, text: String) {
    let mut first = FIRST_COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = text.lines().find(|line| !line.trim().is_empty()).filter(|_| first.is_empty()) {
        line.trim().clone_into(&mut first);
    }
}
