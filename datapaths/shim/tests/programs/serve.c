// Serves a file to each client that connects, by the calls that the first argument names:
//   serve METHOD FILE CONNECTIONS [SEED]
// Prints the port, serves that many connections and ends. Writes are of random small sizes.
#include "writing.h"

// A server for all connections that waits in epoll, as event-driven servers do. `hears`: it closes a connection when it has
// been said that the peer's word of three bytes is over.
static void epoll_server(int listener, int count, unsigned style, int hears) {
    int set = epoll_create1(EPOLL_CLOEXEC), live = 0, fds[64];
    size_t at[1024] = {0}, heard[1024] = {0};
    char full[1024] = {0};
    while (live < count) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) die("accept4");
        fds[live++] = fd;
        struct epoll_event e = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | style, {.u64 = 0x1234567800000000ULL | fd}};
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) != 0) die("epoll_ctl");
    }
    while (live > 0) {
        struct epoll_event events[16];
        int n = epoll_wait(set, events, 16, PATIENCE * 1000);
        if (n <= 0) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = (int)(events[i].data.u64 & 0xffff);
            if (events[i].data.u64 >> 32 != 0x12345678) die("epoll: not our data");
            for (int j = 0; j < i; j++)
                if (events[j].data.u64 == events[i].data.u64) die("epoll: two events of one socket");
            if (events[i].events & EPOLLERR) die("epoll: an error");
            if (hears && at[fd] == size) {
                char word[8];
                for (ssize_t k; (k = read(fd, word, sizeof word)) > 0;) heard[fd] += k;
                if (!(events[i].events & EPOLLRDHUP)) continue;
                if (heard[fd] != 3) die("epoll: bytes of the peer are missing");
                if (close(fd) != 0) die("close");
                live--;
                continue;
            }
            if (!(events[i].events & EPOLLOUT)) continue;
            if (full[fd] && !(style & EPOLLET)) full[fd] = 0;
            for (int turn = 0; at[fd] < size && ((style & EPOLLET) || turn < 8); turn++) {
                size_t want = piece(at[fd]);
                ssize_t k = write(fd, data + at[fd], want);
                if (k < 0 && errno == EAGAIN) break;
                if (k < 0) die("write");
                at[fd] += k;
                // As nginx: less than asked means full.
                if ((size_t)k < want) break;
            }
            if (at[fd] == size && hears) {
                struct epoll_event e = {EPOLLIN | EPOLLRDHUP | style, {.u64 = 0x1234567800000000ULL | fd}};
                if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &e) != 0) die("epoll_ctl MOD");
            } else if (at[fd] == size) {
                if (close(fd) != 0) die("close");
                live--;
            } else if (style & EPOLLONESHOT) {
                struct epoll_event e = {EPOLLIN | EPOLLOUT | EPOLLONESHOT, {.u64 = 0x1234567800000000ULL | fd}};
                if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &e) != 0) die("epoll_ctl MOD");
            }
        }
    }
    (void)fds;
}

static void on_signal(int signal) { (void)signal; }

// Tells beside the file how much was taken, and ends in order.
static void on_end(int signal) {
    char name[4096];
    (void)signal;
    snprintf(name, sizeof name, "%s.written", path);
    int said = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (said < 0 || dprintf(said, "%zu", written) < 0) die(name);
    exit(0);
}

static void tick(int flags) {
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGALRM, &a, NULL);
    struct itimerval t = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &t, NULL);
}

static void check_option(int fd, int level, int name, int want) {
    int value = -1;
    socklen_t len = sizeof value;
    if (getsockopt(fd, level, name, &value, &len) != 0 || len != sizeof value) die("getsockopt");
    if (value != want) { errno = value; die("getsockopt reported something else"); }
}

