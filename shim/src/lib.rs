//! `libpaceline_shim.so`: preloaded into an unmodified program, it puts a congestion controller above the program's TCP
//! sockets.
//!
//! The dynamic linker takes this library's `write`, `epoll_wait` and so on instead of the C library's. Each of them
//! ("hook", in `hooks`) looks whether the descriptor is a TCP socket that is served, and else calls the next definition as
//! if we were not there. A socket is given to the engine of `paceline_alcc` at its first write: until then it costs nothing, and one
//! that a forked child serves is the child's. All congestion control is there; here is only interposition.
//!
//! Two ways ([`conn::Via`]): through a queue, where a write takes what there is room for and readiness for writing means
//! room in that queue; and inline, where the application writes to the kernel and the controller steers the kernel. Inline are sockets
//! whose bytes do not pass through our hands: `sendfile`, `splice`, kTLS, streams of the C library, a program with
//! `io_uring`.
//!
//! A configuration that is wrong ends the program with one line and status 2 before it has begun: a program that was to run
//! under a controller must not run without one unnoticed.
//!
//! What cannot be done: a program that is killed (`SIGKILL`, or any signal it does not handle) loses what is in our
//! queue, where the kernel would still send it. Bytes that go past the C library (static programs, Go, `io_uring`, raw system
//! calls other than those that `syscall` makes) are not seen. Mode inline has neither problem, nor the queue's precision.
#![cfg(target_os = "linux")]

/// Apart from the program's: a signal handler may write to a connection while its thread is in `malloc`.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

mod ask;
mod config;
mod conn;
mod end;
mod hooks;
mod inside;
mod memory;
mod next;
mod notice;
mod own;
mod pending;
mod set;
mod start;
mod state;
mod table;
