//! `libpaceline_shim.so`: preloaded into an unmodified program, it puts a congestion controller above the program's TCP
//! sockets.
//!
//! The dynamic linker takes this library's `write`, `epoll_wait` and so on instead of the C library's. Each of them
//! ("hook", in `hooks`) looks whether the descriptor is a TCP socket that is served, and else calls the next definition as
//! if we were not there. A socket is given to the engine of `paceline_alcc` at its first write: until then it costs nothing, and one
//! that a forked child serves is the child's. All congestion control is there; here is only interposition.
//!
//! Two ways (`conn::Via`): inline, where the application writes to the kernel and the controller steers the kernel; and, in mode
//! queue, through a queue, where a write takes what there is room for and readiness for writing means room in that queue. A
//! library in the program's place cannot see every write (system calls without the C library, `io_uring`, other processes), and
//! what it does not see overtakes what it has queued. So inline is the default, and in mode queue the engine compares what the
//! kernel was given with what it gave: a connection on which they differ is reset.
//!
//! A configuration that is wrong ends the program with one line and status 2 before it has begun: a program that was to run
//! under a controller must not run without one unnoticed.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "it takes the place of C functions; each block says why it is sound")]

#[global_allocator]
static ALLOCATOR: inside::Allocator = inside::Allocator;

mod ask;
mod child;
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
mod sandbox;
mod set;
mod stack;
mod start;
mod state;
mod table;
