//! Questions to the kernel over netlink(7): a request, the messages of its answer, their attributes.
//!
//! Source: Linux `include/uapi/linux/netlink.h`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
pub use nix::sys::socket::SockProtocol as Protocol;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;

use crate::layout::{u16_at, u32_at};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLMSG_ERROR`, also an acknowledgement; `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST: u16 = 0x005;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `NLA_F_NESTED`: attributes within an attribute.
pub const NESTED: u16 = 1 << 15;
/// `NLA_F_NESTED | NLA_F_NET_BYTEORDER`.
const FLAGS: u16 = NESTED | 1 << 14;
/// More than the kernel sends at once (`netlink_dump`: 32 KiB).
const ANSWER: usize = 64 << 10;
/// The kernel answers within the call; a defect of it must not stop the program (our choice).
const PATIENCE: TimeVal = TimeVal::new(2, 0);

/// A netlink socket of the calling thread's network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Of the newest request.
    sequence: u32,
}

impl Netlink {
    /// Opens a socket of this protocol.
    ///
    /// # Errors
    /// The system's, such as [`io::ErrorKind::Unsupported`] for a protocol that the kernel lacks.
    pub fn open(protocol: Protocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &PATIENCE)?;
        Ok(Self { socket, buffer: vec![0; ANSWER], sequence: 0 })
    }

    /// Sends a request of type `kind`, waits for its acknowledgement, and hands `take` each message before that, without its header.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn request(&mut self, kind: u16, body: &[u8], take: impl FnMut(&[u8])) -> io::Result<()> {
        self.exchange(kind, REQUEST, body, take)
    }

    /// Asks for all objects of type `kind`, and hands `take` each message of the answer without its header.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn dump(&mut self, kind: u16, body: &[u8], take: impl FnMut(&[u8])) -> io::Result<()> {
        self.exchange(kind, DUMP, body, take)
    }

    fn exchange(&mut self, kind: u16, flags: u16, body: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend_from_slice(body);
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                received => received?,
            };
            // An earlier answer, of which an error ended the reading, may still be there.
            for message in messages(&self.buffer[..length]).filter(|message| message.sequence == self.sequence) {
                match message.kind {
                    ERROR | DONE => return said(message.body),
                    _ => take(message.body),
                }
            }
        }
    }
}

/// The result in the last message of an answer: zero, or an error's number, negative.
fn said(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map_or(0, u32::cast_signed) {
        number @ ..0 => Err(io::Error::from_raw_os_error(number.saturating_neg())),
        _ => Ok(()),
    }
}

/// One message of several.
struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

/// Takes a batch apart, up to the first message that is cut off.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length)?;
        let message = Message { kind: u16_at(bytes, 4)?, sequence: u32_at(bytes, 8)?, body };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes in `bytes`, each with its type without flags, up to the first that is cut off.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !FLAGS;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of that type in `bytes`.
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// An attribute as bytes, padded.
pub fn to_attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [((value.len() + 4) as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The text before the first zero.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_ends_the_messages_and_the_attributes() {
        let both = [to_attribute(NESTED | 7, b"abc"), to_attribute(9, &[1, 2, 3, 4])].concat();
        assert_eq!(attributes(&both).collect::<Vec<_>>(), [(7, &b"abc"[..]), (9, &[1, 2, 3, 4])]);
        assert_eq!((attribute(&both, 9), attribute(&both, 8)), (Some(&[1, 2, 3, 4][..]), None));
        for length in 0..both.len() {
            assert_eq!(attributes(&both[..length]).count(), usize::from(length >= 7), "{length}");
        }
        // A length that is shorter than the header.
        assert_eq!(attributes(&[3, 0, 1, 0, 0, 0]).count(), 0);
        for length in 0..200_u32 {
            let mut bytes: Vec<u8> = (0..200).collect();
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&bytes[..length as usize]).count(), usize::from(length >= 16), "{length}");
        }
    }

    #[test]
    fn an_errors_number_is_the_systems() {
        assert!(said(&[]).is_ok() && said(&0_u32.to_ne_bytes()).is_ok());
        let refused = said(&(-(Errno::EPERM as i32)).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_request_that_the_kernel_does_not_know_is_refused_and_the_next_one_answered() {
        let mut netlink = Netlink::open(Protocol::NetlinkRoute).unwrap();
        // No type of rtnetlink has this number.
        assert!(netlink.request(u16::MAX, &[0; 16], |_| {}).is_err());
        let mut found = 0;
        // RTM_GETLINK, for every family.
        netlink.dump(18, &[0; 16], |_| found += 1).unwrap();
        assert!(found > 0);
    }
}
