// Handlers that write, while the program is in other calls. POSIX.1-2017 2.4.3: write is async-signal-safe.
#include "torture.h"
#include "tick.h"

static int connection;

static void on_tick(int number) {
    int error = errno;
    size_t piece = total / 500 + 11;
    if (at < total) put(connection, total - at < piece ? total - at : piece);
    errno = error;
    (void)number;
}

static void calls_meanwhile(int flags) {
    int fd = connection = take(), set = epoll_create1(0);
    struct epoll_event wanted = {EPOLLIN | EPOLLOUT, {.fd = fd}}, said;
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted) != 0) fail("epoll_ctl");
    tick(on_tick, flags);
    while (at < total) {
        epoll_ctl(set, EPOLL_CTL_MOD, fd, &wanted);
        epoll_wait(set, &said, 1, 0);
        struct pollfd p = {fd, POLLIN | POLLOUT, 0};
        poll(&p, 1, 0);
        fd_set writable;
        FD_ZERO(&writable);
        FD_SET(fd, &writable);
        struct timeval none = {0, 0};
        select(fd + 1, NULL, &writable, NULL, &none);
        int value;
        socklen_t len = sizeof value;
        ioctl(fd, TIOCOUTQ, &value);
        getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len);
        close(dup(fd));
    }
    tick_no_more();
    go();
    close(fd);
}

static void sig_write(void) { calls_meanwhile(0); }
static void sig_write_restart(void) { calls_meanwhile(SA_RESTART); }

static void sig_malloc(void) {
    int fd = connection = take();
    put(fd, 1000);
    tick(on_tick, SA_RESTART);
    // Larger than what a thread keeps for itself, so that malloc takes its lock each time.
    void *some[64] = {0};
    for (size_t i = 0; at < total; i++) {
        void **one = &some[i * 7919 % 64];
        free(*one);
        *one = malloc(1100 + i * 104729 % 60000);
    }
    tick_no_more();
    go();
    close(fd);
}

// Single bytes, which nothing can tear: those of the program count from 0 to 127, those of the handler from 128 to 255.
static volatile size_t handled;

static void on_tick_byte(int number) {
    int error = errno;
    unsigned char byte = 128 + handled % 128;
    if (handled < total / 2) put_bytes(connection, &byte, 1), handled++;
    errno = error;
    (void)number;
}

static void sig_within_write(void) {
    connection = take();
    tick(on_tick_byte, 0);
    for (size_t i = 0; i < total / 2; i++) {
        unsigned char byte = i % 128;
        put_bytes(connection, &byte, 1);
    }
    while (handled < total / 2) raise(SIGUSR1);
    tick_no_more();
    go();
    close(connection);
}

// The same while the program waits for room most of the time.
static void sig_blocked(void) {
    static unsigned char block[128 * 400];
    enum { HANDLED = 1000 };
    connection = take();
    for (size_t i = 0; i < sizeof block; i++) block[i] = i % 128;
    total -= HANDLED;
    size_t blocks = total / sizeof block, rest = total % sizeof block;
    total = 2 * HANDLED;
    tick(on_tick_byte, SA_RESTART);
    for (size_t i = 0; i < blocks; i++) put_bytes(connection, block, sizeof block);
    put_bytes(connection, block, rest);
    while (handled < HANDLED) raise(SIGUSR1);
    tick_no_more();
    close(connection);
}

// A handler that ends the program, in the middle of whatever.
static void on_tick_exit(int number) {
    (void)number;
    if (at >= total / 2) _exit(0);
}

static void sig_exit(void) {
    int fd = take();
    go();
    tick(on_tick_exit, SA_RESTART);
    for (;;) {
        free(malloc(100000));
        if (at < total) put(fd, 1 + at % 100);
    }
}

static sigjmp_buf out;

static void jump(int number) { siglongjmp(out, number); }

