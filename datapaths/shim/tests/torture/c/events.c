// Sets of epoll, poll and select, and threads that are cancelled in them.
#include "torture.h"
#include <sys/resource.h>

// Connections in one set, served by several threads.
struct served {
    int fd, done;
    size_t at;
    atomic_int busy;
    pthread_mutex_t lock;
};

enum { CONNECTIONS = 24, THREADS = 8 };

static struct served all[CONNECTIONS];
static int set;
static uint32_t style;
static atomic_int finished, twice, errors;

// Writes what there is room for. Level-triggered sets say it again: not all at once then.
static void write_some(struct served *one) {
    unsigned char buffer[20000];
    for (int i = 0; one->at < total && (style & EPOLLET || i < 3); i++) {
        size_t count = total - one->at < sizeof buffer ? total - one->at : sizeof buffer;
        fill(buffer, one->at, count);
        ssize_t k = write(one->fd, buffer, count);
        if (k < 0 && errno == EAGAIN) return;
        if (k < 0) fail("write");
        one->at += k;
    }
    if (one->at == total && !one->done) {
        one->done = 1;
        close(one->fd);
        finished++;
    }
}

static void rearm(struct served *one) {
    struct epoll_event wanted = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | style, {.ptr = one}};
    if (epoll_ctl(set, EPOLL_CTL_MOD, one->fd, &wanted) != 0) fail("EPOLL_CTL_MOD");
}

static void *serve(void *unused) {
    struct epoll_event said[8];
    while (finished < CONNECTIONS) {
        int count = epoll_wait(set, said, 8, 100);
        for (int i = 0; i < count; i++) {
            struct served *one = said[i].data.ptr;
            if (said[i].events & EPOLLERR && !(said[i].events & EPOLLHUP)) errors++;
            if (style & EPOLLONESHOT) {
                if (atomic_exchange(&one->busy, 1)) {
                    twice++;
                    continue;
                }
                write_some(one);
                int done = one->done;
                one->busy = 0;
                if (!done) rearm(one);
            } else {
                pthread_mutex_lock(&one->lock);
                if (!one->done) write_some(one);
                pthread_mutex_unlock(&one->lock);
            }
        }
    }
    return unused;
}

static void in_threads(uint32_t wanted) {
    pthread_t threads[THREADS];
    style = wanted, set = epoll_create1(0);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, serve, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        all[i].fd = take();
        pthread_mutex_init(&all[i].lock, NULL);
        nonblocking(all[i].fd, 1);
        struct epoll_event first = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | style, {.ptr = &all[i]}};
        if (epoll_ctl(set, EPOLL_CTL_ADD, all[i].fd, &first) != 0) fail("EPOLL_CTL_ADD");
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    report("held by two threads: %d times, EPOLLERR: %d times", twice, errors);
}

static void level(void) { in_threads(0); }
static void edge(void) { in_threads(EPOLLET); }
static void oneshot(void) { in_threads(EPOLLONESHOT); }
static void oneshot_edge(void) { in_threads(EPOLLONESHOT | EPOLLET); }

// Says when there is room; ends when all is written.
static void write_when(int fd, int (*wait)(int fd)) {
    unsigned char buffer[100000];
    nonblocking(fd, 1);
    while (at < total) {
        if (!wait(fd)) continue;
        size_t count = total - at < sizeof buffer ? total - at : sizeof buffer;
        fill(buffer, at, count);
        ssize_t k = write(fd, buffer, count);
        if (k < 0 && errno != EAGAIN) fail("write");
        if (k > 0) at += k;
    }
    close(fd);
}

static void add(int to, int fd, uint32_t events) {
    struct epoll_event wanted = {events, {.fd = fd}};
    if (epoll_ctl(to, EPOLL_CTL_ADD, fd, &wanted) != 0) fail("EPOLL_CTL_ADD");
}

static int by_set(int fd) {
    struct epoll_event said;
    if (epoll_wait(set, &said, 1, 60000) != 1) fail("epoll_wait");
    if (said.data.fd != fd || said.events != EPOLLOUT) fail("epoll_wait said something else");
    return 1;
}

