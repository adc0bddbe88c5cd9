// What the cases have in common: a pattern that every connection gets from its first byte on, and lines for the test.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A way to write, to wait or to end. It returns when the program is to end with status 0.
struct method {
    const char *name;
    void (*run)(void);
};

// Lists of them, one a file; each ends with an empty one.
extern const struct method signals[], streams[], descriptors[], processes[], events[], ends[], buffers[], options[], calls[], filters[], stacks[], listeners[], tables[], closes[], rates[];

// This program's path, and the method's name.
extern const char *self, *name;
// How many bytes each connection gets.
extern size_t total;
// The next byte of the pattern.
extern volatile size_t at;
// Listens; the lines for the test go to the lowest descriptor above the standard ones.
extern int listener;
enum { LINES = 3 };

// Bytes of the pattern.
void fill(unsigned char *to, size_t from, size_t count);
// Writes the next bytes of the pattern, from a buffer on the stack; waits where there is no room.
void put(int fd, size_t count);
// All of these, or the end of the program.
void put_bytes(int fd, const void *bytes, size_t count);
// The next connection.
int take(void);
// A line that must be the same with and without the library.
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
// What a call answered, with the error's name.
void answered(const char *call, long result);
// Lets clients read that wait for it.
void go(void);
// Ends the program: what cannot go on.
void fail(const char *what) __attribute__((noreturn));
// Ends the program: this machine cannot do it.
void skip(const char *reason) __attribute__((noreturn));
void nonblocking(int fd, int on);
void set_option(int fd, int level, int option, int value);
// This program again, to write `count` bytes to descriptor `fd`: `resume` by write, `turns` by the standard output as well, `listening` to
// whom that listener accepts; `ended` says whether all connections have, `rate` whether the rate is
// the program's. The words live until the next call.
char *const *again(const char *way, int fd, size_t count);
void turns(FILE *stream, int fd);
// Whether the kernel has no open connection of this port left, within five seconds: their last name is closed, and this program lives.
int all_ended(void);
// The listener's port.
int port(void);
// The rate that a case gives its connection; says whether the kernel has it for a connection, whatever the library answers.
enum { OWN_RATE = 1900000000 };
int has_own_rate(int fd);
// Passes a descriptor on, and takes one (SCM_RIGHTS).
void give(int to, int fd);
int given(int from);
// The end of a child must be in order.
void reap(pid_t child);

// A system call past every library: the result, or the negative error.
static inline long raw(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
    skip("no raw system calls for this architecture");
#endif
}
