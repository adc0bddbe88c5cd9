/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* CUBIC's arithmetic, with numbers worked by hand from RFC 9438. Ends with 0 when all holds; says what does not. */
#include "check.h"

#include "../../src/bpf/cubic.h"

#define HZ 1000u

/* The private area of a socket. */
_Static_assert(sizeof(struct cubic) <= 104, "it fits into the socket");

static void roots(void)
{
	u64 root, a;

	for (a = 1; a < 64; a++)
		for (root = 1; root * root * root <= a; root++)
			CHECK(cubic_root(a) >= root);
	CHECK(cubic_root(0) == 0);
	for (root = 16; root < 1000000; root += root / 16) {
		u64 found = cubic_root(root * root * root), off = found > root ? found - root : root - found;

		CHECK(off * 1000 <= 7 * root + 1000);
	}
	/* K of 30 packets: the cube root of 30 / 0.4 is 4.217 s. */
	a = cubic_root((1ull << 40) / 410 * 30);
	CHECK(a > 4290 && a < 4330);
}

/* An acknowledgement of `acked` packets at `now` ms. */
static void acked(struct cubic *c, struct window *w, u32 now, u32 packets)
{
	const struct cubic_ack ack = { .now = now, .hz = HZ, .now_us = now * 1000, .hystart = 1 };

	cubic_grow(c, w, &ack, packets);
}

static void reductions(void)
{
	struct cubic c = { 0 };

	CHECK(cubic_ssthresh(&c, 100) == 70 && c.last_max == 100);
	/* Fast convergence: 80 * 0.85. */
	CHECK(cubic_ssthresh(&c, 80) == 56 && c.last_max == 68);
	CHECK(cubic_ssthresh(&c, 2) == 2 && cubic_ssthresh(&c, 1) == 2);
}

/* W_max 100: the curve of RFC 9438 is at 70 at first, 95.6 after 2 s, 100 after 4.217 s, 102.3 after 6 s, 121.7 after 8 s. */
static void curve(void)
{
	const struct { u32 ms, at; } points[] = { { 0, 70 }, { 2000, 96 }, { 4217, 100 }, { 6000, 102 }, { 8000, 122 } };
	struct cubic c = { 0 };
	unsigned int at;

	c.last_max = 100;
	cubic_begin_epoch(&c, 70, 1, 0);
	for (at = 0; at < sizeof(points) / sizeof(points[0]); at++) {
		u32 on = cubic_curve(&c, points[at].ms, HZ);

		CHECK(on + 1 >= points[at].at && on <= points[at].at + 1);
	}
}

/* A flow of 100 packets and 100 ms follows its curve: back at 100 after 4.2 s. */
static void follows(void)
{
	struct cubic c = { 0 };
	struct window w = { .cwnd = 70, .ssthresh = 70, .clamp = ~0u };
	u32 now = 1000, round;

	cubic_reset(&c, 0, 0);
	c.last_max = 100;
	c.delay_min = 100000;
	for (round = 0; round < 42; round++, now += 100) {
		CHECK(w.cwnd <= 101);
		acked(&c, &w, now, w.cwnd / 2);
		acked(&c, &w, now + 50, w.cwnd / 2);
	}
	CHECK(w.cwnd >= 98);
	for (; round < 80; round++, now += 100) {
		acked(&c, &w, now, w.cwnd / 2);
		acked(&c, &w, now + 50, w.cwnd / 2);
	}
	CHECK(w.cwnd >= 115 && w.cwnd <= 125);
}

/* A window of 10 and 10 ms: as Reno with this beta, a packet for 15/8 windows. */
static void befriends_reno(void)
{
	struct cubic c = { 0 };
	struct window w = { .cwnd = 10, .ssthresh = 10, .clamp = ~0u };
	u32 now = 1000, packets = 0;

	cubic_reset(&c, 0, 0);
	c.last_max = 14;
	c.delay_min = 10000;
	while (w.cwnd < 12 && packets < 1000) {
		acked(&c, &w, now++, 1);
		packets++;
	}
	/* 18 packets (150 eighths) for the first of W_est, 18 for the next; then the window takes a half for each of its packets. */
	CHECK(packets >= 36 && packets <= 60);
}

