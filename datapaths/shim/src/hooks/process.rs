//! The end of the program, what it does to itself, and `syscall`.

use std::ffi::{c_int, c_long, c_ulong, c_void};

use super::{copy, exec, life, set, write};
use crate::end;
use crate::inside::Inside;
use crate::next;
use crate::notice::Notice;
use crate::state;

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn _exit(status: c_int) -> ! {
    end::finish();
    next::_exit(status);
    std::process::abort()
}

/// Defines a function with any number of arguments: does something with the first of them, and goes on at the next definition with all of
/// them as they were.
macro_rules! before {
    (fn $name:ident($($argument:ident: $kind:ty),*) $work:block) => {
        const _: () = {
            /// Answers the next definition.
            extern "C" fn first($($argument: $kind),*) -> *mut std::ffi::c_void {
                static SLOT: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
                    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
                const NAME: &std::ffi::CStr = $crate::next::name(concat!(stringify!($name), "\0"));
                $work
                $crate::next::find_any(&SLOT, NAME)
            }

            #[cfg(target_arch = "x86_64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                // Arguments are in six integer and eight vector registers and on the stack; al counts the vector ones.
                std::arch::naked_asm!(
                    "push rbp",
                    "mov rbp, rsp",
                    "sub rsp, 192",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    "mov [rsp + 48], rax",
                    "movaps [rsp + 64], xmm0",
                    "movaps [rsp + 80], xmm1",
                    "movaps [rsp + 96], xmm2",
                    "movaps [rsp + 112], xmm3",
                    "movaps [rsp + 128], xmm4",
                    "movaps [rsp + 144], xmm5",
                    "movaps [rsp + 160], xmm6",
                    "movaps [rsp + 176], xmm7",
                    "call {first}",
                    "mov r11, rax",
                    "mov rdi, [rsp]",
                    "mov rsi, [rsp + 8]",
                    "mov rdx, [rsp + 16]",
                    "mov rcx, [rsp + 24]",
                    "mov r8, [rsp + 32]",
                    "mov r9, [rsp + 40]",
                    "mov rax, [rsp + 48]",
                    "movaps xmm0, [rsp + 64]",
                    "movaps xmm1, [rsp + 80]",
                    "movaps xmm2, [rsp + 96]",
                    "movaps xmm3, [rsp + 112]",
                    "movaps xmm4, [rsp + 128]",
                    "movaps xmm5, [rsp + 144]",
                    "movaps xmm6, [rsp + 160]",
                    "movaps xmm7, [rsp + 176]",
                    "leave",
                    "jmp r11",
                    first = sym first,
                )
            }

            #[cfg(target_arch = "aarch64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-208]!",
                    "mov x29, sp",
                    "stp x0, x1, [sp, #16]",
                    "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]",
                    "stp x6, x7, [sp, #64]",
                    "stp q0, q1, [sp, #80]",
                    "stp q2, q3, [sp, #112]",
                    "stp q4, q5, [sp, #144]",
                    "stp q6, q7, [sp, #176]",
                    "bl {first}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, #16]",
                    "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]",
                    "ldp x6, x7, [sp, #64]",
                    "ldp q0, q1, [sp, #80]",
                    "ldp q2, q3, [sp, #112]",
                    "ldp q4, q5, [sp, #144]",
                    "ldp q6, q7, [sp, #176]",
                    "ldp x29, x30, [sp], #208",
                    "br x16",
                    first = sym first,
                )
            }
        };
    };
}
pub(super) use before;

before! {
    fn pthread_exit() {
        end::main_leaves();
    }
}

/// The parent of the process that goes on ends without calling our hooks.
#[unsafe(no_mangle)]
extern "C-unwind" fn daemon(stay: c_int, keep: c_int) -> c_int {
    settle_all();
    next::daemon(stay, keep)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    match option {
        libc::PR_SET_SECCOMP => filtered(),
        libc::PR_SET_KEEPCAPS | libc::PR_SET_SECUREBITS => rights(),
        _ => {}
    }
    next::prctl(option, a, b, c, d)
}

