// Options and flags of a connection.
#include "torture.h"
#include <linux/errqueue.h>
#include <linux/sockios.h>

static int kernel_cork(int fd) {
    int value = -1;
    socklen_t len = sizeof value;
    raw(SYS_getsockopt, fd, IPPROTO_TCP, TCP_CORK, (long)&value, (long)&len, 0);
    return value;
}

// Answers of 500 bytes, each corked; what the kernel itself has between them.
static void answers(int fd) {
    char word;
    int seen = -1, corked = 0, left = 0;
    socklen_t len = sizeof seen;
    while (read(fd, &word, 1) == 1) {
        set_option(fd, IPPROTO_TCP, TCP_CORK, 1);
        put(fd, 200);
        if (getsockopt(fd, IPPROTO_TCP, TCP_CORK, &seen, &len) != 0) fail("getsockopt");
        corked += seen;
        put(fd, 300);
        set_option(fd, IPPROTO_TCP, TCP_CORK, 0);
        left += kernel_cork(fd);
    }
    report("TCP_CORK was as set in %d answers, and left in the kernel after %d", corked, left);
    close(fd);
}

static void cork(void) { answers(take()); }

// It may be set long before anything is written.
static void cork_early(void) {
    int fd = take();
    set_option(fd, IPPROTO_TCP, TCP_CORK, 1);
    answers(fd);
}

static void cork_nodelay(void) {
    int fd = take();
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    answers(fd);
}

// Never taken off: the rest goes at the close.
static void cork_close(void) {
    int fd = take();
    set_option(fd, IPPROTO_TCP, TCP_CORK, 1);
    put(fd, total);
    go();
    close(fd);
}

static void linger(int seconds, int end) {
    int fd = take();
    struct linger linger = {1, seconds};
    put(fd, total);
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) fail("SO_LINGER");
    go();
    answered("close", close(fd));
    // The peer has everything, or a reset.
    if (end) kill(getpid(), SIGKILL);
}

static void linger_reset(void) { linger(0, 0); }
static void linger_long(void) { linger(60, 1); }

static void linger_early(void) {
    int fd = take();
    struct linger linger = {1, 60};
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) fail("SO_LINGER");
    put(fd, total);
    go();
    answered("close", close(fd));
    kill(getpid(), SIGKILL);
}

// The child, which has never written, closes the last name of it.
static void linger_fork(void) {
    int fd = take();
    struct linger linger = {1, 0};
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) fail("SO_LINGER");
    put(fd, total);
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        _exit(0);
    }
    answered("close", close(fd));
    reap(child);
    report("ended: %d", all_ended());
}

// No one reads: close waits this long, and no longer.
static void linger_limited(int blocking) {
    int fd = take();
    struct linger linger = {1, 2};
    struct timespec begun, ended;
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) fail("SO_LINGER");
    put(fd, total);
    nonblocking(fd, !blocking);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    answered("close", close(fd));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    report("waited for it: %d", ended.tv_sec - begun.tv_sec >= 1);
    go();
}

static void linger_blocking(void) { linger_limited(1); }
static void linger_nonblocking(void) { linger_limited(0); }

static void shutdown_write(void) {
    int fd = take();
    char word;
    put(fd, total);
    go();
    answered("shutdown", shutdown(fd, SHUT_WR));
    answered("write", write(fd, "x", 1));
    answered("send", send(fd, "x", 1, MSG_NOSIGNAL));
    // The client closes when it has seen the end.
    answered("read", read(fd, &word, 1));
    close(fd);
}

static void shutdown_both(void) {
    int fd = take();
    char word;
    put(fd, total);
    go();
    answered("shutdown", shutdown(fd, SHUT_RDWR));
    answered("write", write(fd, "x", 1));
    answered("read", read(fd, &word, 1));
    close(fd);
}

// By default, a write to what is shut raises SIGPIPE.
static void shutdown_sigpipe(void) {
    int fd = take();
    put(fd, total);
    go();
    answered("shutdown", shutdown(fd, SHUT_WR));
    signal(SIGPIPE, SIG_DFL);
    write(fd, "x", 1);
    report("after the signal");
}

static void msg_more(void) {
    int fd = take();
    unsigned char buffer[3000];
    while (at < total) {
        size_t piece = 1 + at % sizeof buffer;
        if (piece > total - at) piece = total - at;
        fill(buffer, at, piece);
        if (send(fd, buffer, piece, MSG_MORE) != (ssize_t)piece) fail("MSG_MORE");
        at += piece;
    }
    go();
    close(fd);
}

// The client has urgent bytes inline.
static void msg_oob(void) {
    int fd = take();
    unsigned char byte;
    while (at < total) {
        put(fd, total - at < 20000 ? total - at - 1 : 20000);
        fill(&byte, at, 1);
        if (send(fd, &byte, 1, MSG_OOB) != 1) fail("MSG_OOB");
        at++;
    }
    go();
    close(fd);
}

// Sends by MSG_ZEROCOPY: the pages stay as they are until the end.
static void zerocopy(int fd, size_t count) {
    unsigned char *pages = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(pages, at, count);
    for (size_t done = 0; done < count;) {
        ssize_t k = send(fd, pages + done, count - done, MSG_ZEROCOPY);
        // No more may be locked, or notified.
        if (k < 0 && errno == ENOBUFS) k = send(fd, pages + done, count - done, 0);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) fail("MSG_ZEROCOPY");
        done += k, at += k;
    }
}

