/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* DCTCP's arithmetic, with numbers worked by hand from RFC 8257 and Linux. Ends with 0 when all holds; says what does not. */
#include "check.h"

#include "../../src/bpf/dctcp.h"

_Static_assert(sizeof(struct dctcp) <= 104, "it fits into the socket");

static void alphas(void)
{
	const u32 decay[] = { 960, 900, 844, 792 };
	u32 alpha = DCTCP_ONE, at;

	for (at = 0; at < 200; at++) {
		alpha = dctcp_alpha(alpha, 0, 10);
		CHECK(at >= 4 || alpha == decay[at]);
		CHECK(alpha == 0 || alpha >= 15);
	}
	CHECK(alpha == 0);
	/* All marked: a sixteenth more, and never above one. */
	CHECK(dctcp_alpha(0, 10, 10) == 64);
	CHECK(dctcp_alpha(DCTCP_ONE, 10, 10) == DCTCP_ONE);
	CHECK(dctcp_alpha(0, 1, 1000) == 0 && dctcp_alpha(0, 16, 1000) == 1);
	/* Marks without packets: no division by zero. */
	CHECK(dctcp_alpha(0, 0, 0) == 0);
}

static void reductions(void)
{
	struct dctcp d = { .alpha = 512 };

	CHECK(dctcp_ssthresh(&d, 100) == 75 && d.loss_cwnd == 100);
	d.alpha = DCTCP_ONE;
	CHECK(dctcp_ssthresh(&d, 100) == 50 && dctcp_ssthresh(&d, 3) == 2 && dctcp_ssthresh(&d, 1) == 2);
	d.alpha = 1;
	CHECK(dctcp_ssthresh(&d, 100) == 100);
	d.alpha = 0;
	CHECK(dctcp_ssthresh_after_loss(&d, 100) == 50 && dctcp_ssthresh_after_loss(&d, 3) == 2);
}

/* alpha moves once a window of data. */
static void windows(void)
{
	struct dctcp_counts counts = { .snd_una = -100u, .snd_nxt = 900 };
	struct dctcp d;

	dctcp_reset(&d, &counts, 0, 0);
	for (; counts.snd_una != 900; counts.snd_una += 100) {
		CHECK(d.alpha == 0 && d.window_end == 900);
		dctcp_on_ack(&d, &counts);
		counts.delivered++;
		counts.delivered_ce += counts.snd_una == 0;
	}
	counts.snd_nxt = 2000;
	dctcp_on_ack(&d, &counts);
	/* One of ten: 64 / 10. */
	CHECK(d.alpha == 6 && d.window_end == 2000 && d.delivered == 10 && d.delivered_ce == 1);
}

/*
 * Packets of 100 bytes, N N C C N, and every second one acknowledged otherwise: after two; for the third at once; the fourth
 * waits; before the fifth what was held is acknowledged as marked, up to 400, and the fifth at once.
 */
static void receiver(void)
{
	struct dctcp d = { 0 };
	struct dctcp_echo echo;

	echo = dctcp_receive(&d, 0, 100, 0);
	CHECK(!echo.acknowledge_before && !echo.acknowledge_now);
	echo = dctcp_receive(&d, 0, 200, 1);
	CHECK(!echo.acknowledge_before && !echo.acknowledge_now);
	echo = dctcp_receive(&d, 1, 300, 0);
	CHECK(!echo.acknowledge_before && echo.acknowledge_now);
	echo = dctcp_receive(&d, 1, 400, 0);
	CHECK(!echo.acknowledge_before && !echo.acknowledge_now);
	echo = dctcp_receive(&d, 0, 500, 1);
	CHECK(echo.acknowledge_before && echo.up_to == 400 && echo.ce_before == 1 && echo.acknowledge_now);
	CHECK(d.ce == 0 && d.prior_rcv_nxt == 500);
}

int main(void)
{
	alphas();
	reductions();
	windows();
	receiver();
	return failures != 0;
}