// The set has another number, and its own is something else.
static int renumbered(void) {
    int again = dup(set);
    close(set);
    if (open("/dev/null", O_RDONLY) < 0) fail("/dev/null");
    return again;
}

static void set_dup_first(void) {
    int fd = take();
    set = epoll_create1(0), set = renumbered();
    add(set, fd, EPOLLOUT);
    write_when(fd, by_set);
}

static int by_set_again(int fd) {
    struct epoll_event wanted = {EPOLLOUT, {.fd = fd}};
    if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &wanted) != 0) fail("EPOLL_CTL_MOD");
    return by_set(fd);
}

static void set_dup_later(void) {
    int fd = take();
    set = epoll_create1(0);
    add(set, fd, EPOLLOUT);
    set = renumbered();
    write_when(fd, by_set_again);
}

static int outer;

static int by_outer(int fd) {
    struct epoll_event said;
    if (epoll_wait(outer, &said, 1, 60000) != 1 || said.data.fd != set) fail("the outer set");
    // Another may have been faster, or it was a stamp.
    return epoll_wait(set, &said, 1, 0) == 1 && said.data.fd == fd;
}

static void set_nested(void) {
    int fd = take();
    set = epoll_create1(0), outer = epoll_create1(0);
    add(set, fd, EPOLLIN | EPOLLOUT);
    add(outer, set, EPOLLIN);
    write_when(fd, by_outer);
}

static int by_odd_poll(int fd) {
    struct pollfd p[5] = {{fd, POLLOUT, 0}, {fd, POLLIN | POLLOUT, 0}, {-1, POLLOUT, 0}, {900, POLLIN, 0}, {fd, POLLOUT, 0}};
    int count = poll(p, 5, 60000);
    if (count < 1 || p[3].revents != POLLNVAL || p[2].revents != 0) fail("poll");
    // What is invalid makes it return at once.
    if (count == 1) usleep(1000);
    // It may become writable between one entry and the next.
    int writable = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i].fd != fd) continue;
        if (p[i].revents != 0 && p[i].revents != POLLOUT) fail("poll said something else");
        writable += p[i].revents == POLLOUT;
    }
    if (count != writable + 1) fail("poll counted something else");
    return writable > 0;
}

static void poll_odd(void) { write_when(take(), by_odd_poll); }

static int by_select(int fd) {
    fd_set in, out, except;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    out = except = in;
    struct timeval limit = {60, 0};
    if (select(fd + 1, &in, &out, &except, &limit) != 1 || !FD_ISSET(fd, &out)) fail("select");
    return 1;
}

static void by_selects(void) { write_when(take(), by_select); }

// Pieces of many sizes, most of which go in part; edges are told once.
static void edge_pieces(void) {
    static unsigned char buffer[91000];
    int fd = take();
    struct epoll_event said;
    struct timespec limit = {60, 0};
    nonblocking(fd, 1);
    set = epoll_create1(0);
    add(set, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    for (size_t turn = 0; at < total;) {
        size_t count = 1000 + turn * 7919 % 90000;
        if (count > total - at) count = total - at;
        fill(buffer, at, count);
        ssize_t k = write(fd, buffer, count);
        if (k > 0) {
            at += k, turn++;
            continue;
        }
        if (errno != EAGAIN) fail("write");
        if (epoll_pwait2(set, &said, 1, &limit, NULL) != 1 || said.events & (EPOLLERR | EPOLLHUP)) fail("epoll_pwait2");
    }
    close(fd);
}

// A number above FD_SETSIZE, in a set that is large enough (select(2) has no limit in the kernel).
static int by_large_set(int fd) {
    static unsigned long out[64];
    enum { BITS = 8 * sizeof *out };
    memset(out, 0, sizeof out);
    out[fd / BITS] = 1UL << fd % BITS;
    struct timespec limit = {60, 0};
    if (pselect(fd + 1, NULL, (void *)out, NULL, &limit, NULL) != 1 || out[fd / BITS] != 1UL << fd % BITS) fail("pselect");
    return 1;
}

static void large_select(void) {
    enum { NUMBER = 2500 };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 4096) skip("the limit of descriptors is below 4096");
    if (limit.rlim_cur < 4096) limit.rlim_cur = 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    int fd = take();
    if (dup2(fd, NUMBER) != NUMBER) fail("dup2");
    close(fd);
    write_when(NUMBER, by_large_set);
}