static void zerocopy_first(void) {
    int fd = take();
    set_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
    zerocopy(fd, total / 2);
    put(fd, total - at);
    go();
    close(fd);
}

// The kernel says of each send that its pages are free again (MSG_ZEROCOPY in the kernel's documentation of networking).
static void zerocopy_told(void) {
    int fd = take();
    unsigned sends = 0, told = 0;
    unsigned char *pages = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    set_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
    fill(pages, 0, total);
    go();
    while (at < total) {
        ssize_t k = send(fd, pages + at, total - at < 50000 ? total - at : 50000, MSG_ZEROCOPY);
        if (k < 0) fail("MSG_ZEROCOPY");
        at += k, sends++;
    }
    while (told < sends) {
        char room[200];
        struct msghdr message = {.msg_control = room, .msg_controllen = sizeof room};
        struct pollfd p = {fd, 0, 0};
        if (poll(&p, 1, 30000) != 1) fail("nothing is told");
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) fail("the error queue");
        for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
            struct sock_extended_err *one = (void *)CMSG_DATA(head);
            if (one->ee_origin == SO_EE_ORIGIN_ZEROCOPY) told += one->ee_data - one->ee_info + 1;
            else report("told of something else: %d", one->ee_origin);
        }
    }
    report("told of all: %d", told == sends);
    close(fd);
}

// In the middle: the library may refuse the option, as an older kernel does; then the flag says nothing (socket(7)).
static void zerocopy_later(void) {
    int fd = take(), one = 1;
    put(fd, total / 2);
    setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one);
    zerocopy(fd, total / 4);
    put(fd, total - at);
    go();
    close(fd);
}

static void toggled(void) {
    int fd = take();
    go();
    for (int on = 1; at < total; on = !on) {
        if (ioctl(fd, FIONBIO, &on) != 0) fail("FIONBIO");
        put(fd, total - at < 100000 ? total - at : 100000);
        nonblocking(fd, !on);
        put(fd, total - at < 100000 ? total - at : 100000);
    }
    close(fd);
}

static int option(int fd, int level, int option) {
    int value = -1;
    socklen_t len = sizeof value;
    if (getsockopt(fd, level, option, &value, &len) != 0) fail("getsockopt");
    return value;
}

// What the kernel says of a client that does not read yet, and of options as they were set.
static void asked(void) {
    int fd = take(), waiting = -1, unsent = -1;
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    uint64_t rate = 1000000;
    put(fd, total / 10);
    if (ioctl(fd, SIOCOUTQ, &waiting) != 0 || ioctl(fd, SIOCOUTQNSD, &unsent) != 0) fail("ioctl");
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) fail("TCP_INFO");
    report("waiting: %d, of these unsent: %d, state: %d", waiting >= 0 && (size_t)waiting <= at, unsent >= 0 && unsent <= waiting, info.tcpi_state);
    report("error: %d", option(fd, SOL_SOCKET, SO_ERROR));
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 77777);
    report("TCP_NOTSENT_LOWAT: %d", option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT));
    set_option(fd, SOL_SOCKET, SO_SNDBUF, 50000);
    report("SO_SNDBUF: %d", option(fd, SOL_SOCKET, SO_SNDBUF));
    len = sizeof rate;
    if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, len) != 0) fail("SO_MAX_PACING_RATE");
    rate = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len) != 0) fail("SO_MAX_PACING_RATE");
    report("SO_MAX_PACING_RATE: %d", (int)rate);
    rate = UINT64_MAX;
    if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, len) != 0) fail("SO_MAX_PACING_RATE");
    for (int on = 1; on >= 0; on--) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, on);
        report("TCP_NODELAY: %d", option(fd, IPPROTO_TCP, TCP_NODELAY));
    }
    go();
    put(fd, total - at);
    close(fd);
}

// Both ends full, and a time limit: the call comes back with what was taken, or EAGAIN.
static void send_timeout(void) {
    int fd = take();
    size_t piece = 200000;
    unsigned char *buffer = malloc(piece);
    struct timeval limit = {0, 200000};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) fail("SO_SNDTIMEO");
    int limited = 0;
    while (at < total) {
        size_t count = total - at < piece ? total - at : piece;
        fill(buffer, at, count);
        ssize_t k = write(fd, buffer, count);
        if (k < 0 && errno != EAGAIN) fail("write");
        if (k < (ssize_t)count && !limited) {
            limited = 1;
            report("a limit was met");
            go();
        }
        if (k > 0) at += k;
    }
    close(fd);
}

const struct method options[] = {
    {"cork", cork},
    {"cork_early", cork_early},
    {"cork_nodelay", cork_nodelay},
    {"cork_close", cork_close},
    {"linger_reset", linger_reset},
    {"linger_long", linger_long},
    {"linger_early", linger_early},
    {"linger_fork", linger_fork},
    {"linger_blocking", linger_blocking},
    {"linger_nonblocking", linger_nonblocking},
    {"shutdown_write", shutdown_write},
    {"shutdown_both", shutdown_both},
    {"shutdown_sigpipe", shutdown_sigpipe},
    {"msg_more", msg_more},
    {"msg_oob", msg_oob},
    {"zerocopy_first", zerocopy_first},
    {"zerocopy_told", zerocopy_told},
    {"zerocopy_later", zerocopy_later},
    {"toggled", toggled},
    {"send_timeout", send_timeout},
    {"asked", asked},
    {0},
};