// A time limit, as it was made before threads: out of the call. The first client gets what was taken until then.
static void sig_jump(void) {
    static unsigned char buffer[1 << 20];
    int fd = take(), flag = 1;
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGUSR1, &action, NULL);
    if (sigsetjmp(out, 1) == 0) {
        tick_once(300);
        for (size_t from = 0;; from += sizeof buffer) {
            fill(buffer, from, sizeof buffer);
            put_bytes(fd, buffer, sizeof buffer);
        }
    }
    report("out of the call");
    if (ioctl(fd, FIONBIO, &flag) != 0) fail("FIONBIO");
    close(fd);
    go();
    fd = take();
    put(fd, total);
    close(fd);
}

// Where a connection of the program's own ends: reads until it does.
static void *read_all(void *socket) {
    static char bytes[65536];
    while (read((int)(intptr_t)socket, bytes, sizeof bytes) > 0) {}
    return NULL;
}

// Out of writes again and again, wherever they are, from a connection that has both its ends here.
static void sig_jump_often(void) {
    static unsigned char buffer[1 << 16];
    int own = socket(AF_INET, SOCK_STREAM, 0), peer = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (bind(own, (void *)&address, len) != 0 || listen(own, 1) != 0) fail("listen");
    getsockname(own, (void *)&address, &len);
    if (connect(peer, (void *)&address, len) != 0) fail("connect");
    int fd = accept(own, NULL, NULL);
    sigset_t only;
    sigemptyset(&only), sigaddset(&only, SIGUSR1);
    // The thread that reads receives no signal.
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    pthread_t reader;
    pthread_create(&reader, NULL, read_all, (void *)(intptr_t)peer);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    volatile int jumps = 0;
    tick(jump, 0);
    while (sigsetjmp(out, 1) != 0) jumps++;
    while (jumps < 5000) {
        put_bytes(fd, buffer, 1 + jumps % sizeof buffer);
        for (int i = 0; i < 50; i++) put_bytes(fd, buffer, 1);
    }
    tick_no_more();
    answered("close", close(fd));
    pthread_join(reader, NULL);
    report("it ends");
    go();
    for (int i = 0; i < 2; i++) {
        at = 0;
        fd = take();
        put(fd, total);
        close(fd);
    }
}

// Handlers without SA_RESTART: calls come back with EINTR, or less than was asked.
static void nothing(int number) { (void)number; }

static void sig_interrupt(void) {
    int fd = take();
    tick(nothing, 0);
    put(fd, total);
    tick_no_more();
    close(fd);
}

// A handler with a stack of its own, of the size that the C library recommends; what is below it belongs to others.
static void on_small_stack(int number) {
    static unsigned char bytes[1000];
    fill(bytes, at, sizeof bytes);
    put_bytes(connection, bytes, sizeof bytes), at += sizeof bytes;
    (void)number;
}

static void alt_stack(void) {
    enum { BELOW = 1 << 16, MARK = 0x5a };
    size_t size = sysconf(_SC_SIGSTKSZ);
    unsigned char *all = mmap(NULL, BELOW + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(all, MARK, BELOW);
    stack_t own = {.ss_sp = all + BELOW, .ss_size = size};
    struct sigaction action = {.sa_handler = on_small_stack, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&own, NULL) != 0) fail("sigaltstack");
    sigaction(SIGUSR1, &action, NULL);
    put(connection = take(), total / 2);
    go();
    raise(SIGUSR1);
    put(connection, total - at);
    size_t changed = 0;
    for (size_t i = 0; i < BELOW; i++) changed += all[i] != MARK;
    report("changed below the stack: %zu bytes", changed);
    close(connection);
}

const struct method signals[] = {
    {"sig_write", sig_write},
    {"sig_write_restart", sig_write_restart},
    {"sig_malloc", sig_malloc},
    {"sig_within_write", sig_within_write},
    {"sig_blocked", sig_blocked},
    {"sig_exit", sig_exit},
    {"sig_jump", sig_jump},
    {"sig_jump_often", sig_jump_often},
    {"sig_interrupt", sig_interrupt},
    {"alt_stack", alt_stack},
    {0},
};
