// Tables of descriptors that are shared, left or closed by exec, and programs that the library cannot be in.
#include "torture.h"
#include <sched.h>
#include <sys/resource.h>

static char stack[1 << 18] __attribute__((aligned(64)));
static int connection;

static int writes_and_closes(void *unused) {
    put(connection, total - total / 2);
    close(connection);
    _exit(0);
    (void)unused;
}

// Another process that has memory and descriptors in common with this one.
static void clone_shares(void) {
    connection = take();
    put(connection, total / 2);
    go();
    reap(clone(writes_and_closes, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, NULL));
    report("ended: %d", all_ended());
}

static sem_t left, over;

static void *closes_its_own(void *unused) {
    answered("close_range", close_range(LINES + 1, ~0U, CLOSE_RANGE_UNSHARE));
    sem_post(&left);
    sem_wait(&over);
    return unused;
}

static void *keeps_its_own(void *unused) {
    answered("unshare", unshare(CLONE_FILES));
    sem_post(&left);
    sem_wait(&over);
    return unused;
}

// A thread goes on with a table of its own, while two connections are half written.
static void leaves(void *(*thread_leaves)(void *)) {
    int both[2] = {take(), take()};
    pthread_t thread;
    sem_init(&left, 0, 0);
    sem_init(&over, 0, 0);
    for (int i = 0; i < 2; i++) at = 0, put(both[i], total / 2);
    go();
    pthread_create(&thread, NULL, thread_leaves, NULL);
    sem_wait(&left);
    for (int i = 0; i < 2; i++) at = total / 2, put(both[i], total - at);
    // Where the thread's table has them too, close would not end them.
    for (int i = 0; i < 2; i++) shutdown(both[i], SHUT_WR), close(both[i]);
    sem_post(&over);
    pthread_join(thread, NULL);
}

static void range_unshare(void) { leaves(closes_its_own); }
static void thread_unshare(void) { leaves(keeps_its_own); }

static void written(void) { put(connection = take(), total), go(); }

// The only thread goes on with a table of its own: no other has its descriptors then.
static void range_unshare_alone(void) {
    written();
    answered("close_range", close_range(connection, ~0U, CLOSE_RANGE_UNSHARE));
    report("ended: %d", all_ended());
}

static void range_unshare_marks(void) {
    written();
    answered("close_range", close_range(connection, ~0U, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC));
    answered("close", close(connection));
    report("ended: %d", all_ended());
}

static void unshare_alone(void) {
    written();
    answered("unshare", unshare(CLONE_FILES));
    answered("close", close(connection));
    report("ended: %d", all_ended());
}

// exec closes the connection, and what runs then lives on.
static void cloexec_exec(void) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), number = port();
    put(fd, total);
    go();
    execv(self, again("ended", number, 0));
    fail("execv");
}

// The program of the cases, linked statically.
static const char *static_self(void) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s-static", self);
    if (access(path, X_OK) != 0) skip("no static C library");
    return path;
}

static void exec_static(void) {
    const char *path = static_self();
    int fd = take();
    put(fd, total / 2);
    go();
    execv(path, again("resume", fd, total - at));
    fail("execv");
}

// As login services give a connection its own process: the last part is the child's, and the parent has let go.
static void fork_exec_static(void) {
    const char *path = static_self();
    int fd = take();
    put(fd, total / 2);
    go();
    pid_t child = fork();
    if (child == 0) {
        execv(path, again("resume", fd, total - at));
        _exit(71);
    }
    close(fd);
    reap(child);
}

// Numbers that the program chooses, some of them where a soft limit of 1024 ends.
static void high_numbers(void) {
    struct rlimit limit;
    int refused = 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    connection = take();
    put(connection, total / 2);
    go();
    for (int i = 1000; i < 1100 && (rlim_t)i < limit.rlim_cur; i++) refused += dup2(listener, i) != i;
    report("refused: %d", refused);
    put(connection, total - at);
    close(connection);
}

static atomic_int writer;

static void *writes_once(void *unused) {
    unsigned char *bytes = malloc(total);
    fill(bytes, 0, total);
    writer = syscall(SYS_gettid);
    report("all in one: %d", write(connection, bytes, total) == (ssize_t)total);
    return unused;
}

// Returns when the writer has waited for 20 looks on end (our choice: a lock holds it for less).
static void until_it_waits(void) {
    for (int waits = 0; waits < 20; usleep(1000)) {
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", writer);
        int file = open(path, O_RDONLY);
        if (file < 0) continue;
        if (read(file, line, sizeof line - 1) < 0) fail("read");
        close(file);
        const char *state = strrchr(line, ')');
        waits = state && state[2] == 'S' ? waits + 1 : 0;
    }
}

// The number is closed while another thread waits in write: the call has the connection until it returns.
static void close_while_writing(void) {
    pthread_t thread;
    connection = take();
    pthread_create(&thread, NULL, writes_once, NULL);
    until_it_waits();
    answered("close", close(connection));
    go();
    pthread_join(thread, NULL);
}

const struct method tables[] = {
    {"clone_shares", clone_shares},
    {"range_unshare", range_unshare},
    {"thread_unshare", thread_unshare},
    {"range_unshare_alone", range_unshare_alone},
    {"range_unshare_marks", range_unshare_marks},
    {"unshare_alone", unshare_alone},
    {"cloexec_exec", cloexec_exec},
    {"exec_static", exec_static},
    {"fork_exec_static", fork_exec_static},
    {"high_numbers", high_numbers},
    {"close_while_writing", close_while_writing},
    {0},
};
