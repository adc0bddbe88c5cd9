// Buffers that are not there, or not all of them: the kernel answers EFAULT, and no handler runs (write(2), writev(2)).
#include "torture.h"
#include "handlers.h"
#include <sys/resource.h>

// A page that may not be read, behind this many bytes that may.
static unsigned char *before_hole(size_t readable) {
    unsigned char *pages = mmap(NULL, readable + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + readable, 4096, PROT_NONE) != 0) fail("mmap");
    return pages;
}

static void refused(int fd) {
    char *unmapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), good[4] = "abc";
    munmap(unmapped, 4096);
    void *bad[] = {NULL, (void *)8, unmapped, before_hole(0), (void *)-4096};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct iovec part = {bad[i], 100};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1}, no_parts = {.msg_iov = bad[i], .msg_iovlen = 1};
        struct mmsghdr several[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
        report("bad address %zu", i);
        answered("write", write(fd, bad[i], 100));
        answered("write nothing", write(fd, bad[i], 0));
        answered("send", send(fd, bad[i], 100, MSG_NOSIGNAL));
        answered("sendto", sendto(fd, bad[i], 100, 0, NULL, 0));
        answered("writev", writev(fd, &part, 1));
        answered("writev of no parts", writev(fd, bad[i], 1));
        answered("sendmsg", sendmsg(fd, &message, 0));
        answered("sendmsg of no parts", sendmsg(fd, &no_parts, 0));
        answered("sendmsg of nothing", sendmsg(fd, bad[i], 0));
        answered("sendmmsg", sendmmsg(fd, several, 2, 0));
        answered("sendmmsg of nothing", sendmmsg(fd, bad[i], 1, 0));
        answered("syscall", syscall(SYS_write, fd, bad[i], 100));
    }
    // What is larger than an answer can be; compilers would know better.
    volatile size_t large = (size_t)SSIZE_MAX + 1, largest = SIZE_MAX;
    volatile int negative = -1;
    answered("write too much", write(fd, good, large));
    answered("write as much as can be said", write(fd, good, largest));
    struct iovec two[2] = {{good, SSIZE_MAX}, {good, SSIZE_MAX}}, none[2] = {{NULL, 0}, {NULL, 0}};
    answered("writev too much", writev(fd, two, 2));
    answered("writev -1", writev(fd, two, negative));
    answered("writev 0", writev(fd, two, 0));
    answered("writev of empty parts", writev(fd, none, 2));
    answered("send nothing", send(fd, NULL, 0, 0));
    answered("write to -1", write(-1, good, 3));
    answered("send to a pipe", send(LINES, good, 3, 0));
}

static void bad_buffers(void) {
    int fd = take();
    on_fault(SIGSEGV), on_fault(SIGBUS);
    put(fd, total / 2);
    refused(fd);
    put(fd, total - at);
    go();
    close(fd);
}

// Nothing was written yet.
static void bad_buffers_first(void) {
    int fd = take();
    on_fault(SIGSEGV), on_fault(SIGBUS);
    refused(fd);
    put(fd, total);
    go();
    close(fd);
}

// Some of it, or none: where the kernel's own pieces end is its business. What was taken counts.
static void partly(const char *call, long taken, size_t readable) {
    int right = taken < 0 ? errno == EFAULT : taken > 0 && (size_t)taken <= readable;
    report("%s: %s", call, right ? "as much as can be read, or EFAULT" : "something else");
    if (taken > 0) at += taken;
}

static void half_mapped(void) {
    int fd = take();
    size_t large = 1 << 18, small = 4096;
    unsigned char *pages = before_hole(large);
    on_fault(SIGSEGV), on_fault(SIGBUS);
    put(fd, total / 4);
    fill(pages, at, large);
    // So much that the kernel takes some before it finds the hole.
    ssize_t k = write(fd, pages, large + 100);
    report("much: %s", k > 0 && (size_t)k <= large ? "some" : "something else");
    if (k > 0) at += k;
    pages = before_hole(small);
    fill(pages + small - 100, at, 100);
    partly("write", write(fd, pages + small - 100, 200), 100);
    fill(pages, at, small);
    struct iovec parts[3] = {{pages, 1000}, {NULL, 0}, {pages + small, 100}};
    partly("writev", writev(fd, parts, 3), 1000);
    fill(pages, at, small);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    partly("sendmsg", sendmsg(fd, &message, 0), 1000);
    fill(pages, at, small);
    // The first message is good, the second is not: one is sent.
    struct iovec good = {pages, 500}, bad = {pages + small, 500};
    struct mmsghdr two[2] = {{.msg_hdr = {.msg_iov = &good, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &bad, .msg_iovlen = 1}}};
    answered("sendmmsg", sendmmsg(fd, two, 2, 0));
    at += 500;
    put(fd, total - at);
    go();
    close(fd);
}

// A file is cut while it is served from memory.
static void truncated(void) {
    int fd = take();
    enum { SIZE = 100000 };
    FILE *made = tmpfile();
    if (!made || ftruncate(fileno(made), SIZE) != 0) fail("tmpfile");
    unsigned char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(made), 0);
    if (mapped == MAP_FAILED || ftruncate(fileno(made), 0) != 0) fail("ftruncate");
    on_fault(SIGBUS);
    put(fd, total / 2);
    answered("write", write(fd, mapped, SIZE));
    answered("send", send(fd, mapped, SIZE, 0));
    struct iovec part = {mapped, SIZE};
    answered("writev", writev(fd, &part, 1));
    put(fd, total - at);
    go();
    // A fault of the program's own is still its handler's.
    if (sigsetjmp(after_fault, 1) == 0) {
        expected = 1;
        report("read: %d", *(volatile unsigned char *)mapped);
    } else {
        report("read: the handler ran");
    }
    close(fd);
}

