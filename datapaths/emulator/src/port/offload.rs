//! Switching off what a network card would do for the kernel, by generic netlink (`ETHTOOL_MSG_FEATURES_SET`,
//! Documentation/networking/ethtool-netlink.rst of Linux; since 5.6).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Checksums and gathering by the card; the kernel drops every kind of segmentation offload along with them.
const FEATURES: [&str; 2] = ["tx-checksum-ip-generic", "tx-scatter-gather"];

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
    let socket = open()?;
    let family = family(&socket)?;
    let device = attribute(2, &text(interface));
    let bits: Vec<u8> = FEATURES.iter().flat_map(|name| attribute(NESTED | 1, &attribute(2, &text(name)))).collect();
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