// Another program, started in each way that there is, writes the second third of the file to the same connection.
static void started_beside(int fd) {
    const char *quoted = "exec '%s' resume '%s' 1 %zu %zu";
    char command[9000], from[24], to[24];
    size_t third = size / 3;
    snprintf(command, sizeof command, quoted, self, path, third, 2 * third);
    snprintf(from, sizeof from, "%zu", third);
    snprintf(to, sizeof to, "%zu", 2 * third);
    char *words[] = {(char *)self, "resume", (char *)path, "1", from, to, NULL};
    int status = 1;
    pid_t pid = -1;
    if (is("system") || is("popen")) {
        // As under inetd: the connection is the standard output.
        if (dup2(fd, 1) != 1 || close(fd) != 0) die("dup2");
        fd = 1;
    } else if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        die("FD_CLOEXEC");
    }
    put_all(fd, 0, third);
    if (is("system")) {
        status = system(command);
    } else if (is("popen")) {
        status = pclose(popen(command, "w"));
    } else if (is("posix_spawn")) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, fd, 1);
        // Still before the other program.
        put_all(fd, third, third + 1000);
        snprintf(from, sizeof from, "%zu", third + 1000);
        if (posix_spawn(&pid, self, &actions, NULL, words, environ) != 0) die("posix_spawn");
        posix_spawn_file_actions_destroy(&actions);
    } else if (is("vfork")) {
        pid = vfork();
        if (pid == 0) {
            dup2(fd, 1);
            execv(self, words);
            _exit(1);
        }
    } else {
        pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0) {
            put_polled(fd, third, 2 * third);
            _exit(0);
        }
    }
    if (pid > 0 && waitpid(pid, &status, 0) != pid) die("waitpid");
    if (status != 0) die("the other program");
    // It has changed the connection for both.
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    put_all(fd, 2 * third, size);
    if (fd != 1 && close(fd) != 0) die("close");
    if (fd == 1 && dup2(STDERR_FILENO, 1) != 1) die("dup2");
}

// Kernel TLS is asked for in the middle of a stream, and refused: by kernels without it, or since nothing was agreed on.
static void ask_for_tls(int fd) {
    const int tls = 282, send_side = 1;
    char nothing[64] = {0};
    put_all(fd, 0, size / 3);
    if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "no such", 7) == 0 || errno != ENOENT) die("TCP_ULP no such");
    if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) != 0 && errno != ENOENT) die("TCP_ULP tls");
    put_all(fd, size / 3, size / 3 * 2);
    if (is("tls") && setsockopt(fd, tls, send_side, nothing, sizeof nothing) == 0) die("TLS_TX");
    put_all(fd, size / 3 * 2, size);
}

