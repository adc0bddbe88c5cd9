// Closes that the C library's names do not see, resets that the program wants, and numbers and limits that stay the program's.
#include "torture.h"
#include "ring.h"
#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>

static struct ring ring;

static void by_raw(int fd) { raw(SYS_close, fd, 0, 0, 0, 0, 0); }

static void by_ring(int fd) { ring_do(&ring, (struct io_uring_sqe){.opcode = IORING_OP_CLOSE, .fd = fd}); }

static void by_library(void *library, int fd) {
    int (*their_close)(int) = library ? (int (*)(int))dlsym(library, "close") : NULL;
    if (!their_close) skip("no libc.so.6");
    answered("close", their_close(fd));
}

static void by_handle(int fd) { by_library(dlopen("libc.so.6", RTLD_NOW), fd); }
static void by_second(int fd) { by_library(dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW), fd); }

// The program lives on, and the connection has ended.
static void unseen(void (*closes)(int)) {
    int fd = take();
    put(fd, total);
    go();
    closes(fd);
    report("ended: %d", all_ended());
}

static void close_raw_alone(void) { unseen(by_raw); }
static void close_handle(void) { unseen(by_handle); }
static void close_second(void) { unseen(by_second); }

static void close_ring(void) {
    ring = ring_new(raw);
    unseen(by_ring);
}

static void close_freopen(void) {
    int fd = take();
    if (dup2(fd, STDOUT_FILENO) < 0) fail("dup2");
    close(fd);
    put(STDOUT_FILENO, total);
    go();
    if (!freopen("/dev/null", "w", stdout)) fail("freopen");
    report("ended: %d", all_ended());
}

// One name is closed unseen, and the other is written to.
static void close_raw_twin(void) {
    int fd = take(), twin = dup(fd);
    put(fd, total / 2);
    by_raw(fd);
    put(twin, total - at);
    go();
    close(twin);
    report("ended: %d", all_ended());
}

// The number is another connection's, of which the library does not know.
static void close_raw_again(void) {
    int fd = take();
    put(fd, total);
    go();
    by_raw(fd);
    report("the same number: %d", raw(SYS_accept4, listener, 0, 0, 0, 0, 0) == fd);
    at = 0;
    put(fd, total);
    close(fd);
    report("ended: %d", all_ended());
}

static int resets(void) {
    struct linger at_once = {1, 0};
    int fd = take();
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) != 0) fail("SO_LINGER");
    put(fd, total);
    go();
    return fd;
}

static void reset_exit(void) { resets(), _exit(0); }
static void reset_return(void) { resets(); }
static void reset_raw_exit(void) { resets(), raw(SYS_exit_group, 0, 0, 0, 0, 0, 0); }
static void reset_sigkill(void) { resets(), kill(getpid(), SIGKILL); }
static void reset_sigterm(void) { resets(), kill(getpid(), SIGTERM); }
static void reset_raw_close(void) { by_raw(resets()), report("ended: %d", all_ended()); }

static void reset_cloexec(void) {
    int number = port();
    fcntl(resets(), F_SETFD, FD_CLOEXEC);
    execv(self, again("ended", number, 0));
    fail("execv");
}

// What was set before the first write and after it is what is read, also where it is switched off.
static void linger_told(void) {
    int fd = take();
    struct linger set[] = {{1, 9}, {0, 3}, {1, 0}, {0, 0}}, read;
    socklen_t len = sizeof read;
    for (int i = 0; i < 4; i++) {
        if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &set[i], len) != 0) fail("SO_LINGER");
        put(fd, total / 4);
        if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &read, &len) != 0) fail("SO_LINGER");
        report("linger: %d %d", read.l_onoff, read.l_linger);
    }
    put(fd, total - at);
    go();
    close(fd);
}

// Rates and bounds are the program's own to read, before, while and after it writes.
static void bounds_told(void) {
    int fd = take(), lowat = 0;
    uint64_t rate = 0;
    socklen_t len = sizeof rate, lowat_len = sizeof lowat;
    for (int i = 0; i < 3; i++) {
        if (i == 2) {
            rate = 50000000;
            if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, len) != 0) fail("SO_MAX_PACING_RATE");
            set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 70000);
        }
        put(fd, total / 3);
        if (getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len) != 0) fail("SO_MAX_PACING_RATE");
        if (getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, &lowat_len) != 0) fail("TCP_NOTSENT_LOWAT");
        report("rate %d, %llu, bound %d", len, (unsigned long long)rate, lowat);
    }
    put(fd, total - at);
    go();
    close(fd);
}

static void say_limit(const char *when) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    report("%s: %ld, %ld", when, (long)limit.rlim_cur, sysconf(_SC_OPEN_MAX));
}

static void limit_kept(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 256;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
    int fd = take();
    put(fd, total);
    say_limit("the program");
    pid_t child = fork();
    if (child == 0) say_limit("its child"), _exit(0);
    reap(child);
    int opened = 0;
    while (open("/dev/null", O_RDONLY) >= 0) opened++;
    report("opened: %d, %s", opened, strerror(errno));
    go();
    close(fd);
}

// Descriptors that were there before the first write, up to the last number.
static void numbers_before(void) {
    enum { COUNT = 24 };
    int pipes[COUNT][2], closed = 0, over = 0;
    char byte;
    for (int i = 0; i < COUNT; i++)
        if (pipe(pipes[i]) != 0) fail("pipe");
    int fd = take();
    put(fd, total);
    go();
    for (int i = 0; i < COUNT; i++) closed += close(pipes[i][1]) == 0;
    for (int i = 0; i < COUNT; i++) over += read(pipes[i][0], &byte, 1) == 0;
    report("closed %d, over %d", closed, over);
    close(fd);
}

static char stack[1 << 18] __attribute__((aligned(64)));

static int makes_a_pipe(void *unused) {
    int ends[2];
    if (pipe(ends) == 0) close(ends[0]), close(ends[1]);
    _exit(0);
    (void)unused;
}

// A child that has this process's descriptors, and a copy of its memory.
static void clone_files(void) {
    int first = take();
    put(first, total / 2);
    reap(clone(makes_a_pipe, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL));
    put(first, total - at);
    int second = take();
    at = 0;
    put(second, total);
    go();
    close(first);
    close(second);
    report("ended: %d", all_ended());
}

const struct method closes[] = {
    {"close_raw_alone", close_raw_alone},
    {"close_handle", close_handle},
    {"close_second", close_second},
    {"close_ring", close_ring},
    {"close_freopen", close_freopen},
    {"close_raw_twin", close_raw_twin},
    {"close_raw_again", close_raw_again},
    {"reset_exit", reset_exit},
    {"reset_return", reset_return},
    {"reset_raw_exit", reset_raw_exit},
    {"reset_sigkill", reset_sigkill},
    {"reset_sigterm", reset_sigterm},
    {"reset_raw_close", reset_raw_close},
    {"reset_cloexec", reset_cloexec},
    {"linger_told", linger_told},
    {"bounds_told", bounds_told},
    {"limit_kept", limit_kept},
    {"numbers_before", numbers_before},
    {"clone_files", clone_files},
    {0},
};
