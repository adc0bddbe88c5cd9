// torture METHOD BYTES: listens on a port of its own, which is its first line, and serves by the method.
#include "torture.h"

const char *self, *name;
size_t total;
volatile size_t at;
int listener;

// The generator of Steele, Lea and Flood (SplitMix64), of the number of the eight bytes.
static uint64_t word(uint64_t number) {
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void fill(unsigned char *to, size_t from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = word((from + i) / 8) >> (from + i) % 8 * 8;
}

void put_bytes(int fd, const void *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        ssize_t k = write(fd, (const char *)bytes + done, count - done);
        if (k >= 0) {
            done += k;
        } else if (errno == EAGAIN) {
            struct pollfd p = {fd, POLLOUT, 0};
            poll(&p, 1, -1);
        } else if (errno != EINTR) {
            fail("write");
        }
    }
}

void put(int fd, size_t count) {
    unsigned char buffer[16384];
    while (count > 0) {
        // Pieces of many sizes.
        size_t piece = 1 + at * 7 % sizeof buffer;
        if (piece > count) piece = count;
        fill(buffer, at, piece);
        put_bytes(fd, buffer, piece);
        at += piece, count -= piece;
    }
}

int take(void) {
    int fd;
    do fd = accept(listener, NULL, NULL);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) fail("accept");
    return fd;
}

void report(const char *format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    int n = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    line[n++] = '\n';
    put_bytes(LINES, line, n);
}

void answered(const char *call, long result) {
    report("%s: %ld %s", call, result, result < 0 ? strerror(errno) : "");
}

void go(void) { report("go"); }

void fail(const char *what) {
    int error = errno;
    report("failed: %s: %s", what, strerror(error));
    _exit(70);
}

void skip(const char *reason) {
    report("skip %s", reason);
    _exit(0);
}

void nonblocking(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    if (fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) != 0) fail("fcntl");
}

void set_option(int fd, int level, int option, int value) {
    if (setsockopt(fd, level, option, &value, sizeof value) != 0) fail("setsockopt");
}

int port(void) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    if (getsockname(listener, (void *)&address, &len) != 0) fail("getsockname");
    return ntohs(address.sin_port);
}

// Connections at a port that are neither closed nor half closed by us: ESTABLISHED and CLOSE_WAIT of proc(5).
static int open_at(int port) {
    char line[256];
    int found = 0, local;
    unsigned state;
    FILE *table = fopen("/proc/net/tcp", "r");
    if (!table) fail("/proc/net/tcp");
    while (fgets(line, sizeof line, table))
        if (sscanf(line, " %*d: %*8x:%4x %*8x:%*4x %2x", &local, &state) == 2 && local == port) found += state == 1 || state == 8;
    fclose(table);
    return found;
}

static int ended_at(int port) {
    time_t begun = time(NULL);
    while (open_at(port) > 0) {
        if (time(NULL) - begun > 5) return 0;
        usleep(20000);
    }
    return 1;
}

int all_ended(void) { return ended_at(port()); }

int has_own_rate(int fd) {
    uint64_t rate = 0;
    socklen_t len = sizeof rate;
    if (raw(SYS_getsockopt, fd, SOL_SOCKET, SO_MAX_PACING_RATE, (long)&rate, (long)&len, 0) != 0) fail("SO_MAX_PACING_RATE");
    return rate == OWN_RATE;
}

char *const *again(const char *way, int fd, size_t count) {
    static char words[4][24];
    static char *all[6];
    snprintf(words[0], sizeof words[0], "%d", fd);
    snprintf(words[1], sizeof words[1], "%zu", at);
    snprintf(words[2], sizeof words[2], "%zu", count);
    all[0] = (char *)self, all[1] = (char *)way, all[2] = words[0], all[3] = words[1], all[4] = words[2];
    return all;
}

void reap(pid_t child) {
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("child");
}

static void (*find(const char *wanted))(void) {
    const struct method *lists[] = {signals, streams, descriptors, processes, events, ends, buffers, options, calls, filters, listeners, tables, closes, rates, stacks};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct method *m = lists[i]; m->name; m++)
            if (strcmp(m->name, wanted) == 0) return m->run;
    fprintf(stderr, "no method %s\n", wanted);
    exit(64);
}

int main(int argc, char **argv) {
    // Whatever hangs ends in the end.
    alarm(90);
    signal(SIGPIPE, SIG_IGN);
    self = argv[0], name = argv[1];
    if (argc == 5) {
        int fd = atoi(argv[2]);
        at = strtoull(argv[3], NULL, 10);
        total = at + strtoull(argv[4], NULL, 10);
        if (strcmp(name, "listening") == 0) listener = fd, put(take(), total - at);
        else if (strcmp(name, "ended") == 0) report("ended: %d", ended_at(fd));
        else if (strcmp(name, "rate") == 0) report("own: %d", has_own_rate(fd));
        else if (strcmp(name, "turns") == 0) turns(stdout, fd);
        else put(fd, total - at);
        return 0;
    }
    if (argc != 3) return 64;
    total = strtoull(argv[2], NULL, 10);
    void (*run)(void) = find(name);
    if (dup2(STDOUT_FILENO, LINES) != LINES) return 71;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (bind(listener, (void *)&address, len) != 0 || listen(listener, 200) != 0) fail("listen");
    report("port %d", port());
    run();
    return 0;
}
