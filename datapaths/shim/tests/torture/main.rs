//! Programs that do what is unusual, in every mode and without the library: bytes, order, end, exit status and error numbers
//! must be the same. `cargo test -p paceline-shim --test torture -- sig_write` runs one case; its method is in `c/`.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod run;

use std::time::Duration;

use client::{End, Reader};
use run::{Case, Exception, Exit, Mode, USUAL, compare};

/// What bytes that got into the kernel past the queue are called.
const PAST: Option<&str> = Some("wrote past the queue");

/// What may differ from the kernel alone. Nothing may where there is no queue.
const EXCEPTIONS: &[Exception] = &[
    // Past the library, into the kernel.
    queued("aio_turns", PAST),
    queued("raw_turns", PAST),
    queued("raw_last", PAST),
    queued("ring", PAST),
    queued("ring_raw", PAST),
    queued("rate_raw", PAST),
    queued("rate_ring", PAST),
    // By another process that got the connection without the library's knowing.
    queued("vfork_exec", PAST),
    queued("spawn", PAST),
    queued("by_system", PAST),
    queued("rights", PAST),
    queued("fork_raw", PAST),
    queued("pidfd_turns", PAST),
    queued("fork_exec_static", PAST),
    // The process is gone, and its queue with it.
    queued("end_exit_group_raw", None),
    queued("end_abort", None),
    queued("end_sigkill", None),
    queued("end_sigsegv", None),
    queued("end_sigint", None),
    queued("shutdown_sigpipe", None),
    // Nothing was acknowledged for as long as PACELINE_LINGER.
    queued("unread_close", None),
    queued("unread_exit", None),
];

const fn queued(case: &'static str, line: Option<&'static str>) -> Exception {
    Exception { case, mode: Mode::Queue, line }
}

/// Less than the slow clients take.
const IMPATIENT: &[(&str, &str)] = &[("PACELINE_LINGER", "1s")];

/// A client that reads all the time, and slower than the program writes: something is queued until the last byte is written.
const STEADY: Case = Case { reader: Reader::Slow(400_000), ..USUAL };

/// A window that TCP's is larger than at once, and a client for which something waits in the kernel.
const STEERED: Case =
    Case { bytes: 1_200_000, reader: Reader::Slow(400_000), variables: &[("PACELINE_CC", "fixed:window=2")], ..USUAL };

/// Two clients that get the same.
const TWO: Case = Case { clients: 2, ..USUAL };

/// Connections that several threads serve, each with room for little.
const MANY: Case = Case { bytes: 1_000_000, clients: 24, variables: &[("PACELINE_QUEUE", "100kB")], ..KEEN };

/// Most of the descriptors that may be.
const FEW: Case = Case { bytes: 20_000, clients: 45, descriptors: Some(64), ..USUAL };

/// Who send the same as they get.
const SENDING: Case = Case { bytes: 3_000_000, reader: Reader::Sending(3_000_000), ..USUAL };

/// Clients that are served by several processes.
const SEVERAL: Case = Case { clients: 12, reader: Reader::Keen, ..USUAL };

/// A client that needs four seconds and reads all the time.
const SLOW: Case = Case { reader: Reader::Slow(100_000), variables: IMPATIENT, ..USUAL };

/// A client that holds a little, and reads when the program has closed.
const UNREAD_SOME: Case = Case { bytes: 150_000, reader: Reader::Late(Duration::from_secs(4)), ..USUAL };

/// A client that does not read until no one waits for it any more.
const UNREAD: Case = Case { reader: Reader::Late(Duration::from_secs(4)), variables: IMPATIENT, ..USUAL };

/// A client that gets all and a reset, as the program wants it.
const RESET: Case = Case { bytes: 20_000, end: End::Reset, ..USUAL };

/// A client that asks again when it has the answer.
const ASKING: Case = Case { bytes: 15 * 500, reader: Reader::Asking(15, 500), ..USUAL };

/// More than there is room for at once, so that the program has to wait.
const KEEN: Case = Case { bytes: 8_000_000, reader: Reader::Keen, variables: &[("PACELINE_QUEUE", "300kB")], ..USUAL };

macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name), $case, EXCEPTIONS);
            }
        )*

        /// Every exception is one of a case.
        #[test]
        fn exceptions_are_of_cases() {
            let names = [$(stringify!($name)),*];
            assert!(EXCEPTIONS.iter().all(|exception| names.contains(&exception.case)));
        }
    };
}