/// These concern the calling thread alone. The C library's `setuid` and the like, which concern all, end a program whose threads
/// are not alike then.
pub(super) fn rights() {
    if let Some(state) = state::own() {
        let _inside = Inside::enter();
        state.begin_anew();
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn capset(header: *mut c_void, data: *const c_void) -> c_int {
    rights();
    next::capset(header, data)
}

/// The kernel refuses some of these to a process with threads.
#[unsafe(no_mangle)]
extern "C-unwind" fn unshare(flags: c_int) -> c_int {
    rights();
    next::unshare(flags)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn setns(fd: c_int, kind: c_int) -> c_int {
    rights();
    next::setns(fd, kind)
}

/// The program is about to forbid itself system calls.
fn filtered() {
    if let Some(state) = state::own() {
        let _inside = Inside::enter();
        state.seal();
    }
}

/// The program makes a ring through which it may write to any socket.
fn rings() {
    if let Some(state) = state::get() {
        let _inside = Inside::enter();
        state.bypassed();
        state.note(&Notice::Ring);
    }
}

/// What is queued goes first.
fn settle_all() {
    if let Some(state) = state::own() {
        let _inside = Inside::enter();
        state.finish();
    }
}

/// A fork with more to it, of which the C library does not know. The child finds out by itself.
fn forked(call: impl FnOnce() -> c_long) -> c_long {
    state::fork::before_fork();
    let answer = call();
    if answer != 0 {
        state::fork::after_fork();
    }
    answer
}

/// System calls by number: those that have a hook go there. It is declared with any number of arguments; on the
/// architectures served these lie where six whole ones do.
#[unsafe(no_mangle)]
extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let fd = a as c_int;
    match number {
        libc::SYS_write => write::write(fd, b as _, c as _) as c_long,
        libc::SYS_writev => write::writev(fd, b as _, c as _) as c_long,
        libc::SYS_sendto => write::sendto(fd, b as _, c as _, d as _, e as _, f as _) as c_long,
        libc::SYS_sendmsg => write::sendmsg(fd, b as _, c as _) as c_long,
        libc::SYS_sendmmsg => c_long::from(write::sendmmsg(fd, b as _, c as _, d as _)),
        libc::SYS_sendfile => copy::sendfile(fd, b as _, c as _, d as _) as c_long,
        libc::SYS_splice => copy::splice(fd, b as _, c as _, d as _, e as _, f as _) as c_long,
        libc::SYS_accept4 => c_long::from(life::accept4(fd, b as _, c as _, d as _)),
        libc::SYS_shutdown => c_long::from(life::shutdown(fd, b as _)),
        libc::SYS_close => c_long::from(life::close(fd)),
        libc::SYS_close_range => c_long::from(life::close_range(a as _, b as _, c as _)),
        libc::SYS_dup => c_long::from(life::dup(fd)),
        libc::SYS_dup3 => c_long::from(life::dup3(fd, b as _, c as _)),
        libc::SYS_epoll_ctl => c_long::from(set::epoll_ctl(fd, b as _, c as _, d as _)),
        libc::SYS_epoll_pwait => c_long::from(set::epoll_pwait(fd, b as _, c as _, d as _, e as _)),
        libc::SYS_epoll_pwait2 => c_long::from(set::epoll_pwait2(fd, b as _, c as _, d as _, e as _)),
        libc::SYS_execve => c_long::from(exec::execve(a as _, b as _, c as _)),
        libc::SYS_execveat => c_long::from(exec::execveat(fd, b as _, c as _, d as _, e as _)),
        libc::SYS_exit_group => {
            end::finish();
            next::syscall(number, a, b, c, d, e, f)
        }
        // SAFETY: the same, but for locks of the C library that our threads may hold, of which the program knows nothing.
        libc::SYS_clone if a == c_long::from(libc::SIGCHLD) && b == 0 => c_long::from(unsafe { libc::fork() }),
        libc::SYS_clone if a & c_long::from(libc::CLONE_VM | libc::CLONE_FILES) == c_long::from(libc::CLONE_FILES) => {
            // Its child has our descriptors: what is queued leaves first.
            settle_all();
            next::syscall(number, a, b, c, d, e, f)
        }
        libc::SYS_clone if a & c_long::from(libc::CLONE_VM) == 0 => forked(|| next::syscall(number, a, b, c, d, e, f)),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        libc::SYS_fork => c_long::from(unsafe { libc::fork() }),
        libc::SYS_prctl => c_long::from(prctl(fd, b as _, c as _, d as _, e as _)),
        libc::SYS_capset => c_long::from(capset(a as _, b as _)),
        libc::SYS_unshare => c_long::from(unshare(fd)),
        libc::SYS_setns => c_long::from(setns(fd, b as _)),
        libc::SYS_seccomp => {
            filtered();
            next::syscall(number, a, b, c, d, e, f)
        }
        libc::SYS_io_uring_setup => {
            rings();
            next::syscall(number, a, b, c, d, e, f)
        }
        _ => next::syscall(number, a, b, c, d, e, f),
    }
}
