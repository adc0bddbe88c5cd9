// Several processes that write to one connection, one after the other.
#include "torture.h"

extern char **environ;

static void forked_daemon(void) {
    int fd = take();
    put(fd, total / 2);
    go();
    // Its parent ends at once.
    if (daemon(1, 1) != 0) fail("daemon");
    alarm(90);
    put(fd, total - at);
    close(fd);
}

static void passed_on(size_t count) { at += count; }

static void vfork_exec(void) {
    int fd = take();
    put(fd, total / 2);
    char *const *words = again("resume", fd, total / 4);
    pid_t child = vfork();
    if (child == 0) {
        execv(self, words);
        _exit(71);
    }
    reap(child);
    passed_on(total / 4);
    put(fd, total - at);
    go();
    close(fd);
}

static void spawn(void) {
    int fd = take();
    pid_t child;
    put(fd, total / 2);
    if (posix_spawn(&child, self, NULL, NULL, again("resume", fd, total / 4), environ) != 0) fail("posix_spawn");
    reap(child);
    passed_on(total / 4);
    put(fd, total - at);
    go();
    close(fd);
}

static void spawn_stdout(void) {
    int fd = take();
    pid_t child;
    posix_spawn_file_actions_t actions;
    put(fd, total / 2);
    go();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    if (posix_spawn(&child, self, &actions, NULL, again("resume", STDOUT_FILENO, total / 4), environ) != 0) fail("posix_spawn");
    reap(child);
    passed_on(total / 4);
    put(fd, total - at);
    close(fd);
}

static void by_system(void) {
    int fd = take();
    char command[PATH_MAX];
    put(fd, total / 2);
    snprintf(command, sizeof command, "exec '%s' resume %d %zu %zu", self, fd, at, total / 4);
    if (system(command) != 0) fail("system");
    passed_on(total / 4);
    put(fd, total - at);
    go();
    close(fd);
}

// What a message has room for that carries one descriptor.
struct carrier {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part;
    struct msghdr message;
};

static void prepare(struct carrier *carrier) {
    *carrier = (struct carrier){.part = {&carrier->byte, 1}};
    carrier->message = (struct msghdr){.msg_iov = &carrier->part, .msg_iovlen = 1, .msg_control = carrier->room, .msg_controllen = sizeof carrier->room};
}

void give(int to, int fd) {
    struct carrier carrier;
    prepare(&carrier);
    struct cmsghdr *head = CMSG_FIRSTHDR(&carrier.message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(to, &carrier.message, 0) != 1) fail("sendmsg");
}

int given(int from) {
    struct carrier carrier;
    prepare(&carrier);
    if (recvmsg(from, &carrier.message, 0) != 1) fail("recvmsg");
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&carrier.message)), sizeof fd);
    return fd;
}

// Another process gets the connection again for each of its turns.
static void rights(void) {
    enum { TURNS = 4 };
    int fd = take(), ends[2];
    size_t turn = total / TURNS / 2;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        for (int i = 0; i < TURNS; i++) {
            int got = given(ends[1]);
            at = (2 * i + 1) * turn;
            put(got, turn);
            close(got);
            put_bytes(ends[1], "k", 1);
        }
        _exit(0);
    }
    for (int i = 0; i < TURNS; i++) {
        at = 2 * i * turn;
        put(fd, turn);
        give(ends[0], fd);
        char byte;
        if (read(ends[0], &byte, 1) != 1) fail("the other's turn");
    }
    go();
    reap(child);
    close(fd);
}

// A worker gets the listener in place of connections.
static void rights_listener(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        listener = given(ends[1]);
        int fd = take();
        put(fd, total);
        go();
        close(fd);
        _exit(0);
    }
    give(ends[0], listener);
    close(listener);
    reap(child);
}