cases! {
    // Handlers that write, signals.c.
    sig_write: USUAL;
    sig_write_restart: USUAL;
    // So much at once that the queue needs memory for it.
    sig_malloc: Case { bytes: 8_000_000, ..USUAL };
    sig_within_write: Case { bytes: 10_000, woven: true, ..USUAL };
    sig_blocked: Case { bytes: 4_000_000, woven: true, ..KEEN };
    sig_exit: Case { least: Some(200_000), ..USUAL };
    sig_jump: Case { clients: 2, least: Some(0), reader: Reader::Gated, ..KEEN };
    sig_jump_often: TWO;
    sig_interrupt: KEEN;
    alt_stack: USUAL;

    // Little stack, stacks.c.
    small_thread: USUAL;
    small_thread_forks: USUAL;
    fiber_writes: USUAL;
    fiber_serves: KEEN;

    // The C library's streams, streams.c.
    stdout_turns: USUAL;
    stderr_turns: USUAL;
    stdout_both: USUAL;
    stdout_late: USUAL;
    stdout_accepted: USUAL;
    daemon_streams: USUAL;
    inetd: USUAL;
    inetd_later: USUAL;
    stream_turns: USUAL;
    stream_late: USUAL;
    dprintf_turns: USUAL;

    // Calls that write, and ways past the library, calls.c.
    aio_turns: USUAL;
    raw_turns: USUAL;
    raw_last: USUAL;
    raw_alone: USUAL;
    ring: USUAL;
    ring_raw: USUAL;
    ring_alone: TWO;
    weak_ring: USUAL;
    send_many: USUAL;
    sendfile_turns: USUAL;
    splice_turns: USUAL;
    sendfile_pipe: USUAL;
    sendfile_socket: USUAL;
    odd_copies: USUAL;

    // Options and flags, options.c.
    cork: ASKING;
    cork_early: ASKING;
    cork_nodelay: ASKING;
    cork_close: USUAL;
    linger_reset: Case { end: End::Reset, ..USUAL };
    linger_long: Case { exit: Exit::Signal(libc::SIGKILL), ..USUAL };
    linger_early: Case { exit: Exit::Signal(libc::SIGKILL), ..USUAL };
    linger_fork: Case { bytes: 20_000, end: End::Reset, ..USUAL };
    linger_blocking: UNREAD_SOME;
    linger_nonblocking: UNREAD_SOME;
    shutdown_write: USUAL;
    shutdown_both: USUAL;
    shutdown_sigpipe: Case { exit: Exit::Signal(libc::SIGPIPE), ..USUAL };
    msg_more: USUAL;
    msg_oob: USUAL;
    zerocopy_first: USUAL;
    zerocopy_told: USUAL;
    zerocopy_later: USUAL;
    toggled: KEEN;
    send_timeout: Case { reader: Reader::Gated, ..KEEN };
    asked: USUAL;

    // Bad buffers, buffers.c.
    bad_buffers: USUAL;
    bad_buffers_first: USUAL;
    half_mapped: USUAL;
    truncated: USUAL;
    many_pieces: USUAL;
    odd_arguments: USUAL;
    sendfile_direct: USUAL;

    // Numbers of descriptors, descriptors.c.
    dup_over: TWO;
    dup_over_raw: TWO;
    close_raw: TWO;
    close_raw_pipe: USUAL;
    close_others: USUAL;
    close_each: USUAL;
    closefrom_it: USUAL;
    close_range_it: USUAL;
    few_descriptors: FEW;
    few_descriptors_one_more: FEW;

    // Several processes, processes.c.
    forked_daemon: USUAL;
    vfork_exec: USUAL;
    spawn: USUAL;
    spawn_stdout: USUAL;
    by_system: USUAL;
    rights: USUAL;
    rights_listener: USUAL;
    pidfd_turns: USUAL;
    fork_turns: STEADY;
    fork_chain: STEADY;
    fork_raw: STEADY;
    fork_storm: KEEN;
    exec: STEADY;
    exec_failed: STEADY;

    // Listeners, listeners.c.
    reuseport: Case { called: true, ..SEVERAL };
    listen_fds: STEADY;
    fork_each: SEVERAL;
    echo: Case { clients: 2, ..SENDING };
    upload_after_shutdown: SENDING;
    fastopen: USUAL;
    defer_accept: Case { called: true, reader: Reader::Keen, ..USUAL };
    small_buffer: Case { called: true, ..STEADY };

    // Tables of descriptors, tables.c.
    clone_shares: USUAL;
    range_unshare: TWO;
    thread_unshare: TWO;
    range_unshare_alone: USUAL;
    range_unshare_marks: USUAL;
    unshare_alone: USUAL;
    cloexec_exec: USUAL;
    exec_static: STEADY;
    fork_exec_static: USUAL;
    high_numbers: USUAL;
    close_while_writing: Case { reader: Reader::Gated, ..KEEN };

    // Closes that are not seen, resets, numbers and limits, closes.c.
    close_raw_alone: USUAL;
    close_handle: USUAL;
    close_second: USUAL;
    close_ring: USUAL;
    close_freopen: USUAL;
    close_raw_twin: USUAL;
    close_raw_again: TWO;
    reset_exit: RESET;
    reset_return: RESET;
    reset_raw_exit: RESET;
    reset_sigkill: Case { exit: Exit::Signal(libc::SIGKILL), ..RESET };
    reset_sigterm: Case { exit: Exit::Signal(libc::SIGTERM), ..RESET };
    reset_raw_close: RESET;
    reset_cloexec: RESET;
    linger_told: USUAL;
    bounds_told: USUAL;
    limit_kept: USUAL;
    numbers_before: Case { bytes: 20_000, descriptors: Some(64), ..USUAL };
    clone_files: TWO;

    // Rates, rates.c.
    rate_exec: STEERED;
    rate_fork_exec: STEERED;
    rate_spawn: STEERED;
    rate_rights: STEERED;
    rate_close: STEERED;
    rate_idle: STEERED;
    rate_raw: STEERED;
    rate_ring: STEERED;

    // Sets, polls, threads, events.c.
    two_writers: Case { woven: true, ..KEEN };
    level: MANY;
    edge: MANY;
    oneshot: MANY;
    oneshot_edge: MANY;
    set_dup_first: KEEN;
    set_dup_later: KEEN;
    set_nested: KEEN;
    set_of_one: Case { bytes: 100_000, reader: Reader::Sending(1000), ..USUAL };
    poll_odd: KEEN;
    by_selects: KEEN;
    edge_pieces: Case { bytes: 3_000_000, reader: Reader::Slow(1_000_000), ..KEEN };
    large_select: Case { bytes: 3_000_000, reader: Reader::Slow(1_000_000), ..KEEN };
    cancel_poll: USUAL;
    cancel_epoll: USUAL;
    cancel_select: USUAL;
    cancel_accept: USUAL;
    cancel_pipe: USUAL;
    cancel_sleep: USUAL;
    cancel_pending_first: USUAL;
    cancel_pending_second: TWO;
    cancel_pending: USUAL;
    cancel_write: Case { clients: 2, least: Some(0), reader: Reader::Gated, ..KEEN };

    // Filters of system calls, and rights, filters.c.
    capabilities: TWO;
    namespaces: TWO;
    seccomp_prctl: USUAL;
    seccomp_syscall: USUAL;
    seccomp_all: USUAL;
    seccomp_first: USUAL;
    seccomp_child: USUAL;

    // Ends, ends.c.
    end_close: USUAL;
    end_return: USUAL;
    end_exit: Case { exit: Exit::Code(3), ..USUAL };
    end_underscore_exit: Case { exit: Exit::Code(3), ..USUAL };
    end_quick_exit: Case { exit: Exit::Code(3), ..USUAL };
    end_exit_group: Case { exit: Exit::Code(3), ..USUAL };
    end_exit_group_raw: Case { exit: Exit::Code(3), ..USUAL };
    end_sigterm: Case { exit: Exit::Signal(libc::SIGTERM), ..USUAL };
    end_abort: Case { exit: Exit::Signal(libc::SIGABRT), ..USUAL };
    end_sigkill: Case { exit: Exit::Signal(libc::SIGKILL), ..USUAL };
    end_sigsegv: Case { exit: Exit::Signal(libc::SIGSEGV), ..USUAL };
    end_sigint: Case { exit: Exit::Signal(libc::SIGINT), ..USUAL };
    end_exit_writing: Case { exit: Exit::Code(3), least: Some(8_000_000), ..KEEN };
    end_sigterm_writing: Case { exit: Exit::Signal(libc::SIGTERM), least: Some(8_000_000), ..KEEN };
    end_sigterm_asked: Case { exit: Exit::Signal(libc::SIGTERM), ..USUAL };
    end_atexit: USUAL;
    end_pthread_exit: USUAL;
    end_pthread_exit_alone: USUAL;
    end_outq: Case { exit: Exit::Signal(libc::SIGKILL), ..USUAL };
    slow_close: SLOW;
    slow_return: SLOW;
    slow_underscore_exit: Case { exit: Exit::Code(3), ..SLOW };
    slow_sigterm: Case { exit: Exit::Signal(libc::SIGTERM), ..SLOW };
    stalled: Case { reader: Reader::Stalled(100_000, Duration::from_millis(2500)), ..SLOW };
    unread_close: UNREAD;
    unread_exit: Case { exit: Exit::Code(3), ..UNREAD };
    reset_writing: USUAL;
}
