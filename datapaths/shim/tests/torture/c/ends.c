// How a program ends while bytes are queued. Those that end it rudely let no client read before.
#include "torture.h"

static int connection;

static void written(void) { put(connection = take(), total); }

static void end_close(void) { written(), go(), close(connection); }
static void end_return(void) { written(), go(); }
static void end_exit(void) { written(), go(), exit(3); }
static void end_underscore_exit(void) { written(), go(), _exit(3); }
static void end_quick_exit(void) { written(), go(), quick_exit(3); }
static void end_exit_group(void) { written(), go(), syscall(SYS_exit_group, 3); }
static void end_sigterm(void) { written(), go(), raise(SIGTERM); }
static void end_exit_group_raw(void) { written(), raw(SYS_exit_group, 3, 0, 0, 0, 0, 0); }
static void end_abort(void) { written(), abort(); }
static void end_sigkill(void) { written(), kill(getpid(), SIGKILL); }
static void end_sigsegv(void) { written(), *(volatile int *)8 = 1; }

static void end_sigint(void) { written(), raise(SIGINT); }

static void *write_on(void *unused) {
    for (;;) put(connection, 100000);
    return unused;
}

static void writing(void) {
    connection = take();
    pthread_t thread;
    pthread_create(&thread, NULL, write_on, NULL);
    while (at < total) usleep(1000);
}

// Another thread writes all the time.
static void end_exit_writing(void) { writing(), exit(3); }
static void end_sigterm_writing(void) { writing(), kill(getpid(), SIGTERM); for (;;) pause(); }

static volatile int handled;

static void on_term(int number) { handled = number; }

// No one sees that something is done at a signal that the program has not asked for.
static void end_sigterm_asked(void) {
    struct sigaction before, own = {.sa_handler = on_term}, then;
    sigaction(SIGTERM, NULL, &before);
    report("at first: %s", before.sa_handler == SIG_DFL && before.sa_flags == 0 ? "the default" : "something else");
    put(connection = take(), total);
    sigaction(SIGTERM, &own, &before);
    report("after a write: %s", before.sa_handler == SIG_DFL ? "the default" : "something else");
    raise(SIGTERM);
    report("handled: %d", handled == SIGTERM);
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    sigaction(SIGTERM, &before, &then);
    report("ignored: %d", then.sa_handler == SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        close(connection);
        raise(SIGTERM);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    report("a child: %d", WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    go();
    raise(SIGTERM);
}

static void last_words(void) { put(connection, total - at), go(); }

static void end_atexit(void) {
    connection = take();
    put(connection, total / 2);
    if (atexit(last_words) != 0) fail("atexit");
}

static void *worker(void *unused) {
    put(connection, total);
    go();
    close(connection);
    return unused;
}

static void end_pthread_exit(void) {
    connection = take();
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_detach(thread);
    pthread_exit(NULL);
}

// No one is left to write: the last thread is the first.
static void end_pthread_exit_alone(void) { written(), go(), pthread_exit(NULL); }

// What SIOCOUTQ says is all that the peer has not acknowledged.
static void end_outq(void) {
    written(), go();
    int left = 1;
    while (left > 0)
        if (ioctl(connection, TIOCOUTQ, &left) != 0) fail("SIOCOUTQ");
        else usleep(1000);
    kill(getpid(), SIGKILL);
}

// The client says when it has all.
static void confirmed(void) {
    char word;
    written();
    answered("word", read(connection, &word, 1));
    close(connection);
}

// Resets its end of a connection when the other waits for room.
static void *resetting(void *end) {
    sleep(1);
    struct linger at_once = {.l_onoff = 1};
    if (setsockopt(*(int *)end, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) != 0) fail("SO_LINGER");
    close(*(int *)end);
    return end;
}

// How a write that waits for room, and the next ones, learn that the peer has reset the connection.
static void reset_writing(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int listens = socket(AF_INET, SOCK_STREAM, 0), peer = socket(AF_INET, SOCK_STREAM, 0);
    written(), go(), signal(SIGPIPE, SIG_IGN);
    if (bind(listens, (void *)&here, size) != 0 || listen(listens, 1) != 0 || getsockname(listens, (void *)&here, &size) != 0) fail("listen");
    if (connect(peer, (void *)&here, size) != 0) fail("connect");
    int fd = accept(listens, NULL, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, resetting, &peer);
    static char block[100000];
    ssize_t went;
    while ((went = write(fd, block, sizeof block)) > 0) {}
    answered("write", went);
    answered("write", write(fd, block, 1));
    pthread_join(thread, NULL);
}

const struct method ends[] = {
    {"end_close", end_close},
    {"end_return", end_return},
    {"end_exit", end_exit},
    {"end_underscore_exit", end_underscore_exit},
    {"end_quick_exit", end_quick_exit},
    {"end_exit_group", end_exit_group},
    {"end_sigterm", end_sigterm},
    {"end_exit_group_raw", end_exit_group_raw},
    {"end_abort", end_abort},
    {"end_sigkill", end_sigkill},
    {"end_sigsegv", end_sigsegv},
    {"end_sigint", end_sigint},
    {"end_exit_writing", end_exit_writing},
    {"end_sigterm_writing", end_sigterm_writing},
    {"end_sigterm_asked", end_sigterm_asked},
    {"end_atexit", end_atexit},
    {"end_pthread_exit", end_pthread_exit},
    {"end_pthread_exit_alone", end_pthread_exit_alone},
    {"end_outq", end_outq},
    // Clients that read slowly, stop for a while, or do not read.
    {"slow_close", end_close},
    {"slow_return", end_return},
    {"slow_underscore_exit", end_underscore_exit},
    {"slow_sigterm", end_sigterm},
    {"stalled", confirmed},
    {"unread_close", end_close},
    {"unread_exit", end_exit},
    {"reset_writing", reset_writing},
    {0},
};
