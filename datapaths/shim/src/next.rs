//! The functions that the hooks replace, as the next library in line (usually the C library) defines them.
//!
//! A thread that is cancelled in one of them leaves it by unwinding (glibc's `pthread_cancel`), so all of them, and the hooks, let that through.
//!
//! They are found by name at their first use, since a program may call before this library is set up. They are safe to
//! name here because they do with the arguments what the application asked for: who called the hook vouches for them.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pid_t, pollfd, rlimit, sighandler_t, sigset_t,
    size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

/// What a function answers when no library has it; `errno` is `ENOSYS` then.
trait Missing {
    const ANSWER: Self;
}

impl Missing for c_int {
    const ANSWER: Self = -1;
}

impl Missing for ssize_t {
    const ANSWER: Self = -1;
}

impl Missing for i64 {
    const ANSWER: Self = -1;
}

impl Missing for sighandler_t {
    const ANSWER: Self = libc::SIG_ERR;
}

impl Missing for *mut FILE {
    const ANSWER: Self = ptr::null_mut();
}

impl Missing for () {
    const ANSWER: Self = ();
}

/// Stands for a function that no library has.
extern "C" fn missing() -> c_long {
    set_errno(libc::ENOSYS);
    -1
}

/// The next definition of a function, or one that answers -1 and `ENOSYS`. For those that are called with all arguments as they
/// are.
pub(crate) fn find_any(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = find(slot, name);
    if found.is_null() { missing as *mut c_void } else { found }
}

/// The next definition of a function, or null.
pub(crate) fn find(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    slot.store(found, Ordering::Relaxed);
    found
}

/// A name that ends with a zero.
pub(crate) const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name"),
    }
}

macro_rules! next {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $answer:ty)?;)*) => {$(
        #[inline]
        pub(crate) fn $name($($argument: $kind),*) $(-> $answer)? {
            static SLOT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            const NAME: &CStr = name(concat!(stringify!($name), "\0"));
            let found = find(&SLOT, NAME);
            if found.is_null() {
                set_errno(libc::ENOSYS);
                return Missing::ANSWER;
            }
            // SAFETY: the C library's function of this name has this signature, or takes any number of arguments, which on the
            // architectures served lie where these do.
            let function = unsafe {
                mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($kind),*) $(-> $answer)?>(found)
            };
            // SAFETY: the arguments are the application's, or built as the function wants them.
            unsafe { function($($argument),*) }
        }
    )*};
}

next! {
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn splice(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, len: size_t, flags: c_uint) -> ssize_t;
    fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t;
    fn pread(fd: c_int, data: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn accept(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;

    fn poll(set: *mut pollfd, count: nfds_t, limit: c_int) -> c_int;
    fn ppoll(set: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, limit: *mut timeval) -> c_int;
    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        limit: *const timespec, mask: *const sigset_t
    ) -> c_int;
    fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(set: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int;
    fn epoll_pwait(set: c_int, events: *mut epoll_event, room: c_int, limit: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(
        set: c_int, events: *mut epoll_event, room: c_int, limit: *const timespec, mask: *const sigset_t
    ) -> c_int;

    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn fclose(file: *mut FILE) -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, values: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, values: *mut c_void) -> c_int;

    fn execve(path: *const c_char, words: *const *const c_char, variables: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, words: *const *const c_char, variables: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, words: *const *const c_char, variables: *const *const c_char) -> c_int;
    fn execveat(
        folder: c_int, path: *const c_char, words: *const *const c_char, variables: *const *const c_char, flags: c_int
    ) -> c_int;
    fn posix_spawn(
        process: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        words: *const *mut c_char, variables: *const *mut c_char
    ) -> c_int;
    fn posix_spawnp(
        process: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        words: *const *mut c_char, variables: *const *mut c_char
    ) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, from: c_int, to: c_int) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int;
    fn prlimit(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int;
    fn chroot(path: *const c_char) -> c_int;
    fn daemon(stay: c_int, keep: c_int) -> c_int;
    fn capset(header: *mut c_void, data: *const c_void) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn setns(fd: c_int, kind: c_int) -> c_int;
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn _exit(status: c_int);
    fn syscall(
        number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long
    ) -> c_long;
}

/// The error number of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library gives each thread its own.
    unsafe { *libc::__errno_location() }
}

/// Sets the error number of this thread.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the C library gives each thread its own.
    unsafe { *libc::__errno_location() = number }
}
