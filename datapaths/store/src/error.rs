//! Why the store cannot be in the kernel.

use std::io;

use paceline_kernel::BTF;
use paceline_linux::namespace::NamespaceError;

/// Why the store cannot be in the kernel, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelStoreError {
    /// The process lacks the privilege, or has it in a user namespace only.
    #[error(
        "--kernel-store: it is for root alone (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON outside of user namespaces); run it as root, or leave it out"
    )]
    NotRoot,
    /// The kernel does not say what its types are.
    #[error("--kernel-store: the kernel has no BTF ({BTF} is missing); take one built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf,
    /// Too little memory for anything.
    #[error("--kernel-store {0} bytes: too little; give at least 1MB")]
    TooSmall(u64),
    /// The kernel does not give that much memory.
    #[error("--kernel-store: the kernel does not give {0} bytes of memory that stays in place; give less")]
    Memory(u64),
    /// Memory could not be used again safely.
    #[error(
        "--kernel-store: the kernel has no membarrier(MEMBARRIER_CMD_GLOBAL) ({0}); begin it without nohz_full, and with no filter of system calls"
    )]
    NoBarrier(io::Error),
    /// It cannot be tried: [`crate::KernelStore::try_here`].
    #[error("--kernel-store: a veth pair to try it on cannot be had ({0})")]
    NoPlace(#[from] NamespaceError),
    /// There is no such interface in this network namespace.
    #[error("--interface {0}: there is no such interface here; see ip link")]
    NoInterface(String),
    /// It carries other frames.
    #[error("--interface {0}: its packets have no Ethernet header; name an interface of Ethernet")]
    NotEthernet(String),
    /// A unit's packet does not fit.
    #[error(
        "--interface {name}: its MTU is {mtu}, and a unit's packet has up to {wanted} bytes; raise it with ip link set {name} mtu {wanted}"
    )]
    Mtu {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// What it would have to be.
        wanted: u32,
    },
    /// The driver cannot run programs.
    #[error("--interface {0}: its driver has no native XDP; name another interface, or leave out --kernel-store")]
    NotNative(String),
    /// The program could not be put there.
    #[error(
        "--interface {name}: the kernel does not take the program there ({source:#}); is another XDP program there (ip link show {name}), or is its MTU, or that of the other end of a veth pair, above 3498?"
    )]
    Attach {
        /// The interface.
        name: String,
        /// What the system said.
        source: libbpf_rs::Error,
    },
    /// The kernel refused the program, or something of its maps.
    #[error("--kernel-store: the kernel refuses it: {source}{}", said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default())]
    Refused {
        /// What the system said.
        source: libbpf_rs::Error,
        /// libbpf's first complaint.
        said: Option<String>,
    },
}
