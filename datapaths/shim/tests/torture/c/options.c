// Options and flags of a connection.
#include "torture.h"

static void set(int fd, int level, int option, int value) {
    if (setsockopt(fd, level, option, &value, sizeof value) != 0) fail("setsockopt");
}

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
        set(fd, IPPROTO_TCP, TCP_CORK, 1);
        put(fd, 200);
        if (getsockopt(fd, IPPROTO_TCP, TCP_CORK, &seen, &len) != 0) fail("getsockopt");
        corked += seen;
        put(fd, 300);
        set(fd, IPPROTO_TCP, TCP_CORK, 0);
        left += kernel_cork(fd);
    }
    report("TCP_CORK was as set in %d answers, and left in the kernel after %d", corked, left);
    close(fd);
}

static void cork(void) { answers(take()); }

// It may be set long before anything is written.
static void cork_early(void) {
    int fd = take();
    set(fd, IPPROTO_TCP, TCP_CORK, 1);
    answers(fd);
}

static void cork_nodelay(void) {
    int fd = take();
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    answers(fd);
}

// Never taken off: the rest goes at the close.
static void cork_close(void) {
    int fd = take();
    set(fd, IPPROTO_TCP, TCP_CORK, 1);
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
    set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
    zerocopy(fd, total / 2);
    put(fd, total - at);
    go();
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
    {"shutdown_write", shutdown_write},
    {"shutdown_both", shutdown_both},
    {"shutdown_sigpipe", shutdown_sigpipe},
    {"msg_more", msg_more},
    {"msg_oob", msg_oob},
    {"zerocopy_first", zerocopy_first},
    {"zerocopy_later", zerocopy_later},
    {"toggled", toggled},
    {"send_timeout", send_timeout},
    {0},
};
