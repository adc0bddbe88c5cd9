// Programs that forbid themselves most system calls, as OpenSSH's children do: what they may not do ends them.
#include "torture.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>

// The C library's, which no header of its own declares.
int capset(cap_user_header_t header, const cap_user_data_t data);

// Nearly what OpenSSH's sandbox-seccomp-filter.c permits: no getsockopt, no sendto, no clone.
static const int permitted[] = {
    SYS_brk, SYS_clock_gettime, SYS_close, SYS_exit, SYS_exit_group, SYS_futex, SYS_getpid, SYS_madvise, SYS_mmap,
    SYS_mprotect, SYS_mremap, SYS_munmap, SYS_ppoll, SYS_read, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_shutdown, SYS_write,
#ifdef SYS_poll
    SYS_poll,
#endif
};

enum { COUNT = sizeof permitted / sizeof *permitted };

static struct sock_filter program[2 * COUNT + 2];
static struct sock_fprog filter = {2 * COUNT + 2, program};

static void prepare(void) {
    struct sock_filter *next = program;
    *next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++) {
        *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, permitted[i], 0, 1);
        *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    *next = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("PR_SET_NO_NEW_PRIVS");
}

static void by_prctl(void) {
    prepare();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) skip("no seccomp here");
}

static void by_syscall(void) {
    prepare();
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) skip("no seccomp here");
}

// For all threads of the process, those that it does not know among them.
static void by_all(void) {
    prepare();
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) skip("no seccomp here");
}

static void forbidden(void (*forbid)(void)) {
    int fd = take();
    put(fd, total / 2);
    go();
    forbid();
    put(fd, total - at);
    answered("close", close(fd));
}

static void seccomp_prctl(void) { forbidden(by_prctl); }
static void seccomp_syscall(void) { forbidden(by_syscall); }
static void seccomp_all(void) { forbidden(by_all); }

// Before anything is written.
static void seccomp_first(void) {
    int fd = take();
    go();
    by_prctl();
    put(fd, total);
    // The end closes it.
}

// In a child, for a connection that its parent accepted and wrote to.
static void seccomp_child(void) {
    int fd = take();
    put(fd, total / 3);
    go();
    pid_t child = fork();
    if (child == 0) {
        by_prctl();
        put(fd, total / 3);
        _exit(0);
    }
    reap(child);
    at += total / 3;
    put(fd, total - at);
    close(fd);
}

// What the kernel grants to the calling thread alone, or only to a process without threads. One connection has begun, one has not.
static void between(void (*change)(void)) {
    int fd = take(), later = take();
    put(fd, total / 2);
    go();
    change();
    put(fd, total - at);
    close(fd);
    at = 0;
    put(later, total);
    close(later);
}

static void no_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    answered("capset", capset(&header, none));
}

static void own_namespace(void) { answered("unshare", unshare(CLONE_NEWUSER)); }

static void capabilities(void) { between(no_capabilities); }
static void namespaces(void) { between(own_namespace); }

const struct method filters[] = {
    {"capabilities", capabilities},
    {"namespaces", namespaces},
    {"seccomp_prctl", seccomp_prctl},
    {"seccomp_syscall", seccomp_syscall},
    {"seccomp_all", seccomp_all},
    {"seccomp_first", seccomp_first},
    {"seccomp_child", seccomp_child},
    {0},
};
