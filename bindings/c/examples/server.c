/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends a file to each client, under the controller of PACELINE_CC (copa when not set), and says how it went:
 *
 *     cc -o server server.c $(pkg-config --cflags --libs alcc)
 *     PACELINE_CC=copa:delta=0.1 ./server FILE [PORT [CLIENTS]]
 *
 * PORT 0 (the default) is any; the first line of the output names it. After CLIENTS clients the server ends.
 */
#include <alcc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	if (*alcc_error())
		fprintf(stderr, "%s\n", alcc_error());
	return 1;
}

/* All of it, however much each call takes. */
static int send_all(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t taken = alcc_send(fd, data, length, MSG_NOSIGNAL);

		if (taken < 0)
			return -1;
		data += taken;
		length -= (size_t)taken;
	}
	return 0;
}

static int serve(int fd, FILE *file)
{
	static char data[65536];
	size_t length;

	rewind(file);
	while ((length = fread(data, 1, sizeof(data), file)) > 0)
		if (send_all(fd, data, length) < 0)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in6 address;
	socklen_t length = sizeof(address);
	struct alcc_stats stats;
	const int on = 1;
	long clients = argc > 3 ? atol(argv[3]) : -1;
	int listener, fd;
	FILE *file;

	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE [PORT [CLIENTS]]\n", argv[0]);
		return 2;
	}
	/* NULL: the environment alone. A wrong option shows here rather than at the first client. */
	if (alcc_options(NULL) < 0)
		return fail("options");
	file = fopen(argv[1], "rb");
	if (!file)
		return fail(argv[1]);
	memset(&address, 0, sizeof(address));
	address.sin6_family = AF_INET6;
	address.sin6_addr = in6addr_any;
	address.sin6_port = htons((uint16_t)(argc > 2 ? atoi(argv[2]) : 0));
	listener = socket(AF_INET6, SOCK_STREAM, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 16) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) < 0)
		return fail("listen");
	printf("port %u\n", ntohs(address.sin6_port));
	fflush(stdout);
	while (clients != 0 && (fd = alcc_accept(listener, NULL, NULL)) >= 0) {
		if (serve(fd, file) < 0)
			perror("send");
		else if (alcc_stats(fd, &stats) == 0)
			printf("%s: %llu bytes written, %llu delivered so far, %llu bytes/s, smallest RTT %llu us\n",
			       stats.controller, (unsigned long long)stats.written, (unsigned long long)stats.delivered,
			       (unsigned long long)stats.rate, (unsigned long long)stats.min_rtt_us);
		fflush(stdout);
		/* Returns at once; what is queued still leaves, after the end of main as well. */
		alcc_close(fd);
		if (clients > 0)
			clients--;
	}
	fclose(file);
	return clients == 0 ? 0 : fail("accept");
}
