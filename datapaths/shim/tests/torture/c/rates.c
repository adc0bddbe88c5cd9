// Who else has a connection finds the program's own rate in the kernel as soon as the program has passed it on, closed it or gone idle.
#include "torture.h"
#include "ring.h"

extern char **environ;

static int connection;

static void connects(void) {
    uint64_t rate = OWN_RATE;
    connection = take();
    if (setsockopt(connection, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) != 0) fail("SO_MAX_PACING_RATE");
}

// Writes; where a library steers it is waited for, for a second at most, that the kernel has another rate.
static void writes(size_t count) {
    put(connection, count);
    for (int i = 0; i < 200 && has_own_rate(connection); i++) usleep(5000);
}

static void begins(void) { connects(), writes(total / 2); }

static void ends_it(void) { put(connection, total - at), close(connection); }

static void rate_exec(void) {
    begins();
    put(connection, total - at);
    execv(self, again("rate", connection, 0));
    fail("execv");
}

static void rate_fork_exec(void) {
    begins();
    pid_t child = fork();
    if (child == 0) {
        execv(self, again("rate", connection, 0));
        _exit(71);
    }
    reap(child);
    ends_it();
}

static void rate_spawn(void) {
    pid_t child;
    posix_spawn_file_actions_t actions;
    begins();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, connection, STDOUT_FILENO);
    if (posix_spawn(&child, self, &actions, NULL, again("rate", STDOUT_FILENO, 0), environ) != 0) fail("posix_spawn");
    reap(child);
    ends_it();
}

// Another process waits for a word, and then looks at the connection: at the one that it is given, or its own copy.
static pid_t looks(int ends[2], int is_given) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    pid_t child = fork();
    if (child == 0) {
        report("own: %d", has_own_rate(is_given ? given(ends[1]) : (read(ends[1], &(char){0}, 1), connection)));
        _exit(0);
    }
    return child;
}

static void rate_rights(void) {
    int ends[2];
    pid_t child = looks(ends, 1);
    begins();
    give(ends[0], connection);
    reap(child);
    ends_it();
}

// Bytes wait in the kernel when the program closes its last name.
static void rate_close(void) {
    int ends[2];
    connects();
    pid_t child = looks(ends, 0);
    writes(total);
    close(connection);
    put_bytes(ends[0], "c", 1);
    reap(child);
}

static void rate_idle(void) {
    int left = 1, own = 0;
    connects();
    writes(total);
    while (left > 0)
        if (ioctl(connection, TIOCOUTQ, &left) != 0) fail("SIOCOUTQ");
        else usleep(1000);
    for (int i = 0; i < 5000 && !(own = has_own_rate(connection)); i++) usleep(1000);
    report("own: %d", own);
    close(connection);
}

// The kernel has the program's own rate, and bytes that wait.
static int has_own_while_busy(int *left) {
    int has = has_own_rate(connection);
    if (ioctl(connection, TIOCOUTQ, left) != 0) fail("SIOCOUTQ");
    return has && *left > 0;
}

// The rest is written past the C library, so slowly that what comes before the next look at the connection is little.
static void goes_on(int (*write_by)(const void *bytes, unsigned count)) {
    static unsigned char bytes[8192];
    int own = 0, left = 1;
    begins();
    while (at < total) {
        size_t count = total - at < sizeof bytes ? total - at : sizeof bytes;
        fill(bytes, at, count);
        int went = write_by(bytes, count);
        if (went < 0) errno = -went, fail("a write past the library");
        at += went;
        own = own || has_own_while_busy(&left);
        usleep(5000);
    }
    while (!own && left > 0) own = has_own_while_busy(&left), usleep(1000);
    report("own: %d", own);
    close(connection);
}

static int by_call(const void *bytes, unsigned count) { return raw(SYS_write, connection, (long)bytes, count, 0, 0, 0); }

static struct ring ring;
static int by_ring(const void *bytes, unsigned count) { return ring_write(&ring, connection, bytes, count); }

static void rate_raw(void) { goes_on(by_call); }
static void rate_ring(void) { ring = ring_new(raw), goes_on(by_ring); }

const struct method rates[] = {
    {"rate_exec", rate_exec},
    {"rate_fork_exec", rate_fork_exec},
    {"rate_spawn", rate_spawn},
    {"rate_rights", rate_rights},
    {"rate_close", rate_close},
    {"rate_idle", rate_idle},
    {"rate_raw", rate_raw},
    {"rate_ring", rate_ring},
    {0},
};
