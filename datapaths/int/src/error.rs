//! Why a role could not begin.

use std::io;
use std::net::Ipv6Addr;

use crate::load::BTF;

/// Why a role could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The process lacks the privilege, or has it in a user namespace only.
    #[error(
        "telemetry is for root alone (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN outside of user namespaces); run it as root"
    )]
    NotRoot,
    /// The kernel does not say what its types are.
    #[error("the kernel has no BTF ({BTF} is missing); take one built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf,
    /// There is no such interface in this network namespace.
    #[error("{name}: there is no such interface here; see ip link")]
    NoInterface {
        /// As it was given.
        name: String,
    },
    /// No packet can go there.
    #[error("{to}: no packet can go there ({source}); give an address to which ip -6 route get finds a way")]
    NoRoute {
        /// Where.
        to: Ipv6Addr,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not say which connections there are.
    #[error("the kernel does not say what its connections are: {0}")]
    Connections(io::Error),
    /// The interface was removed while the role ran.
    #[error("{name}: the interface is gone, and the {role} with it; begin again when there is one")]
    Gone {
        /// The interface.
        name: String,
        /// Which.
        role: &'static str,
    },
    /// The interface's packets have headers that are not known here.
    #[error("{name}: an interface of kind {kind} (if_arp.h); take one that carries Ethernet or bare IP packets")]
    Kind {
        /// The interface.
        name: String,
        /// Linux `ARPHRD_`.
        kind: u16,
    },
    /// An option has a value that cannot be.
    #[error("{option}: {reason}")]
    Option {
        /// Which.
        option: &'static str,
        /// Why not, and what can be.
        reason: String,
    },
    /// The kernel refused the programs.
    #[error("the kernel refuses the {role}: {source}{}", said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default())]
    Refused {
        /// Which.
        role: &'static str,
        /// What the system said.
        source: libbpf_rs::Error,
        /// libbpf's first complaint.
        said: Option<String>,
    },
    /// The programs could not be put on the interface.
    #[error(
        "{name}: the {role} cannot be attached ({source}); is another program in its place? see tc filter show dev {name}"
    )]
    Attach {
        /// The interface.
        name: String,
        /// Which.
        role: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
