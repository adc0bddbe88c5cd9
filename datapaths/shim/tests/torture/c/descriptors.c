// Descriptors that come to mean something else, and numbers used again.
#include "torture.h"
#include <sys/resource.h>

static void dup_over_by(int raw_call) {
    int first = take(), second = take();
    put(first, total);
    long made = raw_call ? raw(SYS_dup3, second, first, 0, 0, 0, 0) : dup2(second, first);
    if (made != first) fail("dup2");
    at = 0;
    put(first, total);
    go();
    close(first);
    close(second);
}

static void dup_over(void) { dup_over_by(0); }
static void dup_over_raw(void) { dup_over_by(1); }

static void close_raw(void) {
    int first = take();
    put(first, total);
    raw(SYS_close, first, 0, 0, 0, 0, 0);
    int second = take();
    report("the number again: %d", second == first);
    at = 0;
    put(second, total);
    go();
    close(second);
}

// The number of a connection becomes that of a pipe.
static void close_raw_pipe(void) {
    int fd = take(), ends[2];
    char word[4] = {0};
    put(fd, total);
    go();
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (pipe(ends) != 0) fail("pipe");
    report("the number again: %d", ends[0] == fd || ends[1] == fd);
    answered("write", write(ends[1], "abc", 3));
    answered("read", read(ends[0], word, 3));
    report("%s", word);
}

static void close_others(void) {
    int fd = take();
    put(fd, total / 3);
    answered("close_range", close_range(fd + 1, ~0U, 0));
    put(fd, total / 3);
    closefrom(fd + 1);
    put(fd, total - at);
    go();
    close(fd);
}

// As daemons do it that know nothing of close_range.
static void close_each(void) {
    int fd = take();
    put(fd, total / 2);
    for (int i = LINES + 1; i < 5000; i++)
        if (i != fd) close(i);
    put(fd, total - at);
    go();
    close(fd);
}

static void closefrom_it(void) {
    int fd = take();
    put(fd, total);
    go();
    closefrom(fd);
    answered("write", write(fd, "x", 1));
}

static void close_range_it(void) {
    int fd = take();
    put(fd, total);
    go();
    answered("close_range", close_range(fd, fd, 0));
    answered("write", write(fd, "x", 1));
}

// Most of the numbers that the limit allows.
static void few(void (*meanwhile)(void)) {
    enum { COUNT = 45 };
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) fds[i] = take();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < COUNT; i++) at = round * (total / 2), put(fds[i], total / 2);
    meanwhile();
    go();
    for (int i = 0; i < COUNT; i++) close(fds[i]);
}

static void ask_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    report("the limit: %d", (int)limit.rlim_cur);
}

// The library leaves some of the numbers to the program.
static void one_more(void) { report("one more: %s", open("/dev/null", O_RDONLY) < 0 ? strerror(errno) : "opened"); }

static void few_descriptors(void) { few(ask_limit); }
static void few_descriptors_one_more(void) { few(one_more); }

const struct method descriptors[] = {
    {"dup_over", dup_over},
    {"dup_over_raw", dup_over_raw},
    {"close_raw", close_raw},
    {"close_raw_pipe", close_raw_pipe},
    {"close_others", close_others},
    {"close_each", close_each},
    {"closefrom_it", closefrom_it},
    {"close_range_it", close_range_it},
    {"few_descriptors", few_descriptors},
    {"few_descriptors_one_more", few_descriptors_one_more},
    {0},
};
