// The ways to write to a connection, with and without waiting for room, and what serves and writes have in common.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// Seconds: longer than anything takes on a busy machine.
#define PATIENCE 60

static const char *method, *path, *self;
static int file;
static char *data;
static size_t size;
static unsigned long long seed = 1;
static volatile size_t written;

static void die(const char *what) {
    fprintf(stderr, "serve %s: %s: %s\n", method, what, strerror(errno));
    _exit(70);
}

static unsigned draw(unsigned below) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33) % below;
}

static int is(const char *name) { return strcmp(method, name) == 0; }

// A size for the next write: mostly small, sometimes large.
static size_t piece(size_t at) {
    size_t n = draw(4) ? 1 + draw(3000) : 1 + draw(60000);
    return n < size - at ? n : size - at;
}

static void nonblocking(int fd) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) die("fcntl");
}

// One write of up to n bytes by the method; as write(2).
static ssize_t put(int fd, const char *p, size_t n) {
    struct iovec v[3] = {{(void *)p, n / 3}, {(void *)(p + n / 3), n / 3}, {(void *)(p + n / 3 * 2), n - n / 3 * 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
    if (is("writev")) return writev(fd, v, 3);
    if (is("pwritev2")) return pwritev2(fd, v, 3, -1, 0);
    if (is("send")) return send(fd, p, n, MSG_NOSIGNAL);
    if (is("sendto")) return sendto(fd, p, n, 0, NULL, 0);
    if (is("sendmsg")) return sendmsg(fd, &m, 0);
    if (is("syscall")) return syscall(SYS_write, fd, p, n);
    if (is("sendmmsg")) {
        struct iovec a = {(void *)p, n / 2}, b = {(void *)(p + n / 2), n - n / 2};
        struct mmsghdr all[2] = {{.msg_hdr = {.msg_iov = &a, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &b, .msg_iovlen = 1}}};
        int k = sendmmsg(fd, all, 2, 0);
        if (k < 0) return -1;
        return (k > 0 ? all[0].msg_len : 0) + (k > 1 ? all[1].msg_len : 0);
    }
    return write(fd, p, n);
}

static void put_all(int fd, size_t from, size_t to) {
    while (from < to) {
        size_t n = piece(from);
        if (n > to - from) n = to - from;
        ssize_t k = put(fd, data + from, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) die("write");
        from += k, written += k;
    }
}

static void wait_writable(int fd) {
    if (is("select") || is("pselect")) {
        fd_set w, r;
        FD_ZERO(&w);
        FD_ZERO(&r);
        FD_SET(fd, &w);
        FD_SET(fd, &r);
        struct timeval t = {PATIENCE, 0};
        struct timespec ts = {PATIENCE, 0};
        int k = is("select") ? select(fd + 1, &r, &w, NULL, &t) : pselect(fd + 1, &r, &w, NULL, &ts, NULL);
        if (k <= 0) die("select");
        if (!FD_ISSET(fd, &w)) die("select reported something else");
        return;
    }
    struct pollfd p[2] = {{.fd = fd, .events = POLLOUT | POLLIN}, {.fd = -1}};
    struct timespec ts = {PATIENCE, 0};
    int k = is("ppoll") ? ppoll(p, 2, &ts, NULL) : poll(p, 2, PATIENCE * 1000);
    if (k != 1) die("poll");
    if (p[0].revents != POLLOUT) { errno = p[0].revents; die("poll reported something else"); }
}

// Writes without blocking; nothing but readiness for writing may be said.
static void put_polled(int fd, size_t from, size_t to) {
    nonblocking(fd);
    while (from < to) {
        wait_writable(fd);
        size_t n = piece(from);
        ssize_t k = write(fd, data + from, n < to - from ? n : to - from);
        if (k < 0 && errno == EAGAIN) continue;
        if (k < 0) die("write");
        from += k;
    }
    // Everything is acknowledged, which does not matter here.
    usleep(50000);
    wait_writable(fd);
}