static void serve(int fd) {
    if (is("system") || is("popen") || is("posix_spawn") || is("vfork") || is("clone")) {
        started_beside(fd);
        return;
    }
    if (is("tls") || is("ulp")) {
        ask_for_tls(fd);
    } else if (is("limited")) {
        // As vsftpd's sessions: no process may be added, which means threads too.
        struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_NPROC, &none) != 0) die("setrlimit");
        put_all(fd, 0, size);
    } else if (is("sendfile") || is("mixed") || is("sendfile_at")) {
        off_t at = 0;
        size_t head = 0;
        if (is("mixed")) {
            head = 70000;
            put_all(fd, 0, head);
        }
        at = head;
        int own = open(path, O_RDONLY);
        lseek(own, at, SEEK_SET);
        while ((size_t)at < size) {
            off_t before = at;
            ssize_t k = sendfile(fd, own, is("sendfile_at") ? &at : NULL, 1 + draw(300000));
            if (k < 0) die("sendfile");
            if (is("sendfile_at") && at != before + k) die("sendfile: offset");
            at = before + k;
            if (!is("sendfile_at") && lseek(own, 0, SEEK_CUR) != at) die("sendfile: place");
        }
        close(own);
    } else if (is("splice")) {
        int pipes[2], own = open(path, O_RDONLY);
        if (pipe(pipes) != 0) die("pipe");
        write(fd, data, 5);
        lseek(own, 5, SEEK_SET);
        for (size_t at = 5; at < size;) {
            ssize_t in = splice(own, NULL, pipes[1], NULL, 1 + draw(60000), 0);
            if (in <= 0) die("splice in");
            while (in > 0) {
                ssize_t k = splice(pipes[0], NULL, fd, NULL, in, SPLICE_F_MORE);
                if (k < 0) die("splice out");
                in -= k, at += k;
            }
        }
        close(own), close(pipes[0]), close(pipes[1]);
    } else if (is("stdio")) {
        FILE *out = fdopen(fd, "w");
        for (size_t at = 0; at < size;) at += fwrite(data + at, 1, piece(at), out);
        if (fclose(out) != 0) die("fclose");
        return;
    } else if (is("dprintf")) {
        put_all(fd, 0, 1000);
        // Text alone goes through a format.
        for (size_t at = 1000; at < size;) {
            size_t n = piece(at);
            if (dprintf(fd, "%.*s", (int)n, data + at) != (int)n) die("dprintf");
            at += n;
        }
    } else if (is("dup")) {
        put_all(fd, 0, size / 5);
        int b = dup(fd);
        put_all(b, size / 5, size / 5 * 2);
        close(fd);
        int c = dup2(b, 100);
        put_all(c, size / 5 * 2, size / 5 * 3);
        int d = dup3(c, 101, O_CLOEXEC);
        close(b), close(c);
        put_all(d, size / 5 * 3, size / 5 * 4);
        fd = fcntl(d, F_DUPFD_CLOEXEC, 200);
        if (fd < 200) die("F_DUPFD");
        put_all(fd, size / 5 * 4, size);
        // What had the number is closed, its bytes are not lost.
        dup2(STDERR_FILENO, fd);
        close(d);
    } else if (is("poll") || is("ppoll") || is("select") || is("pselect")) {
        nonblocking(fd);
        for (size_t at = 0; at < size;) {
            ssize_t k = write(fd, data + at, piece(at));
            if (k < 0 && errno == EAGAIN) { wait_writable(fd); continue; }
            if (k < 0) die("write");
            at += k;
        }
    } else if (is("outq")) {
        put_all(fd, 0, size);
        int outq = -1;
        if (ioctl(fd, SIOCOUTQ, &outq) != 0 || outq < 0) die("SIOCOUTQ");
        int said = outq;
        while (outq > 0) { usleep(1000); ioctl(fd, SIOCOUTQ, &outq); }
        // Everything is acknowledged now: nothing may be left to send.
        close(fd);
        fprintf(stderr, "outq %d\n", said);
        return;
    } else if (is("options")) {
        int one = 1, zero = 0;
        check_option(fd, IPPROTO_TCP, TCP_NODELAY, 0);
        put_all(fd, 0, size / 2);
        check_option(fd, IPPROTO_TCP, TCP_NODELAY, 0);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        check_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof one);
        check_option(fd, IPPROTO_TCP, TCP_CORK, 1);
        put_all(fd, size / 2, size);
        setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof zero);
        struct linger l = {1, 3}, back = {0};
        socklen_t len = sizeof back;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
        if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &back, &len) != 0 || back.l_onoff != 1 || back.l_linger != 3) die("SO_LINGER");
        int sndbuf = 200000;
        if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf) != 0) die("SO_SNDBUF");
    } else if (is("linger")) {
        struct linger l = {1, PATIENCE};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
        put_all(fd, 0, size);
        close(fd);
        // Returns when the peer has everything: the end of the process may then be as rude as it likes.
        kill(getpid(), SIGKILL);
    } else if (is("reset")) {
        struct linger l = {1, 0};
        put_all(fd, 0, size);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    } else if (is("shutdown")) {
        put_all(fd, 0, size);
        if (shutdown(fd, SHUT_WR) != 0) die("shutdown");
        char word[3];
        if (recv(fd, word, 3, MSG_WAITALL) != 3 || memcmp(word, "bye", 3)) die("the client's last word");
        signal(SIGPIPE, SIG_IGN);
        if (write(fd, "x", 1) != -1 || errno != EPIPE) die("write after shutdown");
    } else if (is("exec")) {
        put_all(fd, 0, size / 2);
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        execl(self, self, "resume", path, number, (char *)NULL);
        die("execl");
    } else if (is("exit")) {
        put_all(fd, 0, size);
        exit(0);
    } else if (is("_exit")) {
        put_all(fd, 0, size);
        _exit(0);
    } else if (is("quick_exit")) {
        put_all(fd, 0, size);
        quick_exit(0);
    } else if (is("spawn")) {
        // Other programs are started in the middle of a transfer, by vfork and exec with descriptors closed.
        put_all(fd, 0, size / 2);
        for (int i = 0; i < 3; i++) {
            pid_t pid = vfork();
            if (pid == 0) {
                close(fd);
                close_range(3, ~0U, 0);
                execl("/bin/true", "true", (char *)NULL);
                _exit(1);
            }
            int status = 1;
            if (waitpid(pid, &status, 0) != pid || status != 0) die("vfork");
            if (system("exec true") != 0) die("system");
        }
        put_all(fd, size / 2, size);
    } else if (is("greeting")) {
        // The parent says the first half, the child the rest.
        put_all(fd, 0, size / 2);
        pid_t pid = fork();
        if (pid == 0) {
            put_polled(fd, size / 2, size);
            close(fd);
            _exit(0);
        }
        close(fd);
        int status = 1;
        if (waitpid(pid, &status, 0) != pid || status != 0) die("child");
        return;
    } else if (is("passed")) {
        // Another process gets the descriptor through a Unix socket.
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) die("socketpair");
        pid_t pid = fork();
        char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
        struct iovec v = {&byte, 1};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        if (pid == 0) {
            close(fd);
            if (recvmsg(ends[1], &m, 0) != 1) die("recvmsg");
            int got;
            memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
            put_polled(got, size / 2, size);
            _exit(0);
        }
        put_all(fd, 0, size / 2);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
        if (sendmsg(ends[0], &m, 0) != 1) die("sendmsg");
        close(fd);
        int status = 1;
        if (waitpid(pid, &status, 0) != pid || status != 0) die("child");
        return;
    } else if (is("close_range")) {
        put_all(fd, 0, size);
        if (close_range(fd, ~0U, 0) != 0) die("close_range");
        if (write(fd, "x", 1) != -1 || errno != EBADF) die("write after close");
        return;
    } else if (is("closefrom")) {
        put_all(fd, 0, size);
        closefrom(fd);
        return;
    } else if (is("drop")) {
        // Whatever becomes of the client.
        for (size_t at = 0; at < size;) {
            ssize_t k = send(fd, data + at, piece(at), MSG_NOSIGNAL);
            if (k < 0) break;
            at += k;
        }
    } else if (is("idle")) {
        // Stays open.
        put_all(fd, 0, size);
        return;
    } else if (is("oob")) {
        put_all(fd, 0, size - 1);
        if (send(fd, data + size - 1, 1, MSG_OOB) != 1) die("MSG_OOB");
    } else {
        put_all(fd, 0, size);
    }
    if (close(fd) != 0) die("close");
}