// As many pieces as there may be, and one more.
static void many_pieces(void) {
    int fd = take();
    static unsigned char buffer[IOV_MAX + 1][37];
    static struct iovec parts[IOV_MAX + 1];
    put(fd, total / 2);
    for (int i = 0; i <= IOV_MAX; i++) parts[i] = (struct iovec){i % 5 ? buffer[i] : NULL, i % 5 ? sizeof buffer[i] : 0};
    size_t from = at;
    for (int i = 0; i <= IOV_MAX; i++) fill(buffer[i], from, parts[i].iov_len), from += parts[i].iov_len;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = IOV_MAX + 1};
    answered("writev of too many", writev(fd, parts, IOV_MAX + 1));
    answered("sendmsg of too many", sendmsg(fd, &message, 0));
    ssize_t k = writev(fd, parts, IOV_MAX);
    answered("writev", k);
    if (k > 0) at += k;
    put(fd, total - at);
    go();
    close(fd);
}

// Places where answers go, lengths and times that are invalid. What the C library itself reads of its arguments is left out.
static void odd(int fd) {
    void *bad[] = {(void *)8, before_hole(0), (void *)-4096};
    struct linger linger;
    int on = 1, set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLOUT, {.fd = fd}};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        socklen_t len = sizeof linger, negative = -1, little = 3;
        report("bad place %zu", i);
        answered("linger", getsockopt(fd, SOL_SOCKET, SO_LINGER, bad[i], &len));
        answered("linger length", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, bad[i]));
        answered("linger negative", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &negative));
        answered("linger little", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &little));
        report("length %u", little);
        len = sizeof on;
        answered("nodelay", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, bad[i], &len));
        answered("cork length", getsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, bad[i]));
        answered("set linger", setsockopt(fd, SOL_SOCKET, SO_LINGER, bad[i], sizeof linger));
        answered("set nodelay", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, bad[i], sizeof on));
        answered("set cork", setsockopt(fd, IPPROTO_TCP, TCP_CORK, bad[i], sizeof on));
        answered("poll", poll(bad[i], 1, 0));
        answered("select", select(fd + 1, bad[i], NULL, NULL, &(struct timeval){0, 0}));
        answered("select writable", select(fd + 1, NULL, bad[i], NULL, &(struct timeval){0, 0}));
        answered("epoll_wait", epoll_wait(set, bad[i], 1, 0));
        answered("epoll_ctl add", epoll_ctl(set, EPOLL_CTL_ADD, fd, bad[i]));
        answered("epoll_ctl change", epoll_ctl(set, EPOLL_CTL_MOD, fd, bad[i]));
        answered("sendfile", sendfile(fd, LINES, bad[i], 10));
        answered("prlimit", prlimit(0, RLIMIT_NPROC, bad[i], NULL));
        answered("ioctl", ioctl(fd, TIOCOUTQ, bad[i]));
        answered("sendto", sendto(fd, "abc", 3, MSG_NOSIGNAL, bad[i], sizeof(struct sockaddr_in)));
    }
    struct pollfd many = {fd, POLLOUT, 0};
    volatile long seconds[] = {-1, 0, 0}, nanoseconds[] = {0, 2000000000, -1};
    answered("poll of too many", poll(&many, (nfds_t)1 << 40, 0));
    for (int i = 0; i < 3; i++) {
        struct timespec time = {seconds[i], nanoseconds[i]};
        struct timeval value = {seconds[i], nanoseconds[i] < 0 ? -1 : 0};
        fd_set none;
        FD_ZERO(&none);
        FD_SET(fd, &none);
        report("bad time %d", i);
        answered("ppoll", ppoll(&many, 1, &time, NULL));
        answered("pselect", pselect(fd + 1, NULL, &none, NULL, &time, NULL));
        if (i != 1) answered("select", select(fd + 1, NULL, &none, NULL, &value));
        answered("epoll_pwait2", epoll_pwait2(set, &event, 1, &time, NULL));
    }
    answered("epoll_ctl of no kind", epoll_ctl(set, 77, fd, &event));
    answered("epoll_ctl remove", epoll_ctl(set, EPOLL_CTL_DEL, fd, bad[0]));
    close(set);
}

static void odd_arguments(void) {
    int fd = take();
    put(fd, total / 2);
    odd(fd);
    put(fd, total - at);
    go();
    close(fd);
}

// A file that is read past the kernel's cache.
static void sendfile_direct(void) {
    int fd = take(), file = open("direct", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    enum { BLOCK = 4096 };
    unsigned char *block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file < 0) skip("no file without the cache here");
    size_t blocks = total / BLOCK;
    for (size_t i = 0; i < blocks; i++) {
        fill(block, i * BLOCK, BLOCK);
        if (write(file, block, BLOCK) != BLOCK) fail("write");
    }
    for (off_t place = 0; at < blocks * BLOCK; at = place)
        if (sendfile(fd, file, &place, blocks * BLOCK - at) <= 0) fail("sendfile");
    int only = open("direct", O_WRONLY);
    answered("from one that is only written", sendfile(fd, only, NULL, BLOCK));
    put(fd, total - at);
    go();
    close(fd);
}

const struct method buffers[] = {
    {"bad_buffers", bad_buffers},
    {"bad_buffers_first", bad_buffers_first},
    {"half_mapped", half_mapped},
    {"truncated", truncated},
    {"many_pieces", many_pieces},
    {"odd_arguments", odd_arguments},
    {"sendfile_direct", sendfile_direct},
    {0},
};
