// The C library's streams beside write, on a connection that is standard output or error, as inetd and CGI have it.
#include "torture.h"

// Takes turns: a piece through the stream, flushed, and a piece by write.
void turns(FILE *stream, int fd) {
    unsigned char buffer[3000];
    for (int turn = 0; at < total; turn++) {
        size_t piece = total - at < sizeof buffer ? total - at : sizeof buffer;
        if (turn % 2 == 0) {
            put(fd, piece);
            continue;
        }
        fill(buffer, at, piece);
        size_t half = piece / 2;
        if (fwrite(buffer, 1, half, stream) != half) fail("fwrite");
        for (size_t i = half; i < piece; i++)
            if (fprintf(stream, "%c", buffer[i]) != 1) fail("fprintf");
        if (fflush(stream) != 0) fail("fflush");
        at += piece;
    }
    go();
}

static void stdout_turns(void) {
    int fd = take();
    if (dup2(fd, STDOUT_FILENO) != STDOUT_FILENO) fail("dup2");
    close(fd);
    turns(stdout, STDOUT_FILENO);
}

static void stderr_turns(void) {
    int fd = take();
    if (dup2(fd, STDERR_FILENO) != STDERR_FILENO) fail("dup2");
    close(fd);
    turns(stderr, STDERR_FILENO);
}

// The connection keeps its own number too.
static void stdout_both(void) {
    int fd = take();
    if (dup2(fd, STDOUT_FILENO) != STDOUT_FILENO) fail("dup2");
    turns(stdout, fd);
    close(fd);
}

// Written to before it becomes the standard output.
static void stdout_late(void) {
    int fd = take();
    put(fd, total / 2);
    if (dup3(fd, STDOUT_FILENO, 0) != STDOUT_FILENO) fail("dup3");
    turns(stdout, fd);
}

// The number is free, and accept gives it.
static void stdout_accepted(void) {
    close(STDOUT_FILENO);
    if (take() != STDOUT_FILENO) fail("accept at 1");
    turns(stdout, STDOUT_FILENO);
}

// A service that inetd has started goes on by itself: the standard streams become /dev/null, and their connection ends.
static void daemon_streams(void) {
    int fd = take();
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) dup2(fd, i);
    close(fd);
    put(STDOUT_FILENO, total);
    go();
    if (daemon(1, 0) != 0) fail("daemon");
    alarm(90);
    report("ended: %d", all_ended());
}

// As inetd starts it: the connection is its standard input, output and errors.
static void start(int fd) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) dup2(fd, i);
        close(fd);
        execv(self, again("turns", STDOUT_FILENO, total - at));
        _exit(71);
    }
    close(fd);
    reap(child);
}

static void inetd(void) { start(take()); }

// The one who starts it has a word with the client before.
static void inetd_later(void) {
    int fd = take();
    put(fd, total / 2);
    go();
    start(fd);
}

static void stream_turns(void) {
    int fd = take();
    FILE *stream = fdopen(fd, "w");
    turns(stream, fd);
    fclose(stream);
}

static void stream_late(void) {
    int fd = take();
    put(fd, total / 2);
    FILE *stream = fdopen(fd, "w");
    turns(stream, fd);
    fclose(stream);
}

static void dprintf_turns(void) {
    int fd = take();
    unsigned char byte;
    for (int turn = 0; at < total; turn++) {
        if (turn % 2 == 0) {
            put(fd, total - at < 1000 ? total - at : 1000);
            continue;
        }
        fill(&byte, at, 1);
        if (dprintf(fd, "%c", byte) != 1) fail("dprintf");
        at++;
    }
    go();
    close(fd);
}

const struct method streams[] = {
    {"stdout_turns", stdout_turns},
    {"stderr_turns", stderr_turns},
    {"stdout_both", stdout_both},
    {"stdout_late", stdout_late},
    {"stdout_accepted", stdout_accepted},
    {"daemon_streams", daemon_streams},
    {"inetd", inetd},
    {"inetd_later", inetd_later},
    {"stream_turns", stream_turns},
    {"stream_late", stream_late},
    {"dprintf_turns", dprintf_turns},
    {0},
};