// Another process takes the connection's descriptor itself (pidfd_getfd(2)), and both write in turn.
static void pidfd_turns(void) {
    enum { TURNS = 4 };
    int fd = take(), ends[2];
    size_t turn = total / TURNS / 2;
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(fd), close(ends[0]);
        int taken = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, parent, 0), fd, 0);
        put_bytes(ends[1], taken < 0 ? "n" : "y", 1);
        for (int i = 0; taken >= 0 && i < TURNS; i++) {
            if (read(ends[1], &byte, 1) != 1) fail("the other's turn");
            at = (2 * i + 1) * turn;
            put(taken, turn);
            put_bytes(ends[1], "k", 1);
        }
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1 || byte != 'y') skip("the kernel gives no other process's descriptor");
    for (int i = 0; i < TURNS; i++) {
        at = 2 * i * turn;
        put(fd, turn);
        put_bytes(ends[0], "k", 1);
        if (read(ends[0], &byte, 1) != 1) fail("the other's turn");
    }
    go();
    reap(child);
    close(fd);
}

static void fork_turns(void) {
    enum { TURNS = 6 };
    int fd = take();
    size_t turn = total / TURNS / 2;
    for (int i = 0; i < TURNS; i++) {
        put(fd, turn);
        pid_t child = fork();
        if (child == 0) {
            put(fd, turn);
            if (i % 3 == 0) _exit(0);
            if (i % 3 == 1) exit(0);
            syscall(SYS_exit_group, 0);
        }
        reap(child);
        passed_on(turn);
    }
    put(fd, total - at);
    close(fd);
}

// Each forks the next, which goes on where it was.
static void fork_chain(void) {
    enum { LINKS = 5 };
    int fd = take();
    for (int i = 0; i < LINKS; i++) {
        put(fd, total / LINKS);
        pid_t child = fork();
        if (child > 0) {
            close(fd);
            reap(child);
            _exit(0);
        }
    }
    close(fd);
}

// By a system call that no handler of the C library sees.
static void fork_raw(void) {
    int fd = take();
    put(fd, total / 3);
    pid_t child = raw(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (child == 0) {
        put(fd, total / 3);
        _exit(0);
    }
    reap(child);
    passed_on(total / 3);
    put(fd, total - at);
    close(fd);
}

static volatile int storming = 1;

static void *forks(void *unused) {
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) {
            free(memset(malloc(5000), 1, 5000));
            _exit(0);
        }
        reap(child);
    }
    return unused;
}

static void *mallocs(void *unused) {
    for (size_t i = 0; storming; i++) free(malloc(100 + i * 7919 % 100000));
    return unused;
}

static void fork_storm(void) {
    int fd = take();
    pthread_t forking[2], allocating;
    for (int i = 0; i < 2; i++) pthread_create(&forking[i], NULL, forks, NULL);
    pthread_create(&allocating, NULL, mallocs, NULL);
    put(fd, total);
    for (int i = 0; i < 2; i++) pthread_join(forking[i], NULL);
    storming = 0;
    pthread_join(allocating, NULL);
    close(fd);
}

static void exec(void) {
    int fd = take();
    put(fd, total / 2);
    execv(self, again("resume", fd, total - at));
    fail("execv");
}

static void exec_failed(void) {
    int fd = take();
    put(fd, total / 2);
    answered("execl", execl("/nowhere", "nowhere", (char *)NULL));
    put(fd, total - at);
    close(fd);
}

const struct method processes[] = {
    {"forked_daemon", forked_daemon},
    {"vfork_exec", vfork_exec},
    {"spawn", spawn},
    {"spawn_stdout", spawn_stdout},
    {"by_system", by_system},
    {"rights", rights},
    {"rights_listener", rights_listener},
    {"pidfd_turns", pidfd_turns},
    {"fork_turns", fork_turns},
    {"fork_chain", fork_chain},
    {"fork_raw", fork_raw},
    {"fork_storm", fork_storm},
    {"exec", exec},
    {"exec_failed", exec_failed},
    {0},
};
