/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DCTCP in integers, with the rounding of Linux. Plain C without a library: compiled for the kernel and, by the tests,
 * natively.
 *
 * Source: RFC 8257; the units, the rounding and the answer to losses are those of Linux 6.18 net/ipv4/tcp_dctcp.c and
 * tcp_dctcp.h.
 *
 * Differs from the RFC as Linux does: alpha starts at 1; it counts packets, in 1/1024; below 16/1024 it decays to 0 at once;
 * a change of the mark is acknowledged at once, not only what was delayed before it.
 */
#ifndef PACELINE_DCTCP_H
#define PACELINE_DCTCP_H

#include "window.h"

/* An alpha of 1. DCTCP_MAX_ALPHA. */
#define DCTCP_ONE_SHIFT 10
#define DCTCP_ONE (1u << DCTCP_ONE_SHIFT)
/* g = 1/16 (RFC 8257, section 4.2). dctcp_shift_g. */
#define DCTCP_GAIN_SHIFT 4

struct dctcp {
	/* The share of marked packets, averaged. */
	u32 alpha;
	/* The window of data under observation: what ends it, and the socket's counters when it began. */
	u32 window_end;
	u32 delivered;
	u32 delivered_ce;
	/* The window before the last reduction, for undo. */
	u32 loss_cwnd;
	/* The receiver's half: what it expected before the last packet, and whether that packet was marked. */
	u32 prior_rcv_nxt;
	u32 ce;
};

/* The socket's counters: sequence numbers, and packets delivered so far, marked ones among them. */
struct dctcp_counts {
	u32 snd_una;
	u32 snd_nxt;
	u32 delivered;
	u32 delivered_ce;
};

arithmetic void dctcp_observe(struct dctcp *d, const struct dctcp_counts *counts)
{
	d->window_end = counts->snd_nxt;
	d->delivered = counts->delivered;
	d->delivered_ce = counts->delivered_ce;
}

/* A connection begins; `alpha` in 1/1024. */
arithmetic void dctcp_reset(struct dctcp *d, const struct dctcp_counts *counts, u32 alpha, u32 rcv_nxt)
{
	d->alpha = smaller(alpha, DCTCP_ONE);
	d->loss_cwnd = 0;
	d->prior_rcv_nxt = rcv_nxt;
	d->ce = 0;
	dctcp_observe(d, counts);
}

/* alpha after a window of data of which `marked` of `acked` packets were marked (RFC 8257, section 3.3, step 5). */
arithmetic u32 dctcp_alpha(u32 alpha, u32 marked, u32 acked)
{
	u32 decay = alpha >> DCTCP_GAIN_SHIFT;

	alpha -= decay ? decay : alpha;
	alpha += (marked << (DCTCP_ONE_SHIFT - DCTCP_GAIN_SHIFT)) / larger(acked, 1);
	return smaller(alpha, DCTCP_ONE);
}

/* An acknowledgement has arrived. */
arithmetic void dctcp_on_ack(struct dctcp *d, const struct dctcp_counts *counts)
{
	if (after(d->window_end, counts->snd_una))
		return;
	d->alpha = dctcp_alpha(d->alpha, counts->delivered_ce - d->delivered_ce, counts->delivered - d->delivered);
	dctcp_observe(d, counts);
}

/* ssthresh after marks (RFC 8257, section 3.3, step 9). */
arithmetic u32 dctcp_ssthresh(struct dctcp *d, u32 cwnd)
{
	d->loss_cwnd = cwnd;
	return larger(cwnd - (cwnd * d->alpha >> (DCTCP_ONE_SHIFT + 1)), WINDOW_MIN);
}

/* ssthresh after a loss, whatever alpha is (RFC 8257, section 3.5). */
arithmetic u32 dctcp_ssthresh_after_loss(struct dctcp *d, u32 cwnd)
{
	d->loss_cwnd = cwnd;
	return reno_ssthresh(cwnd);
}

/* What a receiver acknowledges when a packet of data arrives. */
struct dctcp_echo {
	/* Before it: what arrived with another mark, up to this sequence number, under that mark. */
	u8 acknowledge_before;
	u8 ce_before;
	u32 up_to;
	/* The packet itself, at once. */
	u8 acknowledge_now;
};

/*
 * The receiver's half (RFC 8257, section 3.2): so that the sender can count marked packets by one bit, all packets that an
 * acknowledgement covers have the same mark. `delayed` says that an acknowledgement is being delayed.
 */
arithmetic struct dctcp_echo dctcp_receive(struct dctcp *d, u32 ce, u32 rcv_nxt, int delayed)
{
	const int changed = ce != d->ce;
	const struct dctcp_echo echo = {
		.acknowledge_before = changed && delayed,
		.ce_before = (u8)d->ce,
		.up_to = d->prior_rcv_nxt,
		.acknowledge_now = changed,
	};

	d->prior_rcv_nxt = rcv_nxt;
	d->ce = ce;
	return echo;
}

#endif