// Waits for what never comes.
static int idle;

static void *in_poll(void *unused) {
    struct pollfd p = {idle, POLLIN, 0};
    poll(&p, 1, -1);
    return unused;
}

static void *in_epoll(void *unused) {
    struct epoll_event said;
    set = epoll_create1(0);
    add(set, idle, EPOLLIN);
    epoll_wait(set, &said, 1, -1);
    return unused;
}

static void *in_select(void *unused) {
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(idle, &readable);
    select(idle + 1, &readable, NULL, NULL, NULL);
    return unused;
}

// A pipe that no one reads.
static void *in_pipe(void *unused) {
    static char bytes[1 << 17];
    int ends[2];
    if (pipe(ends) != 0) fail("pipe");
    for (;;)
        if (write(ends[1], bytes, sizeof bytes) < 0) fail("write");
    return unused;
}

static void *in_sleep(void *unused) {
    sleep(60);
    return unused;
}

static void *in_accept(void *unused) {
    int other = socket(AF_INET, SOCK_STREAM, 0);
    if (listen(other, 1) != 0) fail("listen");
    accept(other, NULL, NULL);
    return unused;
}

static void *in_write(void *unused) {
    static unsigned char buffer[1 << 20];
    for (size_t from = 0;; from += sizeof buffer) {
        fill(buffer, from, sizeof buffer);
        if (write(idle, buffer, sizeof buffer) < (ssize_t)sizeof buffer) fail("write");
    }
    return unused;
}

static void cancel(void *(*in)(void *)) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, in, NULL);
    usleep(200000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    report("cancelled: %d", result == PTHREAD_CANCELED);
}

static void cancelled_in(void *(*in)(void *)) {
    idle = take();
    put(idle, total / 2);
    cancel(in);
    put(idle, total - at);
    go();
    close(idle);
}

static void cancel_poll(void) { cancelled_in(in_poll); }
static void cancel_epoll(void) { cancelled_in(in_epoll); }
static void cancel_select(void) { cancelled_in(in_select); }
static void cancel_accept(void) { cancelled_in(in_accept); }
static void cancel_pipe(void) { cancelled_in(in_pipe); }
static void cancel_sleep(void) { cancelled_in(in_sleep); }

// The first client gets what was taken until then.
static void cancel_write(void) {
    idle = take();
    cancel(in_write);
    close(idle);
    go();
    int fd = take();
    put(fd, total);
    close(fd);
}

// Cancelled before the call, which acts on it before it does anything, or does all of it (pthreads(7)).
static sem_t ready, cancelled;
static unsigned char hundred[100];
static struct iovec whole = {hundred, sizeof hundred};

static ssize_t do_write(void) { return write(idle, hundred, sizeof hundred); }
static ssize_t do_send(void) { return send(idle, hundred, sizeof hundred, 0); }
static ssize_t do_writev(void) { return writev(idle, &whole, 1); }
static ssize_t do_sendmsg(void) { return sendmsg(idle, &(struct msghdr){.msg_iov = &whole, .msg_iovlen = 1}, 0); }
static ssize_t do_poll(void) { return in_poll(NULL), 0; }
static ssize_t do_select(void) { return in_select(NULL), 0; }
static ssize_t do_epoll(void) { return in_epoll(NULL), 0; }
static ssize_t do_accept(void) { return in_accept(NULL), 0; }
static ssize_t do_close(void) { return close(dup(idle)), 0; }

static ssize_t (*call)(void);

