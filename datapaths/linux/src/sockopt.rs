//! Socket options, and one question, for which rustix has no call.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::sockopt::{GetOsString, PeerCredentials};
use nix::sys::socket::{self, GetSockOpt, SetSockOpt};
use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};
use rustix::ioctl::{Getter, ioctl};

use crate::tcp::TcpInfo;

pub use nix::sys::socket::sockopt::{ReceiveTimestampns, RxqOvfl, UdpGroSegment, UdpGsoSegment};

/// `struct tcp_info` up to `tcpi_sndbuf_limited`, which Linux has had since 4.10.
const TCP_INFO_BYTES: usize = 192;

sockopt_impl!(
    /// Which timestamps the socket reports, `SOF_TIMESTAMPING_*`.
    Timestamping,
    Both,
    libc::SOL_SOCKET,
    libc::SO_TIMESTAMPING,
    u32
);
sockopt_impl!(
    /// The kernel spreads what it sends to this rate, in bytes a second.
    MaxPacingRate,
    Both,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64
);
sockopt_impl!(
    /// Bytes that may wait unsent in the kernel before it takes no more.
    NotSentLowat,
    Both,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);
sockopt_impl!(
    /// A virtual-network header before each frame (packet(7)).
    VirtualHeader,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VNET_HDR,
    bool
);
sockopt_impl!(
    /// `struct tcp_info` of the connection.
    RawTcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u8; TCP_INFO_BYTES]
);
sockopt_impl!(
    /// Name of what the kernel puts above TCP (`tls`); empty where it puts nothing.
    UpperProtocol,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_ULP,
    std::ffi::OsString,
    GetOsString<[u8; 16]>
);

/// The value of an option.
///
/// # Errors
/// The kernel's.
pub fn getsockopt<O: GetSockOpt>(fd: &impl AsFd, option: O) -> io::Result<O::Val> {
    Ok(socket::getsockopt(fd, option)?)
}

/// Sets an option.
///
/// # Errors
/// The kernel's.
pub fn setsockopt<O: SetSockOpt>(fd: &impl AsFd, option: O, value: &O::Val) -> io::Result<()> {
    Ok(socket::setsockopt(fd, option, value)?)
}

/// The process and the user at the other end of a Unix socket (`SO_PEERCRED`); process 0 is one that cannot be seen from here, which
/// rustix has no value for.
///
/// # Errors
/// The kernel's.
pub fn peer(fd: &impl AsFd) -> io::Result<(u32, u32)> {
    let peer = getsockopt(fd, PeerCredentials)?;
    Ok((u32::try_from(peer.pid()).unwrap_or(0), peer.uid()))
}

/// What the kernel knows of the connection.
///
/// # Errors
/// The kernel's: not a TCP socket.
pub fn tcp_info(fd: &impl AsFd) -> io::Result<TcpInfo> {
    Ok(TcpInfo::read(&getsockopt(fd, RawTcpInfo)?).expect("it is longer than what every Linux has"))
}

/// Bytes of a connection's send queue: written and not acknowledged (`SIOCOUTQ`, tcp(7)). The end of the stream counts as one.
///
/// # Errors
/// The kernel's.
pub fn send_queue(fd: &impl AsFd) -> rustix::io::Result<u64> {
    // `SIOCOUTQ` is this number (linux/sockios.h).
    type SendQueue = Getter<{ libc::TIOCOUTQ as rustix::ioctl::Opcode }, libc::c_int>;
    #[expect(unsafe_code, reason = "no crate offers this question as a safe call")]
    // SAFETY: the kernel answers it by one int, and changes nothing.
    let bytes = unsafe { ioctl(fd, SendQueue::new()) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}
