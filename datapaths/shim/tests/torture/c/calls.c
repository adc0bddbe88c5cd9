// Calls that write, and ways into the kernel that pass by the library.
#include "torture.h"
#include "ring.h"
#include <sys/stat.h>

static unsigned char buffer[1 << 17];

static size_t piece(size_t most) { return total - at < most ? total - at : most; }

static void aio_turns(void) {
    int fd = take();
    while (at < total) {
        put(fd, piece(20000));
        struct aiocb request = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = piece(5000)};
        const struct aiocb *one = &request;
        fill(buffer, at, request.aio_nbytes);
        if (aio_write(&request) != 0) fail("aio_write");
        while (aio_error(&request) == EINPROGRESS) aio_suspend(&one, 1, NULL);
        ssize_t k = aio_return(&request);
        if (k < 0) fail("aio_return");
        at += k;
    }
    go();
    close(fd);
}

static void raw_turns(void) {
    int fd = take();
    while (at < total) {
        put(fd, piece(30000));
        size_t count = piece(5000);
        fill(buffer, at, count);
        for (size_t done = 0; done < count;) {
            long k = raw(SYS_write, fd, (long)buffer + done, count - done, 0, 0, 0);
            if (k < 0) errno = -k, fail("raw write");
            done += k, at += k;
        }
    }
    go();
    close(fd);
}

// Once, and then the end: a program that looks at the next write only has not seen it.
static void raw_last(void) {
    int fd = take();
    put(fd, total - 1000);
    fill(buffer, at, 1000);
    if (raw(SYS_write, fd, (long)buffer, 1000, 0, 0, 0) != 1000) fail("raw write");
    go();
    close(fd);
}

// Nothing is queued then, so nothing is overtaken.
static void raw_alone(void) {
    int fd = take(), left = 1;
    go();
    put(fd, 10000);
    while (left > 0)
        if (ioctl(fd, TIOCOUTQ, &left) != 0) fail("SIOCOUTQ");
    while (at < total) {
        size_t count = piece(sizeof buffer);
        fill(buffer, at, count);
        long k = raw(SYS_write, fd, (long)buffer, count, 0, 0, 0);
        if (k < 0) errno = -k, fail("raw write");
        at += k;
    }
    close(fd);
}

static void ring_turns(long (*call)(long, long, long, long, long, long, long)) {
    int fd = take();
    put(fd, 10000);
    struct ring ring = ring_new(call);
    while (at < total) {
        put(fd, piece(20000));
        size_t count = piece(5000);
        fill(buffer, at, count);
        for (size_t done = 0; done < count;) {
            int k = ring_write(&ring, fd, buffer + done, count - done);
            if (k < 0) errno = -k, fail("write by io_uring");
            done += k, at += k;
        }
    }
    go();
    close(fd);
}

static long by_library(long number, long a, long b, long c, long d, long e, long f) {
    long result = syscall(number, a, b, c, d, e, f);
    return result < 0 ? -errno : result;
}

static void ring(void) { ring_turns(by_library); }
static void ring_raw(void) { ring_turns(raw); }

// Nothing but the ring: accept, send and close.
static void ring_alone(void) {
    struct ring ring = ring_new(by_library);
    for (int turn = 0; turn < 2; turn++) {
        int fd = ring_do(&ring, (struct io_uring_sqe){.opcode = IORING_OP_ACCEPT, .fd = listener});
        if (fd < 0) errno = -fd, fail("accept by io_uring");
        for (at = 0; at < total;) {
            size_t count = piece(sizeof buffer);
            fill(buffer, at, count);
            int k = ring_do(&ring, (struct io_uring_sqe){.opcode = IORING_OP_SEND, .fd = fd, .addr = (uintptr_t)buffer, .len = count});
            if (k < 0) errno = -k, fail("send by io_uring");
            at += k;
        }
        int closed = ring_do(&ring, (struct io_uring_sqe){.opcode = IORING_OP_CLOSE, .fd = fd});
        if (closed < 0) errno = -closed, fail("close by io_uring");
    }
    report("ended: %d", all_ended());
}

// There unless liburing is.
int io_uring_queue_init(unsigned entries, void *ring, unsigned flags) __attribute__((weak));

static void weak_ring(void) {
    put(take(), total);
    go();
    report("liburing: %s", io_uring_queue_init ? "there" : "not there");
}

