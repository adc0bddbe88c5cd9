/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests in C have in common: connections over loopback, bytes with a pattern, complaints. */
#ifndef CHECK_H
#define CHECK_H

#include <alcc.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the program when it does not hold. */
#define CHECK(what)                                                                                       \
	do {                                                                                              \
		if (!(what)) {                                                                            \
			int saved = errno;                                                                \
			printf("%s:%d: %s does not hold; errno: %s; '%s'\n", __FILE__, __LINE__, #what,   \
			       strerror(saved), alcc_error());                                            \
			fflush(stdout);                                                                   \
			_exit(1);                                                                         \
		}                                                                                         \
	} while (0)

/* That a call fails with this errno. */
#define FAILS(call, with)                      \
	do {                                   \
		errno = 0;                     \
		CHECK((call) == -1);           \
		CHECK(errno == (with));        \
	} while (0)

/* Byte number `at` of every stream here. */
static inline char pattern(size_t at)
{
	return (char)(at ^ at >> 8 ^ at >> 16);
}

static inline int listen_here(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)address, length) == 0 && listen(listener, 8) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)address, &length) == 0);
	return listener;
}

/* A connection; `theirs` is the end that the library knows nothing of. */
static inline int connection(int *theirs)
{
	struct sockaddr_in address;
	int listener = listen_here(&address), ours = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(alcc_connect(ours, (struct sockaddr *)&address, sizeof(address)) == 0);
	*theirs = accept(listener, NULL, NULL);
	CHECK(*theirs >= 0 && close(listener) == 0);
	return ours;
}

/* Reads to the end of the stream; checks each byte; answers how many there were. */
static inline size_t read_all(int fd)
{
	static __thread char data[65536];
	size_t total = 0;
	ssize_t count;

	while ((count = read(fd, data, sizeof(data))) > 0) {
		ssize_t at;

		for (at = 0; at < count; at++, total++)
			CHECK(data[at] == pattern(total));
	}
	CHECK(count == 0);
	return total;
}

static inline void *reader(void *fd)
{
	return (void *)read_all(*(int *)fd);
}

/* Blocking: `total` bytes in pieces of all sizes. */
static inline void send_pattern(int fd, size_t total)
{
	static __thread char data[50000];
	size_t sent = 0, piece = 1;

	while (sent < total) {
		size_t at, length = piece < total - sent ? piece : total - sent;
		ssize_t taken;

		for (at = 0; at < length; at++)
			data[at] = pattern(sent + at);
		taken = alcc_send(fd, data, length, 0);
		CHECK(taken == (ssize_t)length);
		sent += length;
		piece = piece * 7 % 49999;
	}
}

#endif
