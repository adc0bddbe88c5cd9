//! What a network card would do for the kernel, switched off by generic netlink (`ETHTOOL_MSG_FEATURES_SET`,
//! Documentation/networking/ethtool-netlink.rst of Linux; since 5.6).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

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

/// `NLMSG_ERROR`, also an acknowledgement.
const ERROR: u16 = 2;
/// `GENL_ID_CTRL`.
const CONTROL: u16 = 16;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST: u16 = 1 | 4;

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
    fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| version(&release) >= Some((6, 2)))
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn switch_off(interface: &str, features: &[&str]) -> io::Result<()> {
    let socket = open()?;
    let family = family(&socket)?;
    let device = attribute(2, &text(interface));
    let bits: Vec<u8> = features.iter().flat_map(|name| attribute(NESTED | 1, &attribute(2, &text(name)))).collect();
    // Listed without a value: off.
    let wanted = attribute(NESTED | 3, &bits);
    let body = [attribute(NESTED | 1, &device), attribute(NESTED | 3, &wanted)].concat();
    exchange(&socket, family, 12, &body).map(drop)
}

fn open() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    // The kernel answers within the call; should it ever not, that is no reason to hang.
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(2))?;
    Ok(socket)
}

/// The number of the family "ethtool" (`CTRL_CMD_GETFAMILY`).
fn family(socket: &OwnedFd) -> io::Result<u16> {
    let answer = exchange(socket, CONTROL, 3, &attribute(2, &text("ethtool")))?;
    // After the generic header: attributes, each padded to 4 bytes.
    let mut rest = answer.get(4..).unwrap_or_default();
    while let [a, b, c, d, ..] = rest {
        let (length, kind) = (usize::from(u16::from_ne_bytes([*a, *b])), u16::from_ne_bytes([*c, *d]));
        if let (1, Some([low, high])) = (kind, rest.get(4..6)) {
            return Ok(u16::from_ne_bytes([*low, *high]));
        }
        rest = rest.get(length.next_multiple_of(4).max(4)..).unwrap_or_default();
    }
    Err(io::Error::other("the kernel has no ethtool over netlink; Linux 5.6 or newer has"))
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [((value.len() + 4) as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Sends one request and gives the body of the last answer before its acknowledgement.
fn exchange(socket: &OwnedFd, family: u16, command: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut message = ((20 + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend([family.to_ne_bytes(), REQUEST.to_ne_bytes()].concat());
    // Sequence number and port, then the generic header: command, version 1.
    message.extend([0, 0, 0, 0, 0, 0, 0, 0, command, 1, 0, 0]);
    message.extend_from_slice(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 32 << 10];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some(header) = rest.first_chunk::<16>() {
            let [a, b, c, d, e, f, ..] = *header;
            let (size, kind) = (u32::from_ne_bytes([a, b, c, d]) as usize, u16::from_ne_bytes([e, f]));
            let Some(body) = rest.get(16..size.max(16)) else { break };
            if kind == ERROR {
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return if code == 0 { Ok(answer) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
            answer = body.to_vec();
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_versions() {
        assert_eq!(version("6.18.44-fc-v669\n"), Some((6, 18)));
        assert_eq!(version("6.2.0"), Some((6, 2)));
        assert_eq!(version("5.15.0-91-generic"), Some((5, 15)));
        assert!(version("").is_none() && version("6") < Some((6, 2)));
    }
}
