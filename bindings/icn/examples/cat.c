/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Writes an object, or a part of it, to the standard output:
 *
 *     cc -o cat cat.c -lpacelineicn
 *     ./cat NAME SOURCES [FIRST [LAST]] >file
 */
#include <paceline_icn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	fprintf(stderr, "%s\n", paceline_icn_error());
	return 1;
}

int main(int argc, char **argv)
{
	struct paceline_icn_stat stat;
	struct pollfd ready;
	uint64_t first, last;
	static char data[65536];
	ssize_t count;
	int fd;

	if (argc < 3) {
		fprintf(stderr, "cat NAME SOURCES [FIRST [LAST]]\n");
		return 2;
	}
	first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	last = argc > 4 ? strtoull(argv[4], NULL, 10) : PACELINE_ICN_END;
	fd = paceline_icn_open(argv[1], argv[2], first, last);
	if (fd < 0)
		return fail("open");
	if (paceline_icn_stat(fd, &stat) < 0)
		return fail("stat");
	fprintf(stderr, "%s: %llu bytes, %s\n", stat.name, (unsigned long long)stat.length, stat.media_type);
	for (;;) {
		/* A descriptor like others. */
		ready.fd = fd;
		ready.events = POLLIN;
		if (poll(&ready, 1, -1) < 0)
			return fail("poll");
		count = paceline_icn_read(fd, data, sizeof(data));
		if (count < 0)
			return fail("read");
		if (count == 0)
			break;
		if (fwrite(data, 1, (size_t)count, stdout) != (size_t)count)
			return fail("write");
	}
	return paceline_icn_close(fd) < 0 || fflush(stdout) != 0;
}