static void opening(void)
{
	struct cubic c = { 0 };
	struct window w = { .cwnd = 100, .ssthresh = 50, .clamp = ~0u };

	cubic_reset(&c, 0, 0);
	c.delay_min = 1000;
	acked(&c, &w, 1000, 20);
	CHECK(c.cnt == 20 && w.cwnd == 101);
	/* Slow start stops at ssthresh, and never exceeds the clamp. */
	w = (struct window){ .cwnd = 10, .ssthresh = 15, .clamp = 12 };
	acked(&c, &w, 1001, 3);
	CHECK(w.cwnd == 12);
}

static void idle(void)
{
	struct cubic c = { 0 };

	c.epoch_start = 1000;
	cubic_after_idle(&c, 5000, 3000);
	CHECK(c.epoch_start == 3000);
	cubic_after_idle(&c, 5000, 1000);
	CHECK(c.epoch_start == 5000);
	c.epoch_start = 0;
	cubic_after_idle(&c, 5000, 1000);
	CHECK(c.epoch_start == 0);
}

/* A round of 20 acknowledgements `gap` us apart; answers whether slow start has ended. */
static int hystart(struct cubic *c, struct window *w, u32 *now_us, u32 rtt, u32 gap, int paced)
{
	struct cubic_ack ack = { .hz = HZ, .paced = paced, .hystart = 1, .pacing_rate = 1, .burst = 65536 };
	u32 at;

	for (at = 0; at < 20; at++) {
		*now_us += gap;
		ack.now = *now_us / 1000;
		ack.now_us = *now_us;
		ack.snd_una = c->round_end + !at;
		ack.snd_nxt = ack.snd_una + 100;
		cubic_measure(c, w, &ack, rtt);
	}
	return w->ssthresh == w->cwnd;
}

static void delay_ends_slow_start(void)
{
	/* Above an eighth more, between 4 and 16 ms. */
	const struct { u32 min, ends; } paths[] = { { 20000, 24000 }, { 80000, 90000 }, { 200000, 216000 } };
	unsigned int at;

	for (at = 0; at < sizeof(paths) / sizeof(paths[0]); at++) {
		struct window w = { .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
		struct cubic c;
		u32 now_us = 0;

		cubic_reset(&c, 0, 0);
		CHECK(!hystart(&c, &w, &now_us, paths[at].min, 3000, 0));
		CHECK(!hystart(&c, &w, &now_us, paths[at].ends, 3000, 0));
		CHECK(hystart(&c, &w, &now_us, paths[at].ends + 1, 3000, 0));
	}
}

static void a_train_ends_slow_start(void)
{
	/* 16 ms of RTT and 1 ms of cushion: 8.5 ms, or 17 ms paced. Nineteen gaps of 0.4, 0.5, 0.9 and 2.1 ms. */
	const struct { u32 gap; int paced, ends; } trains[] = {
		{ 400, 0, 0 }, { 500, 0, 1 }, { 800, 1, 0 }, { 900, 1, 1 }, { 2100, 0, 0 },
	};
	unsigned int at;

	for (at = 0; at < sizeof(trains) / sizeof(trains[0]); at++) {
		struct window w = { .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
		struct cubic c;
		u32 now_us = 0;

		cubic_reset(&c, 0, 0);
		CHECK(hystart(&c, &w, &now_us, 16000, trains[at].gap, trains[at].paced) == trains[at].ends);
		/* A small window is left alone, whatever the train. */
		w = (struct window){ .cwnd = 15, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
		cubic_reset(&c, 0, 0);
		CHECK(!hystart(&c, &w, &now_us, 16000, 500, 0));
	}
}

int main(void)
{
	roots();
	reductions();
	curve();
	follows();
	befriends_reno();
	opening();
	idle();
	delay_ends_slow_start();
	a_train_ends_slow_start();
	return failures != 0;
}
