//! Questions to the kernel about a descriptor, with the answers as Rust values.

use std::ffi::{c_int, c_void};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::socklen_t;

use crate::next;

/// A socket option whose value is a plain structure.
pub(crate) fn option<T: Copy + Default>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as socklen_t;
    let done = next::getsockopt(fd, level, name, (&raw mut value).cast(), &mut len);
    (done == 0).then_some(value)
}

/// Sets a socket option whose value is a plain structure.
pub(crate) fn set_option<T: Copy>(fd: c_int, level: c_int, name: c_int, value: T) -> bool {
    next::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<T>() as socklen_t) == 0
}

/// Whether it is a TCP socket over IPv4 or IPv6; `None` when it is not a descriptor at all.
pub(crate) fn is_tcp(fd: c_int) -> Option<bool> {
    match option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) {
        Some(libc::IPPROTO_TCP) => {
            let domain = option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
            Some(matches!(domain, Some(libc::AF_INET | libc::AF_INET6)))
        }
        Some(_) => Some(false),
        None => (next::errno() != libc::EBADF).then_some(false),
    }
}

/// The number that the kernel gives a socket, unique while the machine runs.
pub(crate) fn cookie(fd: c_int) -> Option<u64> {
    option(fd, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// The state of a TCP socket, as `TCP_INFO` names it.
pub(crate) fn tcp_state(fd: c_int) -> Option<u8> {
    // The state is the first byte.
    option::<[u8; 8]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).map(|info| info[0])
}

/// Whether what is written would go out: the connection stands and its sending half is open.
pub(crate) fn can_send(fd: c_int) -> bool {
    const ESTABLISHED: u8 = 1;
    const CLOSE_WAIT: u8 = 8;
    matches!(tcp_state(fd), Some(ESTABLISHED | CLOSE_WAIT))
}

/// Whether the connection is over: nothing more comes, and nothing goes.
pub(crate) fn is_over(fd: c_int) -> bool {
    const CLOSE: u8 = 7;
    tcp_state(fd) == Some(CLOSE)
}

/// Switches stamps off and empties the error queue.
pub(crate) fn silence(fd: c_int) {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0);
    empty_error_queue(fd);
}

/// Reads what the error queue holds.
pub(crate) fn empty_error_queue(fd: c_int) {
    let mut control = [0_u64; 64];
    loop {
        // SAFETY: all zeros are a message without anything.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: the message names nothing but the room above.
        if unsafe { libc::recvmsg(fd, &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) } < 0 {
            return;
        }
    }
}

/// Resets the connection, though other processes hold it too (Linux `tcp_disconnect`).
pub(crate) fn reset(fd: c_int) {
    // SAFETY: all zeros are an address of no family, which ends the connection.
    let unspecified: libc::sockaddr = unsafe { mem::zeroed() };
    next::connect(fd, &unspecified, size_of_val(&unspecified) as socklen_t);
}

/// Whether the peer will send nothing more.
pub(crate) fn has_ended(fd: c_int) -> bool {
    let mut set = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    next::ppoll(&mut set, 1, &none, std::ptr::null()) > 0 && set.revents & libc::POLLRDHUP != 0
}

/// Whether the application wants its calls to return at once.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    let flags = next::fcntl(fd, libc::F_GETFL, 0);
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Both ends of a connection.
pub(crate) fn ends(fd: c_int) -> Option<(SocketAddr, SocketAddr)> {
    type Name = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int;
    let end = |name: Name| {
        // SAFETY: all zeros are an address of no family.
        let mut address: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let mut len = size_of_val(&address) as socklen_t;
        // SAFETY: room and length are those of one value.
        let done = unsafe { name(fd, (&raw mut address).cast(), &mut len) };
        if done == 0 { socket_address(&address) } else { None }
    };
    Some((end(libc::getsockname)?, end(libc::getpeername)?))
}

fn socket_address(address: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let from = (&raw const *address).cast::<c_void>();
    match c_int::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is what it holds.
            let v4 = unsafe { &*from.cast::<libc::sockaddr_in>() };
            Some((Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)), u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is what it holds.
            let v6 = unsafe { &*from.cast::<libc::sockaddr_in6>() };
            Some((Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port)).into())
        }
        _ => None,
    }
}
