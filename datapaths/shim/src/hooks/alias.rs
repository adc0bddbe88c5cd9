//! The other names by which the C library's own parts, and a few programs, call the same functions.

use std::ffi::{c_int, c_uint, c_void};

use libc::{
    fd_set, iovec, mmsghdr, nfds_t, off_t, pid_t, pollfd, rlimit, sighandler_t, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};

use super::{copy, life, limit, process, signal, wait, write};

macro_rules! alias {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty = $function:path;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name($($argument: $kind),*) -> $answer {
            $function($($argument),*)
        }
    )*};
}

alias! {
    fn __write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t = write::write;
    fn __send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t = write::send;
    fn __sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int = write::sendmmsg;
    fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = write::pwritev2;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t = copy::sendfile;

    fn __connect(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int = life::connect;
    fn __close(fd: c_int) -> c_int = life::close;
    fn __dup2(from: c_int, to: c_int) -> c_int = life::dup2;
    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = life::fcntl;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = life::fcntl;

    fn __poll(set: *mut pollfd, count: nfds_t, limit: c_int) -> c_int = wait::poll;
    fn __select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, limit: *mut timeval
    ) -> c_int = wait::select;

    fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int = limit::setrlimit;
    fn prlimit64(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int = limit::prlimit;

    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int = signal::sigaction;
    fn bsd_signal(number: c_int, handler: sighandler_t) -> sighandler_t = signal::signal;
    fn ssignal(number: c_int, handler: sighandler_t) -> sighandler_t = signal::signal;
    fn sysv_signal(number: c_int, handler: sighandler_t) -> sighandler_t = signal::__sysv_signal;

    fn _Exit(status: c_int) -> ! = process::_exit;
}