static void *thread(void *fd) {
    put_all((int)(long)fd, 0, size);
    close((int)(long)fd);
    return NULL;
}

// What is not TCP: pipes, Unix sockets, UDP. Then counts the threads of this process: there must be one.
static int untouched(void) {
    int pipes[2], ends[2], udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    char word[4];
    if (pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) die("pairs");
    if (bind(udp, (void *)&a, len) != 0 || getsockname(udp, (void *)&a, &len) != 0) die("udp");
    if (write(pipes[1], "abc", 3) != 3 || read(pipes[0], word, 4) != 3) die("pipe");
    if (send(ends[0], "abc", 3, 0) != 3 || read(ends[1], word, 4) != 3) die("unix");
    if (sendto(udp, "abc", 3, 0, (void *)&a, len) != 3 || recv(udp, word, 4, 0) != 3) die("udp");
    struct pollfd p = {.fd = udp, .events = POLLOUT};
    if (poll(&p, 1, 1000) != 1 || p.revents != POLLOUT) die("poll");
    struct stat s;
    if (stat("/proc/self/task", &s) != 0 || s.st_nlink != 3) die("threads");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    self = argv[0], method = argv[1], path = argv[2];
    int count = atoi(argv[3]);
    if (argc > 4) seed = strtoull(argv[4], NULL, 10);
    file = open(path, O_RDONLY);
    struct stat s;
    if (file < 0 || fstat(file, &s) != 0) die(path);
    size = s.st_size;
    data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (is("untouched")) return untouched();
    if (is("resume")) {
        put_polled(count, argc > 5 ? strtoul(argv[4], NULL, 10) : size / 2, argc > 5 ? strtoul(argv[5], NULL, 10) : size);
        return 0;
    }
    int listener = socket(argc > 5 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t len = argc > 5 ? sizeof a6 : sizeof a;
    if (bind(listener, argc > 5 ? (void *)&a6 : (void *)&a, len) != 0 || listen(listener, 1000) != 0) die("listen");
    struct sockaddr_storage name;
    len = sizeof name;
    getsockname(listener, (void *)&name, &len);
    printf("%d\n", ntohs(((struct sockaddr_in *)&name)->sin_port));
    fflush(stdout);
    if (is("end")) signal(SIGTERM, on_end);
    if (is("signals")) tick(SA_RESTART);
    if (is("interrupted")) tick(0);
    if (is("epoll")) return epoll_server(listener, count, 0, 0), 0;
    if (is("epoll_edge")) return epoll_server(listener, count, EPOLLET, 0), 0;
    if (is("epoll_oneshot")) return epoll_server(listener, count, EPOLLONESHOT, 0), 0;
    if (is("epoll_end")) return epoll_server(listener, count, 0, 1), 0;
    if (is("epoll_end_edge")) return epoll_server(listener, count, EPOLLET, 1), 0;
    pthread_t threads[64];
    for (int i = 0; i < count; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0 && errno == EINTR) { i--; continue; }
        if (fd < 0) die("accept");
        if (is("threads")) {
            pthread_create(&threads[i], NULL, thread, (void *)(long)fd);
        } else if (is("fork")) {
            pid_t pid = fork();
            if (pid == 0) {
                close(listener);
                seed += i;
                put_all(fd, 0, size);
                // Ends without a close, as a child of inetd may.
                _exit(0);
            }
            close(fd);
        } else {
            serve(fd);
        }
    }
    for (int i = 0; is("threads") && i < count; i++) pthread_join(threads[i], NULL);
    int status;
    while (is("fork") && wait(&status) > 0)
        if (status != 0) die("a child failed");
    if (is("idle")) pause();
    return 0;
}
