/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What alcc.h promises, case by case: ends with 0 when it holds, says what does not. One process a case. */
#include "check.h"

#define MEGABYTE ((size_t)1000000)

/* Every byte arrives, though the connection is closed right behind the last. */
static void whole(void)
{
	pthread_t thread;
	void *count;
	int theirs, ours = connection(&theirs);

	CHECK(pthread_create(&thread, NULL, reader, &theirs) == 0);
	send_pattern(ours, 8 * MEGABYTE);
	CHECK(alcc_close(ours) == 0);
	CHECK(pthread_join(thread, &count) == 0 && (size_t)count == 8 * MEGABYTE);
	FAILS(alcc_send(ours, "x", 1, 0), EBADF);
}

/* A full queue: EAGAIN, no POLLOUT; room again: POLLOUT on both descriptors. */
static void full(void)
{
	static char data[10000];
	/* Doubled by the kernel. Both together are less than a quarter of the queue, which tells of room no sooner. */
	const int buffer = 100000;
	struct pollfd set[2];
	int theirs, ours;
	ssize_t taken;
	size_t total = 0;

	CHECK(alcc_options("mode=queue queue=4MB linger=100ms") == 0);
	ours = connection(&theirs);
	CHECK(setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0);
	CHECK(setsockopt(theirs, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0);
	while ((taken = alcc_send(ours, data, sizeof(data), MSG_DONTWAIT)) > 0)
		total += (size_t)taken;
	CHECK(taken == -1 && errno == EAGAIN && total >= 4 * MEGABYTE);
	CHECK(fcntl(ours, F_SETFL, O_NONBLOCK) == 0);
	memset(set, 0, sizeof(set));
	set[0].fd = ours;
	set[0].events = POLLOUT | POLLIN;
	CHECK(alcc_poll(set, 1, 0) == 0 && set[0].revents == 0);
	set[1].fd = alcc_writable(ours);
	set[1].events = POLLOUT;
	CHECK(set[1].fd >= 0 && set[1].fd != ours && poll(&set[1], 1, 0) == 0);
	/* What comes from the peer is seen meanwhile. */
	CHECK(write(theirs, "x", 1) == 1);
	CHECK(alcc_poll(set, 1, 10000) == 1 && set[0].revents == POLLIN);
	CHECK(read(ours, data, 1) == 1);
	CHECK(fcntl(theirs, F_SETFL, O_NONBLOCK) == 0);
	do {
		while (read(theirs, data, sizeof(data)) > 0)
			;
		CHECK(errno == EAGAIN);
	} while (alcc_poll(set, 1, 10) == 0);
	CHECK(set[0].revents == POLLOUT && poll(&set[1], 1, 10000) == 1 && set[1].revents == POLLOUT);
	CHECK(alcc_send(ours, data, sizeof(data), 0) > 0);
	alcc_close(ours);
}

/* A blocking call ends when SO_SNDTIMEO has passed. */
static void timeout(void)
{
	static char data[20000000];
	const struct timeval limit = { 0, 200000 };
	int theirs, ours;
	ssize_t taken;

	/* The peer reads nothing: the end of the program would wait for it. */
	CHECK(alcc_options("mode=queue queue=100kB linger=100ms") == 0);
	ours = connection(&theirs);
	CHECK(setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
	taken = alcc_send(ours, data, sizeof(data), 0);
	CHECK(taken >= 100000 && taken < (ssize_t)sizeof(data));
	/* TCP takes from the queue until its own buffers are full. */
	while ((taken = alcc_send(ours, data, sizeof(data), 0)) > 0)
		;
	CHECK(taken == -1 && errno == EAGAIN);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

/* The peer resets the connection. */
static void reset(void)
{
	const struct linger at_once = { 1, 0 };
	int theirs, ours = connection(&theirs), rounds = 0;

	signal(SIGPIPE, count_signal);
	CHECK(alcc_send(ours, "x", 1, 0) == 1);
	CHECK(setsockopt(theirs, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0 && close(theirs) == 0);
	while (alcc_send(ours, "x", 1, MSG_NOSIGNAL) == 1) {
		usleep(1000);
		CHECK(rounds++ < 10000);
	}
	CHECK(errno == ECONNRESET || errno == EPIPE);
	FAILS(alcc_send(ours, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK(signals == 0);
	FAILS(alcc_send(ours, "x", 1, 0), EPIPE);
	CHECK(signals == 1 && alcc_close(ours) == 0);
}

/* Descriptors that are not of the library, and numbers that are not descriptors; arguments that the kernel refuses too. */
static void descriptors(void)
{
	struct sockaddr_in address;
	struct alcc_stats stats;
	struct pollfd set = { 0, POLLOUT, 0 };
	struct msghdr message;
	char parts[6], control[32] = { 0 };
	struct iovec vector[2] = { { (void *)"abc", 3 }, { (void *)"def", 3 } };
	int pair[2], theirs, ours, listener = listen_here(&address);

	memset(&message, 0, sizeof(message));
	message.msg_iov = vector;
	message.msg_iovlen = 2;
	FAILS(alcc_send(-1, "x", 1, 0), EBADF);
	FAILS(alcc_close(-1), EBADF);
	FAILS(alcc_shutdown(-1, SHUT_WR), EBADF);
	FAILS(alcc_stats(-1, &stats), EBADF);
	FAILS(alcc_accept(-1, NULL, NULL), EBADF);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	FAILS(alcc_accept(pair[0], NULL, NULL), EINVAL);
	CHECK(alcc_sendmsg(pair[0], &message, 0) == 6 && alcc_writable(pair[0]) == pair[0]);
	CHECK(read(pair[1], parts, 6) == 6 && memcmp(parts, "abcdef", 6) == 0);
	set.fd = pair[0];
	CHECK(alcc_poll(&set, 1, 0) == 1 && set.revents == POLLOUT);
	FAILS(alcc_stats(pair[0], &stats), EINVAL);
	CHECK(alcc_close(pair[0]) == 0 && read(pair[1], parts, 1) == 0);

	CHECK(close(listener) == 0);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	FAILS(alcc_connect(listener, (struct sockaddr *)&address, sizeof(address)), ECONNREFUSED);

	ours = connection(&theirs);
	FAILS(alcc_send(ours, NULL, 1, 0), EFAULT);
	FAILS(alcc_send(ours, "x", 1, MSG_OOB), EOPNOTSUPP);
	FAILS(alcc_stats(ours, NULL), EFAULT);
	CHECK(alcc_send(ours, NULL, 0, 0) == 0);
	CHECK(alcc_sendmsg(ours, &message, 0) == 6);
	CHECK(recv(theirs, parts, 6, MSG_WAITALL) == 6 && memcmp(parts, "abcdef", 6) == 0);
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	FAILS(alcc_sendmsg(ours, &message, 0), EOPNOTSUPP);
	CHECK(alcc_stats(ours, &stats) == 0 && stats.written == 6 && strncmp(stats.controller, "copa", 4) == 0);
	CHECK(alcc_close(ours) == 0);
}

/* Options that are wrong, or come too late. */
static void options(void)
{
	struct sockaddr_in address;
	int theirs, ours, listener = listen_here(&address);

	FAILS(alcc_options("cc=copper"), EINVAL);
	CHECK(strstr(alcc_error(), "unknown controller 'copper'"));
	FAILS(alcc_options("\xff"), EINVAL);
	/* From the environment: neither a connection nor half of one. */
	CHECK(setenv("PACELINE_MODE", "fast", 1) == 0);
	FAILS(alcc_options(NULL), EINVAL);
	FAILS(alcc_accept(listener, NULL, NULL), EINVAL);
	CHECK(strncmp(alcc_error(), "PACELINE_MODE: 'fast'", 21) == 0);
	ours = socket(AF_INET, SOCK_STREAM, 0);
	FAILS(alcc_connect(ours, (struct sockaddr *)&address, sizeof(address)), EINVAL);
	FAILS(alcc_send(ours, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK(unsetenv("PACELINE_MODE") == 0 && alcc_options("cc=fixed:window=20 linger=2s") == 0);
	ours = connection(&theirs);
	CHECK(alcc_send(ours, "x", 1, 0) == 1);
	FAILS(alcc_options("cc=copa"), EBUSY);
	alcc_close(ours);
}

/* A child serves what its parent accepted, as inetd and forking servers have it. */
static void child(void)
{
	struct sockaddr_in address;
	int listener = listen_here(&address), theirs = socket(AF_INET, SOCK_STREAM, 0), ours, status;

	CHECK(connect(theirs, (struct sockaddr *)&address, sizeof(address)) == 0);
	ours = alcc_accept(listener, NULL, NULL);
	CHECK(ours >= 0);
	if (fork() == 0) {
		send_pattern(ours, MEGABYTE);
		CHECK(alcc_close(ours) == 0);
		exit(0);
	}
	CHECK(alcc_close(ours) == 0);
	CHECK(read_all(theirs) == MEGABYTE);
	CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What is queued when the program ends still leaves. */
static void leave(void)
{
	struct sockaddr_in address;
	int listener = listen_here(&address), theirs, status;

	if (fork() == 0) {
		int ours = socket(AF_INET, SOCK_STREAM, 0);

		CHECK(alcc_connect(ours, (struct sockaddr *)&address, sizeof(address)) == 0);
		send_pattern(ours, 4 * MEGABYTE);
		/* Neither closed nor waited for. */
		exit(0);
	}
	theirs = accept(listener, NULL, NULL);
	CHECK(read_all(theirs) == 4 * MEGABYTE);
	CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The stream ends behind what is queued; the other direction goes on. */
static void half(void)
{
	int theirs, ours = connection(&theirs);
	char answer[2];

	send_pattern(ours, MEGABYTE);
	CHECK(alcc_shutdown(ours, SHUT_WR) == 0);
	FAILS(alcc_send(ours, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK(read_all(theirs) == MEGABYTE);
	CHECK(write(theirs, "ok", 2) == 2 && recv(ours, answer, 2, MSG_WAITALL) == 2);
	CHECK(alcc_close(ours) == 0);
}

/* SO_LINGER of 0: the connection is reset and the rest dropped. */
static void abandon(void)
{
	static char data[65536];
	const struct linger at_once = { 1, 0 };
	int theirs, ours = connection(&theirs), rounds = 0;
	ssize_t count;

	while (rounds++ < 100 && alcc_send(ours, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	CHECK(alcc_setsockopt(ours, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0 && alcc_close(ours) == 0);
	while ((count = read(theirs, data, sizeof(data))) > 0)
		;
	CHECK(count == -1 && errno == ECONNRESET);
}

/* A non-blocking connect, then poll, then send. */
static void connecting(void)
{
	struct sockaddr_in address;
	struct pollfd set = { 0, POLLOUT, 0 };
	int listener = listen_here(&address), theirs, ours = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error;
	socklen_t length = sizeof(error);
	char byte;

	FAILS(alcc_connect(ours, (struct sockaddr *)&address, sizeof(address)), EINPROGRESS);
	set.fd = ours;
	CHECK(alcc_poll(&set, 1, 10000) == 1 && set.revents == POLLOUT);
	CHECK(getsockopt(ours, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
	CHECK(alcc_send(ours, "x", 1, 0) == 1 && alcc_writable(ours) != ours);
	theirs = accept(listener, NULL, NULL);
	CHECK(read(theirs, &byte, 1) == 1 && byte == 'x');
	CHECK(alcc_close(ours) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "whole", whole },     { "full", full },       { "timeout", timeout }, { "reset", reset },
		{ "descriptors", descriptors }, { "options", options }, { "child", child }, { "leave", leave },
		{ "half", half },       { "abandon", abandon }, { "connecting", connecting },
	};
	size_t at;

	/* Nothing here takes long; a hang is a failure. */
	alarm(120);
	for (at = 0; at < sizeof(cases) / sizeof(cases[0]); at++)
		if (argc == 2 && strcmp(argv[1], cases[at].name) == 0) {
			cases[at].run();
			return 0;
		}
	printf("no such case\n");
	return 2;
}
