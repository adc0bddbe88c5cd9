// Listeners that are shared, handed over or have options of their own, and a process for each connection.
#include "torture.h"

enum { GROUP = 4, CLIENTS = 12 };

static void serve(void) {
    int fd = take();
    at = 0;
    put(fd, total);
    close(fd);
}

// Clients wait for it, because what is set now holds for connections that begin afterwards.
static void come(void) { report("come"); }

// Listens at the same port as the others, until no one writes to `stop` any more.
static void in_group(int number, int stop, int done) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(number), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    set_option(listener, SOL_SOCKET, SO_REUSEPORT, 1);
    if (bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 50) != 0) fail("listen at the same port");
    put_bytes(done, "l", 1);
    for (;;) {
        struct pollfd p[2] = {{listener, POLLIN, 0}, {stop, POLLIN, 0}};
        if (poll(p, 2, -1) < 0) fail("poll");
        if (p[1].revents) _exit(0);
        serve();
        put_bytes(done, "s", 1);
    }
}

static void reuseport(void) {
    int stop[2], done[2], number = port();
    pid_t children[GROUP];
    char word;
    if (pipe(stop) != 0 || pipe(done) != 0) fail("pipe");
    close(listener);
    for (int i = 0; i < GROUP; i++) {
        if ((children[i] = fork()) != 0) continue;
        close(stop[1]);
        in_group(number, stop[0], done[1]);
    }
    for (int i = 0; i < GROUP; i++)
        if (read(done[0], &word, 1) != 1) fail("the group");
    come();
    for (int i = 0; i < CLIENTS; i++)
        if (read(done[0], &word, 1) != 1) fail("the group");
    close(stop[1]);
    for (int i = 0; i < GROUP; i++) reap(children[i]);
}

// As systemd starts a service: it finds the listener open.
static void listen_fds(void) {
    pid_t child = fork();
    if (child == 0) {
        execv(self, again("listening", dup(listener), total));
        _exit(71);
    }
    close(listener);
    reap(child);
}

static void fork_each(void) {
    pid_t children[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        int fd = take();
        if ((children[i] = fork()) == 0) {
            put(fd, total);
            _exit(0);
        }
        close(fd);
    }
    for (int i = 0; i < CLIENTS; i++) reap(children[i]);
}

// A process for each connection, which answers with what comes, as much at once as it has room for.
static void echo_all(int fd) {
    static unsigned char room[1 << 18];
    size_t have = 0;
    int ended = 0;
    nonblocking(fd, 1);
    while (!ended || have > 0) {
        struct pollfd p = {fd, 0, 0};
        if (!ended && have < sizeof room) p.events |= POLLIN;
        if (have > 0) p.events |= POLLOUT;
        if (poll(&p, 1, -1) != 1 || p.revents & POLLERR) fail("poll");
        if (p.revents & POLLIN) {
            ssize_t k = read(fd, room + have, sizeof room - have);
            if (k < 0) fail("read");
            ended = k == 0, have += k;
        }
        if (p.revents & POLLOUT) {
            ssize_t k = write(fd, room, have);
            if (k < 0 && errno != EAGAIN) fail("write");
            if (k > 0) memmove(room, room + k, have -= k);
        }
    }
}

static void echo(void) {
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        int fd = take();
        if ((children[i] = fork()) == 0) {
            echo_all(fd);
            close(fd);
            exit(0);
        }
        close(fd);
    }
    for (int i = 0; i < 2; i++) reap(children[i]);
}

// What comes is the pattern too.
static size_t right_bytes(int fd) {
    static unsigned char got[1 << 16], due[1 << 16];
    size_t count = 0;
    for (ssize_t k; (k = read(fd, got, sizeof got)) > 0; count += k) {
        fill(due, count, k);
        if (memcmp(got, due, k) != 0) report("wrong bytes behind %zu", count);
    }
    return count;
}

static void upload_after_shutdown(void) {
    int fd = take();
    put(fd, total);
    answered("shutdown", shutdown(fd, SHUT_WR));
    report("read %zu", right_bytes(fd));
    close(fd);
}

// Sends with the first packet, if the kernel lets it: in both ways that a client has.
static void first_with_syn(int by_connect) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port()), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char first[5000];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    fill(first, 0, sizeof first);
    ssize_t k;
    if (by_connect) {
        set_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
        if (connect(fd, (void *)&address, sizeof address) != 0) fail("connect");
        k = write(fd, first, sizeof first);
    } else {
        k = sendto(fd, first, sizeof first, MSG_FASTOPEN, (void *)&address, sizeof address);
    }
    if (k <= 0) fail("the first bytes");
    at = k;
    put(fd, total - at);
    shutdown(fd, SHUT_WR);
    report("answered %zu", right_bytes(fd));
    _exit(0);
}

static void fastopen(void) {
    int served = take();
    set_option(listener, IPPROTO_TCP, TCP_FASTOPEN, 5);
    for (int by_connect = 0; by_connect < 2; by_connect++) {
        pid_t child = fork();
        if (child == 0) first_with_syn(by_connect);
        int fd = take();
        report("read %zu", right_bytes(fd));
        at = 0;
        put(fd, 1000);
        close(fd);
        reap(child);
    }
    at = 0;
    put(served, total);
    close(served);
}

// Accepted when the client has spoken, or when the kernel waits no longer.
static void defer_accept(void) {
    set_option(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1);
    come();
    serve();
}

// Its connections have the smallest buffer that there is (tcp(7)).
static void small_buffer(void) {
    set_option(listener, SOL_SOCKET, SO_SNDBUF, 1);
    come();
    serve();
}

const struct method listeners[] = {
    {"reuseport", reuseport},
    {"listen_fds", listen_fds},
    {"fork_each", fork_each},
    {"echo", echo},
    {"upload_after_shutdown", upload_after_shutdown},
    {"fastopen", fastopen},
    {"defer_accept", defer_accept},
    {"small_buffer", small_buffer},
    {0},
};
