/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends its standard input to a server, under the controller of PACELINE_CC, while it copies what comes back to the
 * standard output:
 *
 *     cc -o client client.c $(pkg-config --cflags --libs alcc)
 *     ./client HOST PORT <upload >answer
 *
 * One thread, non-blocking: POLLOUT of alcc_poll means that the connection's queue has room. Reading needs nothing of the
 * library.
 */
#include <alcc.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	if (*alcc_error())
		fprintf(stderr, "%s\n", alcc_error());
	return 1;
}

static int open_connection(const char *host, const char *port)
{
	struct addrinfo hints, *found, *next;
	int fd = -1, code;

	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	code = getaddrinfo(host, port, &hints, &found);
	if (code != 0) {
		fprintf(stderr, "%s: %s\n", host, gai_strerror(code));
		return -1;
	}
	for (next = found; next && fd < 0; next = next->ai_next) {
		fd = socket(next->ai_family, next->ai_socktype, next->ai_protocol);
		if (fd >= 0 && alcc_connect(fd, next->ai_addr, next->ai_addrlen) < 0) {
			fail(host);
			alcc_close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	return fd;
}

int main(int argc, char **argv)
{
	static char up[65536], down[65536];
	size_t from = 0, to = 0;
	int sending = 1, fd;

	if (argc != 3) {
		fprintf(stderr, "usage: %s HOST PORT <upload >answer\n", argv[0]);
		return 2;
	}
	fd = open_connection(argv[1], argv[2]);
	if (fd < 0)
		return 1;
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return fail("fcntl");
	for (;;) {
		struct pollfd set;
		ssize_t count;

		if (sending && from == to) {
			count = read(STDIN_FILENO, up, sizeof(up));
			if (count < 0)
				return fail("standard input");
			from = 0;
			to = (size_t)count;
			if (count == 0) {
				sending = 0;
				if (alcc_shutdown(fd, SHUT_WR) < 0)
					return fail("shutdown");
			}
		}
		set.fd = fd;
		set.events = sending ? POLLIN | POLLOUT : POLLIN;
		if (alcc_poll(&set, 1, -1) < 0)
			return fail("poll");
		if (set.revents & POLLOUT) {
			count = alcc_send(fd, up + from, to - from, MSG_NOSIGNAL);
			if (count < 0 && errno != EAGAIN)
				return fail("send");
			from += count > 0 ? (size_t)count : 0;
		}
		if (set.revents & (POLLIN | POLLHUP | POLLERR)) {
			count = recv(fd, down, sizeof(down), 0);
			if (count == 0)
				break;
			if (count < 0 && errno != EAGAIN)
				return fail("receive");
			if (count > 0 && fwrite(down, 1, (size_t)count, stdout) != (size_t)count)
				return fail("standard output");
		}
	}
	return alcc_close(fd) < 0 ? fail("close") : fflush(stdout) != 0;
}
