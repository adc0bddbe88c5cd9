//! Socket options and requests.
//!
//! The engine needs some options for itself: what the application sets of these is kept and reported to it again.

use std::ffi::{c_int, c_ulong, c_void};
use std::time::Duration;

use libc::socklen_t;

use super::fail;
use crate::conn::{Conn, Linger, Via};
use crate::inside::Inside;
use crate::memory;
use crate::next;
use crate::notice::Notice;
use crate::state::{self, State};

/// How long kernel TLS may wait for the last bytes of the handshake to leave our queue. One second (our choice): a few kB,
/// at the beginning of a connection.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// Linux `linux/tls.h`: from here on the kernel encrypts what is written.
const TLS_TX: c_int = 1;
/// Linux `asm-generic/socket.h`.
const SO_TIMESTAMPING_NEW: c_int = 65;
/// Linux `linux/sockios.h`: bytes not sent yet.
const SIOCOUTQNSD: c_ulong = 0x894B;

#[unsafe(no_mangle)]
extern "C-unwind" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    if let Some(state) = state::get()
        && concerns_us(level, name)
        && !value.is_null()
        && let Some(conn) = state.tcp(fd)
    {
        let _inside = Inside::enter();
        if let Some(answer) = set(state, &conn, (level, name), value, len as usize) {
            drop(_inside);
            return if answer == 0 { 0 } else { fail(answer) };
        }
    }
    next::setsockopt(fd, level, name, value, len)
}

fn concerns_us(level: c_int, name: c_int) -> bool {
    match level {
        libc::SOL_SOCKET => {
            matches!(
                name,
                libc::SO_LINGER
                    | libc::SO_MAX_PACING_RATE
                    | libc::SO_ZEROCOPY
                    | libc::SO_TIMESTAMPING
                    | SO_TIMESTAMPING_NEW
            )
        }
        libc::IPPROTO_TCP => matches!(name, libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_NOTSENT_LOWAT),
        libc::SOL_TLS => name == TLS_TX,
        libc::IPPROTO_IP => name == libc::IP_RECVERR,
        libc::IPPROTO_IPV6 => name == libc::IPV6_RECVERR,
        _ => false,
    }
}

/// Answers in the kernel's place: 0 or an error number; `None` leaves it to the kernel.
fn set(state: &State, conn: &Conn, (level, name): (c_int, c_int), value: *const c_void, len: usize) -> Option<c_int> {
    let number = || -> Option<c_int> {
        (len >= size_of::<c_int>()).then(|| memory::load_one(state.process, value.cast::<c_int>()))?
    };
    let cared_for = matches!(conn.via(), Via::Queue | Via::Inline);
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) if conn.via() == Via::Queue => {
            if len < size_of::<Linger>() {
                return Some(libc::EINVAL);
            }
            let Some(linger) = memory::load_one(state.process, value.cast::<Linger>()) else {
                return Some(libc::EFAULT);
            };
            conn.set_linger(linger);
            Some(0)
        }
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) if cared_for => {
            let rate = if len >= size_of::<u64>() {
                memory::load_one(state.process, value.cast::<u64>())?
            } else {
                // Linux `sk_setsockopt`: the largest number stands for no limit.
                number().map(|rate| rate as u32).map(|rate| if rate == u32::MAX { u64::MAX } else { rate.into() })?
            };
            conn.kept().pacing = rate;
            conn.socket()?.set_max_pacing_rate(rate);
            Some(0)
        }
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) if cared_for => {
            let bytes = number()? as u32;
            conn.kept().not_sent = bytes;
            conn.socket()?.set_not_sent_lowat(bytes);
            Some(0)
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) if conn.via() == Via::Queue => {
            let nodelay = number()? != 0;
            conn.kept().nodelay = c_int::from(nodelay);
            conn.socket()?.set_nodelay(nodelay);
            Some(0)
        }
        (libc::IPPROTO_TCP, libc::TCP_CORK) if conn.via() == Via::Queue => {
            let cork = number()? != 0;
            conn.kept().cork = c_int::from(cork);
            if !cork {
                conn.socket()?.push();
            }
            Some(0)
        }
        // What is queued is encrypted already. A program whom this is refused goes on to encrypt by itself.
        (libc::SOL_TLS, TLS_TX) => (!conn.go_through(HANDSHAKE)).then_some(libc::EBUSY),
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) if number()? != 0 => keep_out(state, conn, &Notice::ZeroCopy),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW) if number()? != 0 => {
            keep_out(state, conn, &Notice::Timestamps)
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) if number()? != 0 => keep_out(state, conn, &Notice::ErrorQueue),
        _ => None,
    }
}

/// The application wants the error queue for itself. It gets it, unless we use it already.
fn keep_out(state: &State, conn: &Conn, why: &Notice) -> Option<c_int> {
    if conn.is_stamped() {
        state.note(why);
        return Some(libc::EOPNOTSUPP);
    }
    conn.leave(state, why);
    None
}

#[unsafe(no_mangle)]
extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let answer = next::getsockopt(fd, level, name, value, len);
    if answer != 0 {
        return answer;
    }
    let known = state::get().filter(|_| concerns_us(level, name)).and_then(|state| state.cared_for(fd));
    let Some(conn) = known.filter(|conn| conn.is(fd)) else { return answer };
    let _inside = Inside::enter();
    let kept = *conn.kept();
    let queued = conn.via() == Via::Queue;
    let bytes: &[u8] = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) if queued => {
            &[kept.linger.on.to_ne_bytes(), kept.linger.seconds.to_ne_bytes()].concat()
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) if queued => &kept.nodelay.to_ne_bytes(),
        (libc::IPPROTO_TCP, libc::TCP_CORK) if queued => &kept.cork.to_ne_bytes(),
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => &kept.not_sent.to_ne_bytes(),
        // SAFETY: the kernel has just written there.
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) if unsafe { *len } as usize >= size_of::<u64>() => {
            &kept.pacing.to_ne_bytes()
        }
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => &u32::try_from(kept.pacing).unwrap_or(u32::MAX).to_ne_bytes(),
        _ => return answer,
    };
    // SAFETY: as above, this many bytes.
    let room = unsafe { *len } as usize;
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), room.min(bytes.len())) };
    answer
}

#[unsafe(no_mangle)]
extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let answer = next::ioctl(fd, request, argument);
    if answer == 0
        && matches!(request, libc::TIOCOUTQ | SIOCOUTQNSD)
        && let Some(conn) = state::get().and_then(|state| state.cared_for(fd))
        && let Some(socket) = conn.socket()
    {
        let _inside = Inside::enter();
        let count = argument as *mut c_int;
        let queued = c_int::try_from(socket.queued()).unwrap_or(c_int::MAX);
        // SAFETY: the kernel has just written there.
        unsafe { *count = (*count).saturating_add(queued) };
    }
    answer
}
