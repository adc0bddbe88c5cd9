//! What a network card would do for the kernel, switched off by generic netlink (`ETHTOOL_MSG_FEATURES_SET`,
//! Documentation/networking/ethtool-netlink.rst of Linux; since 5.6).

use std::io;

use paceline_linux::layout::u16_at;
use paceline_linux::netlink::{NESTED, Netlink, Protocol, attribute, to_attribute};
use paceline_linux::release::{release, version};

/// Checksums and gathering by the card; the kernel drops every kind of segmentation offload along with them.
const ALL: [&str; 2] = ["tx-checksum-ip-generic", "tx-scatter-gather"];
/// What a virtual-network header cannot describe: tunnels, checksums that are no Internet checksum, frames made of packets.
const STRANGE: [&str; 12] = [
    "tx-checksum-sctp",
    "tx-esp-segmentation",
    "tx-gre-csum-segmentation",
    "tx-gre-segmentation",
    "tx-gso-list",
    "tx-gso-partial",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-sctp-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-udp_tnl-segmentation",
];
/// The same, of newer kernels: frames of TCP in which each packet has `CWR`, of accurate ECN.
const NEWER: [&str; 1] = ["tx-tcp-accecn-segmentation"];
/// UDP; a virtual-network header describes it since Linux 6.2.
const DATAGRAMS: [&str; 1] = ["tx-udp-segmentation"];

/// `GENL_ID_CTRL`.
const CONTROL: u16 = 16;

/// Switches off checksum and segmentation offloads of an interface in the namespace of the calling thread: what it sends
/// are packets as a wire carries them.
///
/// # Errors
/// When there is no such interface, or without the right to administer the namespace.
pub fn without_offloads(interface: &str) -> io::Result<()> {
    switch_off(interface, &ALL)
}

/// Switches off all offloads of such an interface but those of checksums, TCP and UDP: what it sends are packets, or frames that a
/// virtual-network header describes.
///
/// # Errors
/// As [`without_offloads`].
pub fn with_plain_offloads(interface: &str) -> io::Result<()> {
    switch_off(interface, &STRANGE)?;
    // A kernel that does not know the name does not have the feature.
    let _ = switch_off(interface, &NEWER);
    if knows_datagrams() { Ok(()) } else { switch_off(interface, &DATAGRAMS) }
}

/// Whether the kernel describes frames of UDP packets by a virtual-network header: since Linux 6.2.
pub(super) fn knows_datagrams() -> bool {
    version(&release()) >= (6, 2)
}

fn switch_off(interface: &str, features: &[&str]) -> io::Result<()> {
    let mut netlink = Netlink::open(Protocol::NetlinkGeneric)?;
    let family = family(&mut netlink)?;
    let device = to_attribute(2, &text(interface));
    let bit = |name: &&str| to_attribute(NESTED | 1, &to_attribute(2, &text(name)));
    // Listed without a value: off.
    let wanted = to_attribute(NESTED | 3, &features.iter().flat_map(bit).collect::<Vec<u8>>());
    let body = [to_attribute(NESTED | 1, &device), to_attribute(NESTED | 3, &wanted)].concat();
    netlink.request(family, &command(12, &body), |_| {})
}

/// The number of the family "ethtool" (`CTRL_CMD_GETFAMILY`).
fn family(netlink: &mut Netlink) -> io::Result<u16> {
    let mut family = None;
    netlink.request(CONTROL, &command(3, &to_attribute(2, &text("ethtool"))), |answer| {
        family = answer.get(4..).and_then(|attributes| u16_at(attribute(attributes, 1)?, 0));
    })?;
    family.ok_or_else(|| io::Error::other("the kernel has no ethtool over netlink; Linux 5.6 or newer has"))
}

/// A generic header, command and version 1, and what follows it.
fn command(command: u8, body: &[u8]) -> Vec<u8> {
    [&[command, 1, 0, 0][..], body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
