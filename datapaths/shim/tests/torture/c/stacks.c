// Threads and fibers with little stack: what lies below it is another's.
#include "torture.h"
#include <ucontext.h>

// A page of the pattern at a time, from memory that is not a stack.
static void put_static(int fd, size_t count) {
    static unsigned char buffer[4096];
    while (count > 0) {
        size_t piece = count < sizeof buffer ? count : sizeof buffer;
        fill(buffer, at, piece);
        put_bytes(fd, buffer, piece);
        at += piece, count -= piece;
    }
}

static void *serve(void *unused) {
    int fd = take();
    put_static(fd, total);
    close(fd);
    return unused;
}

// As little as POSIX allows (PTHREAD_STACK_MIN of glibc's limits.h before it became a question).
static void in_thread(void *(*work)(void *)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384) != 0) fail("stack");
    pthread_t thread;
    if ((errno = pthread_create(&thread, &attributes, work, NULL)) != 0) fail("thread");
    pthread_join(thread, NULL);
}

static void small_thread(void) {
    go();
    in_thread(serve);
}

// A child that such a thread makes serves.
static void *serve_in_child(void *unused) {
    int fd = take();
    pid_t child = fork();
    if (child == 0) {
        put_static(fd, total);
        _exit(0);
    }
    close(fd);
    reap(child);
    return unused;
}

static void small_thread_forks(void) {
    go();
    in_thread(serve_in_child);
}

enum { FIBER = 8192, BELOW = 1 << 18, PAINT = 0x5a };
static ucontext_t program, fiber;
static void (*fiber_work)(int fd);
static int connection;

static void begin_fiber(void) { fiber_work(connection); }

// Runs on the last bytes of a painted area, and looks whether the paint below them is whole.
static void on_fiber(int fd, void (*work)(int)) {
    unsigned char *area = mmap(NULL, BELOW + FIBER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || getcontext(&fiber) != 0) fail("fiber");
    memset(area, PAINT, BELOW + FIBER);
    fiber.uc_stack.ss_sp = area + BELOW, fiber.uc_stack.ss_size = FIBER, fiber.uc_link = &program;
    connection = fd, fiber_work = work;
    makecontext(&fiber, begin_fiber, 0);
    swapcontext(&program, &fiber);
    size_t changed = 0;
    for (size_t i = 0; i < BELOW; i++) changed += area[i] != PAINT;
    report("changed below: %zu", changed);
}

static void put_first(int fd) { put_static(fd, 1000); }
static void put_half(int fd) { put_static(fd, total / 2); }
static void end(int fd) { close(fd); }

static void fiber_writes(void) {
    int fd = take();
    go();
    on_fiber(fd, put_first);
    on_fiber(fd, put_half);
    put(fd, total - at);
    on_fiber(fd, end);
}

// Whatever a server does with a connection besides.
static void handle(int fd) {
    struct epoll_event event = {EPOLLIN | EPOLLOUT, {.fd = fd}};
    int set = epoll_create1(0), on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) fail("set");
    while (at < total) {
        static char bytes[3000];
        if (epoll_wait(set, &event, 1, -1) != 1) fail("epoll_wait");
        fill((unsigned char *)bytes, at, sizeof bytes);
        size_t left = total - at, first = left < 1000 ? left : 1000, second = left - first < 2000 ? left - first : 2000;
        struct iovec parts[2] = {{bytes, first}, {bytes + first, second}};
        ssize_t k = writev(fd, parts, 2);
        if (k < 0 && errno != EAGAIN) fail("writev");
        if (k > 0) at += k;
        struct pollfd p = {fd, POLLIN | POLLOUT, 0};
        poll(&p, 1, 0);
        int copy = dup(fd), waiting;
        ioctl(copy, TIOCOUTQ, &waiting);
        close(copy);
    }
    close(set);
    close(fd);
}

static void fiber_serves(void) {
    int fd = take();
    nonblocking(fd, 1);
    go();
    on_fiber(fd, handle);
}

const struct method stacks[] = {
    {"small_thread", small_thread},
    {"small_thread_forks", small_thread_forks},
    {"fiber_writes", fiber_writes},
    {"fiber_serves", fiber_serves},
    {0},
};
