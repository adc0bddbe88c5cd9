/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts the allocations of a program from its AFTERth datagram on (an environment variable) to its last, and says at its end how many
 * there were, and in all. For LD_PRELOAD; glibc.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static unsigned long all, late, seen, sent, after = ~0ul;

static void count(void)
{
	all++;
	if (sent >= after)
		late++;
}

void *malloc(size_t size)
{
	count();
	return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
	count();
	return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
	count();
	return __libc_realloc(old, size);
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
	const char *given;

	seen = late;
	if (sent++ == 0 && (given = getenv("AFTER")))
		after = strtoul(given, NULL, 10);
	return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

__attribute__((destructor)) static void say(void)
{
	char line[80];
	int length = snprintf(line, sizeof(line), "allocations: %lu late, %lu in all\n", seen, all);

	if (sent > 0 && write(2, line, (size_t)length) != length)
		_exit(3);
}