static void *called(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sem_post(&ready);
    sem_wait(&cancelled);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    ssize_t k = call();
    if (k > 0) at += k;
    pthread_testcancel();
    return unused;
}

static void cancel_before(ssize_t (*wanted)(void)) {
    pthread_t thread;
    void *result;
    sem_init(&ready, 0, 0);
    sem_init(&cancelled, 0, 0);
    call = wanted;
    fill(hundred, at, sizeof hundred);
    pthread_create(&thread, NULL, called, NULL);
    sem_wait(&ready);
    pthread_cancel(thread);
    sem_post(&cancelled);
    pthread_join(thread, &result);
    report("cancelled: %d", result == PTHREAD_CANCELED);
}

static void cancel_pending_first(void) {
    idle = take();
    cancel_before(do_write);
    put(idle, total - at);
    go();
    close(idle);
}

// The first of this connection, not of the program.
static void cancel_pending_second(void) {
    idle = take();
    put(idle, total);
    go();
    close(idle);
    idle = take(), at = 0;
    cancel_before(do_write);
    put(idle, total - at);
    close(idle);
}

static void cancel_pending(void) {
    ssize_t (*calls[])(void) = {do_write, do_send, do_writev, do_sendmsg, do_poll, do_select, do_epoll, do_accept, do_close};
    idle = take();
    put(idle, total / 2);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) cancel_before(calls[i]);
    put(idle, total - at);
    go();
    // A close that was cancelled has left a duplicate.
    shutdown(idle, SHUT_WR);
    close(idle);
}

// Two threads write to one connection: each one's bytes stay in order, the first's up to 127, the other's from 128.
static void *write_half(void *high) {
    unsigned char block[128 * 300];
    for (size_t i = 0; i < sizeof block; i++) block[i] = i % 128 + (high ? 128 : 0);
    for (size_t done = 0; done < total / 2; done += sizeof block)
        put_bytes(idle, block, total / 2 - done < sizeof block ? total / 2 - done : sizeof block);
    return high;
}

static void two_writers(void) {
    pthread_t other;
    idle = take();
    pthread_create(&other, NULL, write_half, &idle);
    write_half(NULL);
    pthread_join(other, NULL);
    close(idle);
}

// A set that says one thing at a time says all that holds of a connection: that there is room, and what has come.
static void set_of_one(void) {
    int fd = take(), set = epoll_create1(0), left = 1, come = 0;
    struct epoll_event event = {EPOLLIN | EPOLLOUT, {.fd = fd}};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
    put(fd, total);
    go();
    while (left > 0 || come < 1000)
        if (ioctl(fd, TIOCOUTQ, &left) != 0 || ioctl(fd, FIONREAD, &come) != 0) fail("ioctl");
        else usleep(1000);
    int count = epoll_wait(set, &event, 1, 1000);
    report("events: %d, %x", count, event.events);
    char bytes[1000];
    while (come > 0 && (left = read(fd, bytes, sizeof bytes)) > 0) come -= left;
    close(fd);
}

const struct method events[] = {
    {"two_writers", two_writers},
    {"level", level},
    {"edge", edge},
    {"oneshot", oneshot},
    {"oneshot_edge", oneshot_edge},
    {"set_dup_first", set_dup_first},
    {"set_dup_later", set_dup_later},
    {"set_nested", set_nested},
    {"poll_odd", poll_odd},
    {"by_selects", by_selects},
    {"edge_pieces", edge_pieces},
    {"large_select", large_select},
    {"cancel_poll", cancel_poll},
    {"cancel_epoll", cancel_epoll},
    {"cancel_select", cancel_select},
    {"cancel_accept", cancel_accept},
    {"cancel_pipe", cancel_pipe},
    {"cancel_sleep", cancel_sleep},
    {"cancel_write", cancel_write},
    {"cancel_pending_first", cancel_pending_first},
    {"cancel_pending_second", cancel_pending_second},
    {"cancel_pending", cancel_pending},
    {"set_of_one", set_of_one},
    {0},
};
