/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Over the open window, the pacing rate is SO_MAX_PACING_RATE: the kernel lowers it at once, and leaves it to the
 * controller to raise it. A number that can be no rate is a window. Ends with 0 when that holds; says what does not.
 */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int try(const char *what, int result)
{
	if (result < 0)
		perror(what);
	return result;
}

static struct tcp_info ask(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	try("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
	return info;
}

static uint64_t pacing_rate(int fd)
{
	return ask(fd).tcpi_pacing_rate;
}

int main(void)
{
	const uint64_t rates[] = { 2000000, 1000000, 3000000 };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0), far, failures = 0;
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned int at;
	char byte = 'x';

	if (try("bind", bind(listener, (struct sockaddr *)&address, length)) < 0 ||
	    try("listen", listen(listener, 1)) < 0 ||
	    try("getsockname", getsockname(listener, (struct sockaddr *)&address, &length)) < 0 ||
	    try("connect", connect(near, (struct sockaddr *)&address, length)) < 0)
		return 1;
	far = accept(listener, NULL, NULL);
	if (try("TCP_CONGESTION", setsockopt(near, IPPROTO_TCP, TCP_CONGESTION, "paceline_open", 13)) < 0)
		return 1;
	for (at = 0; at < sizeof(rates) / sizeof(rates[0]); at++) {
		int rounds = 10000;

		if (try("SO_MAX_PACING_RATE",
			setsockopt(near, SOL_SOCKET, SO_MAX_PACING_RATE, &rates[at], sizeof(rates[at]))) < 0)
			return 1;
		if (write(near, &byte, 1) != 1 || read(far, &byte, 1) != 1)
			return 1;
		/* The acknowledgement may be delayed. */
		while (pacing_rate(near) != rates[at] && --rounds)
			nanosleep(&pause, NULL);
		if (!rounds) {
			printf("%llu instead of %llu bytes a second\n", (unsigned long long)pacing_rate(near),
			       (unsigned long long)rates[at]);
			failures++;
		}
	}
	/* The window is in bytes of payload; the rate by which bursts are made is 1.25 windows a round trip. */
	{
		const unsigned int wanted = 7;
		const uint64_t window = ((uint64_t)wanted * ask(near).tcpi_snd_mss + 1) << 32;
		int rounds = 10000;

		if (try("SO_MAX_PACING_RATE",
			setsockopt(near, SOL_SOCKET, SO_MAX_PACING_RATE, &window, sizeof(window))) < 0)
			return 1;
		if (write(near, &byte, 1) != 1 || read(far, &byte, 1) != 1)
			return 1;
		while (ask(near).tcpi_snd_cwnd != wanted && --rounds)
			nanosleep(&pause, NULL);
		if (!rounds || pacing_rate(near) >= window) {
			printf("a window of %u packets instead of %u, %llu bytes a second\n", ask(near).tcpi_snd_cwnd, wanted,
			       (unsigned long long)pacing_rate(near));
			failures++;
		}
	}
	return failures;
}
