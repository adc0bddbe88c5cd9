/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The arithmetic of the module that an agent steers. Ends with 0 when all holds; says what does not. */
#include "check.h"

#include "../../src/bpf/agent.h"

/* One loss of a window of 100, ssthresh 70: of the 99 packets that arrive 70 leave others, never more than two at a time. */
static void reduction(void)
{
	struct glide glide = { .target = 70, .flight = 100 };
	u32 in_flight = 98, arrived, most = 0;

	for (arrived = 1; arrived <= 99; arrived++) {
		u32 window, sent;

		glide.delivered = arrived;
		window = glide_window(&glide, in_flight, 1, 0);
		CHECK(window >= in_flight);
		sent = window - in_flight;
		most = larger(most, sent);
		glide.out += sent;
		in_flight += sent;
		in_flight -= arrived < 99;
	}
	CHECK(glide.out >= 69 && glide.out <= 71);
	CHECK(most <= 2);
	CHECK(in_flight >= 69 && in_flight <= 71);
}

/* Far below the target, packets leave as they arrive, and one more for good acknowledgements. */
static void growth(void)
{
	struct glide glide = { .target = 70, .flight = 100, .delivered = 10, .out = 10 };

	CHECK(glide_window(&glide, 20, 2, 0) == 22);
	CHECK(glide_window(&glide, 20, 2, 1) == 23);
	CHECK(glide_window(&glide, 69, 5, 1) == 70);
	/* The fast retransmit; nothing in flight. */
	glide.out = 0;
	glide.delivered = 0;
	CHECK(glide_window(&glide, 98, 0, 0) == 99);
	glide.out = 50;
	CHECK(glide_window(&glide, 0, 0, 0) == 1);
	/* A window that was nothing, and counters that went around. */
	glide = (struct glide){ .delivered = 1, .out = 3 };
	CHECK(glide_window(&glide, 5, 1, 1) == 5);
}

static void answers(void)
{
	struct answer answer = { .window = 50, .delivered = 1000 };

	CHECK(answered_window(&answer, 1010, ~0u) == 50);
	CHECK(answered_window(&answer, 1010, 20) == 20);
	answer.flags = ANSWER_FOLLOWS;
	CHECK(answered_window(&answer, 1010, ~0u) == 60);
	/* It at most doubles, and what was delivered before the answer does not count. */
	CHECK(answered_window(&answer, 5000, ~0u) == 100);
	CHECK(answered_window(&answer, 990, ~0u) == 50);
	/* A budget: what was delivered since makes no room. */
	answer.flags = ANSWER_BUDGET;
	CHECK(answered_window(&answer, 1010, ~0u) == 40);
	CHECK(answered_window(&answer, 5000, ~0u) == 1);
	CHECK(answered_window(&answer, 990, ~0u) == 50);
	answer.flags = ANSWER_FOLLOWS;
	/* Whatever the map holds, the flow lives, and the kernel's send buffer does not overflow. */
	answer.window = 0;
	CHECK(answered_window(&answer, 5000, ~0u) == 1);
	answer.window = ~0u;
	CHECK(answered_window(&answer, 5000, ~0u) == AGENT_WINDOW_MAX);
	CHECK(answered_window(&answer, 5000, 0) == 1);
}

static void rates(void)
{
	/* 100 packets of 1000 bytes in 10 ms are 10 MB/s. */
	CHECK(usual_rate(100, 100, 1000, 80000) == 12000000);
	CHECK(usual_rate(100, SSTHRESH_INFINITE, 1000, 80000) == 20000000);
	CHECK(usual_rate(100, 100, 1000, 0) == 0);
	CHECK(usual_rate(AGENT_WINDOW_MAX, 0, 65535, 8) > 0);
}

int main(void)
{
	reduction();
	growth();
	answers();
	rates();
	return failures != 0;
}
