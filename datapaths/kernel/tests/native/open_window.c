/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The arithmetic of the open window, compiled natively. Ends with 0 when all holds; says what does not. */
#include "check.h"

#include "../../src/bpf/open_window.h"

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

	/* A number that can be no rate asks for a window; the largest one, which a socket has at first, for none. */
	CHECK(asked_window(NO_RATE, 1448, 46345) == 46345);
	CHECK(asked_window(12500000, 1448, 46345) == 46345);
	CHECK(asked_window(WINDOW_FROM - 1, 1448, 46345) == 46345);
	CHECK(asked_window(14480ull << WINDOW_SHIFT, 1448, 46345) == 10);
	CHECK(asked_window(14479ull << WINDOW_SHIFT, 1448, 46345) == 9);
	CHECK(asked_window(512ull << WINDOW_SHIFT, 1448, 46345) == 1);
	CHECK(asked_window((64ull << 20) << WINDOW_SHIFT, 1448, 46345) == 46345);
	CHECK(asked_window((64ull << 20) << WINDOW_SHIFT, 1448, 100) == 100);
	CHECK(asked_window(14480ull << WINDOW_SHIFT, 0, 46345) == 14480);
	/* 100 packets in 20 ms are 7.24 MB a second, and a quarter more. */
	CHECK(rate_of_window(100, 1448, 20000 * 8, 125) == 9050000);
	CHECK(rate_of_window(100, 1448, 0, 125) == 0);
	CHECK(rate_of_window(65536, 65535, 1, 125) == 65536ull * 65535 * 10000000);

	/* The smallest RTT of the last quarter of 20 ms, and of what has passed of the next; nothing is older. */
	struct smallest smallest;
	forget_rtt(&smallest);
	CHECK(smallest_rtt(&smallest) == UNKNOWN_RTT);
	note_rtt(&smallest, 1000000, 20900, 20000 * 8);
	note_rtt(&smallest, 1004000, 20300, 20000 * 8);
	note_rtt(&smallest, 1004500, 20800, 20000 * 8);
	CHECK(smallest_rtt(&smallest) == 20300);
	note_rtt(&smallest, 1005000, 20700, 20000 * 8);
	CHECK(smallest_rtt(&smallest) == 20300);
	note_rtt(&smallest, 1010000, 20800, 20000 * 8);
	CHECK(smallest_rtt(&smallest) == 20700);
	note_rtt(&smallest, 1025000, 20900, 20000 * 8);
	CHECK(smallest_rtt(&smallest) == 20900);
	note_rtt(&smallest, 1025001, 20800, 0);
	CHECK(smallest_rtt(&smallest) == 20800);

	/* The second of a pair has waited 116 us for the first; so has the last of many, as far as is known. */
	CHECK(rtt_of_first(20500, 2, 100, 11600, 20060) == 20384);
	CHECK(rtt_of_first(20500, 18, 100, 11600, 20060) == 20384);
	CHECK(rtt_of_first(20500, 1, 100, 11600, 20060) == 20500);
	CHECK(rtt_of_first(20500, 2, 0, 11600, 20060) == 20500);
	CHECK(rtt_of_first(20500, 2, 1, 11600, 20060) == 20060);
	CHECK(rtt_of_first(20000, 2, 100, 11600, 20060) == 20000);

	/* A receiver that joins more than eight packets is one to pace for, for eight round trips. */
	CHECK(paced_until(7, 1000000, 8, 20000 * 8) == 7);
	CHECK(paced_until(7, 1000000, 9, 20000 * 8) == 1160000);

	/* Another controller begins with what is in flight, or ten packets; never with more than there was. */
	CHECK(window_left_behind(46345, 60) == 60);
	CHECK(window_left_behind(46345, 0) == 10);
	CHECK(window_left_behind(4, 60) == 4);

	/* The kernel keeps twice the memory of a window in an int. */
	for (mss = 1; mss < 65536; mss++)
		CHECK(2 * open_window(mss, NO_CLAMP) * memory_of_a_packet(mss) < 1ull << 31);

	return failures != 0;
}
