/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The arithmetic of the open window, compiled natively. Ends with 0 when all holds; says what does not. */
#include <stdio.h>

#include "../../src/bpf/open_window.h"

static int failures;

#define CHECK(what)                                                         \
	do {                                                                \
		if (!(what)) {                                              \
			printf("line %d: %s does not hold\n", __LINE__, #what); \
			failures++;                                         \
		}                                                           \
	} while (0)

#define NO_CLAMP 0xffffffffu

/* Linux tcp_sndbuf_expand(): memory of a packet, with the headers and structures of a 64-bit kernel (at most). */
static unsigned long long memory_of_a_packet(unsigned int mss)
{
	unsigned long long bytes = mss + 320 + 320, rounded = 1;

	while (rounded < bytes)
		rounded *= 2;
	return rounded + 256;
}

int main(void)
{
	unsigned int mss;

	/* 64 MiB of packets, 65536 at most, never above the connection's own limit. */
	CHECK(open_window(1448, NO_CLAMP) == 46345);
	CHECK(open_window(65483, NO_CLAMP) == 1024);
	CHECK(open_window(536, NO_CLAMP) == 65536);
	CHECK(open_window(0, NO_CLAMP) == 65536);
	CHECK(open_window(1448, 100) == 100);

	/* Open in every state but after a timeout, whatever the window was. */
	CHECK(window_after_ack(0, 1, 1, 1000) == 1000);
	CHECK(window_after_ack(0, 2000, 0, 1000) == 1000);
	/* After a timeout it doubles in a round trip: 1, 2, 4, and stops when it is open. */
	CHECK(window_after_ack(1, 1, 1, 1000) == 2);
	CHECK(window_after_ack(1, 2, 2, 1000) == 4);
	CHECK(window_after_ack(1, 990, 9, 1000) == 999);
	CHECK(window_after_ack(1, 990, 10, 1000) == 1000);
	CHECK(window_after_ack(1, 990, NO_CLAMP, 1000) == 1000);
	CHECK(window_after_ack(1, 2000, 1, 1000) == 1000);

	/* Another controller begins with what is in flight, or ten packets; never with more than there was. */
	CHECK(window_left_behind(46345, 60) == 60);
	CHECK(window_left_behind(46345, 0) == 10);
	CHECK(window_left_behind(4, 60) == 4);

	/* The kernel keeps twice the memory of a window in an int. */
	for (mss = 1; mss < 65536; mss++)
		CHECK(2 * open_window(mss, NO_CLAMP) * memory_of_a_packet(mss) < 1ull << 31);

	return failures != 0;
}