static void send_many(void) {
    int fd = take();
    nonblocking(fd, 1);
    while (at < total) {
        struct mmsghdr messages[20] = {0};
        struct iovec parts[20][5];
        size_t from = at;
        for (int i = 0; i < 20; i++) {
            for (int j = 0; j < 5; j++) {
                size_t count = from % 701;
                if (count > total - from) count = total - from;
                if (count == 0) count = from < total;
                fill(buffer + (from - at), from, count);
                parts[i][j] = (struct iovec){buffer + (from - at), count};
                from += count;
            }
            messages[i].msg_hdr.msg_iov = parts[i], messages[i].msg_hdr.msg_iovlen = 5;
        }
        int k = sendmmsg(fd, messages, 20, 0);
        if (k < 0 && errno == EAGAIN) {
            struct pollfd p = {fd, POLLOUT, 0};
            poll(&p, 1, -1);
            continue;
        }
        if (k < 0) fail("sendmmsg");
        for (int i = 0; i < k; i++) {
            at += messages[i].msg_len;
            // A message that went in part is the last.
            if (messages[i].msg_len < parts[i][0].iov_len + parts[i][1].iov_len + parts[i][2].iov_len + parts[i][3].iov_len + parts[i][4].iov_len) break;
        }
    }
    go();
    close(fd);
}

// A file with the bytes from here on.
static int file(size_t count) {
    FILE *made = tmpfile();
    unsigned char *bytes = malloc(count);
    fill(bytes, at, count);
    if (!made || fwrite(bytes, 1, count, made) != count || fflush(made) != 0) fail("tmpfile");
    free(bytes);
    rewind(made);
    return fileno(made);
}

static void sendfile_turns(void) {
    int fd = take();
    go();
    while (at < total) {
        put(fd, piece(30000));
        size_t count = piece(50000);
        if (count == 0) break;
        int from = file(count);
        off_t offset = 0;
        while ((size_t)offset < count)
            if (sendfile(fd, from, &offset, count - offset) < 0) fail("sendfile");
        at += count;
        close(from);
    }
    close(fd);
}

static void splice_turns(void) {
    int fd = take(), ends[2];
    if (pipe(ends) != 0) fail("pipe");
    go();
    while (at < total) {
        put(fd, piece(10000));
        // A page is given away: another each time.
        size_t count = piece(30000);
        if (count == 0) break;
        unsigned char *pages = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fill(pages, at, count);
        struct iovec part = {pages, count};
        ssize_t given = vmsplice(ends[1], &part, 1, 0);
        if (given < 0) fail("vmsplice");
        for (ssize_t left = given; left > 0;) {
            ssize_t k = splice(ends[0], NULL, fd, NULL, left, 0);
            if (k <= 0) fail("splice");
            left -= k, at += k;
        }
    }
    close(fd);
}

// What can be sent from is the kernel's business: a pipe is not (sendfile(2)).
static void sendfile_pipe(void) {
    int fd = take(), ends[2];
    put(fd, total / 2);
    if (pipe(ends) != 0) fail("pipe");
    fill(buffer, at, 4000);
    put_bytes(ends[1], buffer, 4000);
    ssize_t k = sendfile(fd, ends[0], NULL, 4000);
    answered("sendfile", k);
    if (k > 0) at += k;
    go();
    put(fd, total - at);
    close(fd);
}

// Nor is a socket.
static void sendfile_socket(void) {
    int fd = take(), ends[2];
    put(fd, total / 2);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    fill(buffer, at, 4000);
    put_bytes(ends[1], buffer, 4000);
    ssize_t k = sendfile(fd, ends[0], NULL, 4000);
    answered("sendfile", k);
    if (k > 0) at += k;
    go();
    put(fd, total - at);
    close(fd);
}

// Copies that a connection cannot be an end of, and places where there is nothing.
static void odd_copies(void) {
    int fd = take(), from = file(1000);
    off_t negative = -5, past = 2000, start = 0;
    put(fd, total / 2);
    go();
    answered("copy_file_range", copy_file_range(from, &start, fd, NULL, 10, 0));
    answered("pwrite", pwrite(fd, "x", 1, 0));
    answered("sendfile from before the file", sendfile(fd, from, &negative, 10));
    answered("sendfile from behind the file", sendfile(fd, from, &past, 10));
    answered("sendfile of nothing", sendfile(fd, from, &start, 0));
    answered("sendfile from itself", sendfile(fd, fd, NULL, 10));
    answered("sendfile to a number that is free", sendfile(900, from, &start, 10));
    report("the places: %d %d %d", (int)negative, (int)past, (int)start);
    put(fd, total - at);
    close(fd);
}

const struct method calls[] = {
    {"aio_turns", aio_turns},
    {"raw_turns", raw_turns},
    {"raw_last", raw_last},
    {"raw_alone", raw_alone},
    {"ring", ring},
    {"ring_raw", ring_raw},
    {"ring_alone", ring_alone},
    {"weak_ring", weak_ring},
    {"send_many", send_many},
    {"sendfile_turns", sendfile_turns},
    {"splice_turns", splice_turns},
    {"sendfile_pipe", sendfile_pipe},
    {"sendfile_socket", sendfile_socket},
    {"odd_copies", odd_copies},
    {0},
};
