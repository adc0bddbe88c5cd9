/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CUBIC in integers, with the rounding of Linux, so that its window is that of the kernel's own. Plain C without a library:
 * compiled for the kernel and, by the tests, natively.
 *
 * Source: RFC 9438; Ha and Rhee, "Taming the elephants: New TCP slow start" (Computer Networks 2011) for HyStart; the units,
 * the rounding and the order of steps are those of Linux 6.18 net/ipv4/tcp_cubic.c.
 *
 *	here		RFC 9438
 *	last_max	W_max, after fast convergence
 *	k		K, in 1/1024 s
 *	origin		the plateau: W_max, or the window where that is larger
 *	reno_cwnd	W_est, the window that Reno would have
 *
 * Differs from the RFC as Linux does: W_est always grows by 3 (1 - beta) / (1 + beta) a round trip (section 4.3 goes on with 1
 * above cwnd_prior); before the first loss the window grows by at least a packet for 20 acknowledged; the window is whole
 * packets, and the curve is read once a tick at most; a timeout clears everything.
 *
 * Windows are in packets. Times of the curve are in ticks, of which `hz` make a second: jiffies in the kernel. Those of
 * HyStart and all RTTs are in microseconds. All of them wrap around.
 */
#ifndef PACELINE_CUBIC_H
#define PACELINE_CUBIC_H

#include "window.h"

/* beta = 717/1024 (RFC 9438, section 4.6: 0.7). */
#define CUBIC_BETA 717u
#define CUBIC_BETA_ONE 1024u
/* C = 410/1024 packets/s^3, counted in 1/1024 s as the curve's time: shift by 10 for C and 30 for the time (section 5.1: 0.4). */
#define CUBIC_C 410ull
#define CUBIC_SHIFT 40
#define CUBIC_TIME_SHIFT 10
/* Eight times the packets acknowledged, by window, for a packet of W_est: 8 (1 + beta) / 3 / (1 - beta), rounded down each time. */
#define CUBIC_RENO_EIGHTHS (8 * (CUBIC_BETA_ONE + CUBIC_BETA) / 3 / (CUBIC_BETA_ONE - CUBIC_BETA))
/* Acknowledged packets for one of the window, before the first loss at most and in any case at least. bictcp_update. */
#define CUBIC_OPENING 20u
#define CUBIC_FASTEST 2u
/* The same where the curve is not above the window: windows of them. */
#define CUBIC_FLAT 100u
/* While the window stands, the curve is read again after more than 1/32 s. */
#define CUBIC_READ_HZ 32u

/* hystart_low_window: smaller windows are left alone. */
#define HYSTART_LOW_WINDOW 16u
/* HYSTART_MIN_SAMPLES: RTTs of a round before their smallest may end slow start. */
#define HYSTART_SAMPLES 8
/* HYSTART_DELAY_MIN and HYSTART_DELAY_MAX: bounds of the rise of the RTT that is taken for a queue, an eighth between them. */
#define HYSTART_RISE_MIN 4000u
#define HYSTART_RISE_MAX 16000u
/* hystart_ack_delta_us: acknowledgements nearer than this belong to one train. */
#define HYSTART_TRAIN_GAP 2000
/* hystart_ack_delay: the train may be longer by the time of four of the largest bursts at the pacing rate, at most by this. */
#define HYSTART_CUSHION_BURSTS 4
#define HYSTART_CUSHION_MAX 1000u

struct cubic {
	/* A packet of window for this many acknowledged. */
	u32 cnt;
	u32 last_max;
	/* The window and the time when the curve was last read. */
	u32 last_cwnd;
	u32 last_time;
	u32 origin;
	u32 k;
	/* The smallest RTT; 0 before one. */
	u32 delay_min;
	/* When this stage of congestion avoidance began; 0 outside of one. */
	u32 epoch_start;
	/* Packets acknowledged towards the next of reno_cwnd. */
	u32 ack_cnt;
	u32 reno_cwnd;
	/* HyStart: RTTs of this round, 8 at most; whether it has ended slow start. */
	u8 samples;
	u8 found;
	/* When the round began, what ends it, the last acknowledgement of its train, its smallest RTT. */
	u32 round_start;
	u32 round_end;
	u32 last_ack;
	u32 round_rtt;
};

/* Where a flow stands when an acknowledgement arrives. */
struct cubic_ack {
	/* In ticks, and how many make a second. */
	u32 now;
	u32 hz;
	u32 now_us;
	u32 snd_una;
	u32 snd_nxt;
	/* In bytes a second, 0 where it is not known; what the flow sends at once, in bytes. */
	u64 pacing_rate;
	u32 burst;
	/* Something spreads the packets at that rate. */
	u8 paced;
	/* HyStart is on. */
	u8 hystart;
};

/*
 * Linux cubic_root: an estimate of the cube root from the number's first six bits, then one step of Newton's method, correct
 * to some 0.2 %. The same K needs the same estimates: these numbers are 64 times the cube root of their index, refined
 * by hand there, so that no formula gives them.
 */
static const u8 cubic_estimates[64] = {
	0,   54,  54,  54,  118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156,
	157, 161, 164, 168, 170, 173, 176, 179, 181, 185, 187, 190, 192, 194, 197, 199,
	200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227, 229,
	231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
};

/* Bits up to the highest that is set. Steps of its own: clang 14 cannot count leading zeros for BPF. */
arithmetic u32 bits_of(u64 a)
{
	u32 bits = 0, step;

	for (step = 32; step; step >>= 1) {
		if (a >> step) {
			a >>= step;
			bits += step;
		}
	}
	return bits + (a != 0);
}

arithmetic u32 cubic_root(u64 a)
{
	u32 bits, thirds, x;

	if (a < 64)
		return (cubic_estimates[a & 63] + 35u) >> 6;
	bits = bits_of(a);
	/* A third of the bits, less one: what is left in front has three to six. */
	thirds = (bits * 84 >> 8) - 1;
	x = ((cubic_estimates[(a >> (3 * thirds)) & 63] + 10u) << thirds) >> 6;
	/* (2 x + a / x^2) / 3, with x (x - 1) for x^2 and 341/1024 for a third. */
	x = 2 * x + (u32)(a / ((u64)x * (x - 1)));
	return x * 341 >> 10;
}

/* Ticks in `us` microseconds, rounded up. Linux usecs_to_jiffies. */
arithmetic u32 ticks_of(u32 us, u32 hz)
{
	return (u32)(((u64)us * hz + 999999) / 1000000);
}

arithmetic void cubic_hystart_round(struct cubic *c, u32 now_us, u32 snd_nxt)
{
	c->round_start = now_us;
	c->last_ack = now_us;
	c->round_end = snd_nxt;
	c->round_rtt = ~0u;
	c->samples = 0;
}

/* A connection begins, or its retransmission timer has fired: nothing that was measured counts any more. */
arithmetic void cubic_reset(struct cubic *c, u32 now_us, u32 snd_nxt)
{
	c->cnt = 0;
	c->last_max = 0;
	c->last_cwnd = 0;
	c->last_time = 0;
	c->origin = 0;
	c->k = 0;
	c->delay_min = 0;
	c->epoch_start = 0;
	c->ack_cnt = 0;
	c->reno_cwnd = 0;
	c->found = 0;
	cubic_hystart_round(c, now_us, snd_nxt);
}

/*
 * The flow sends again after a silence, `last_sent` being when it sent before (ticks): time in which the window could not grow
 * does not count (RFC 9438, section 4.2).
 */
arithmetic void cubic_after_idle(struct cubic *c, u32 now, u32 last_sent)
{
	if (!c->epoch_start || !after(now, last_sent))
		return;
	c->epoch_start += now - last_sent;
	if (after(c->epoch_start, now))
		c->epoch_start = now;
}

/* Packets were lost, or echo a mark: ends the epoch, and answers ssthresh. RFC 9438, sections 4.6 and 4.7. */
arithmetic u32 cubic_ssthresh(struct cubic *c, u32 cwnd)
{
	c->epoch_start = 0;
	if (cwnd < c->last_max)
		c->last_max = cwnd * (CUBIC_BETA_ONE + CUBIC_BETA) / (2 * CUBIC_BETA_ONE);
	else
		c->last_max = cwnd;
	return larger(cwnd * CUBIC_BETA / CUBIC_BETA_ONE, WINDOW_MIN);
}

/* Where the curve is `ticks` after the epoch's start (RFC 9438, equation 1). */
arithmetic u32 cubic_curve(const struct cubic *c, u64 ticks, u32 hz)
{
	u64 t = (ticks << CUBIC_TIME_SHIFT) / hz;
	u64 from_plateau = t < c->k ? c->k - t : t - c->k;
	u32 delta = (u32)(CUBIC_C * from_plateau * from_plateau * from_plateau >> CUBIC_SHIFT);

	return t < c->k ? c->origin - delta : c->origin + delta;
}

arithmetic void cubic_begin_epoch(struct cubic *c, u32 cwnd, u32 now, u32 acked)
{
	c->epoch_start = now;
	c->ack_cnt = acked;
	c->reno_cwnd = cwnd;
	c->k = 0;
	c->origin = cwnd;
	if (c->last_max > cwnd) {
		/* RFC 9438, equation 2. */
		c->k = cubic_root((1ull << CUBIC_SHIFT) / CUBIC_C * (c->last_max - cwnd));
		c->origin = c->last_max;
	}
}

/* The pace of growth by the curve, read one smallest RTT ahead. */
arithmetic void cubic_read_curve(struct cubic *c, u32 cwnd, u32 now, u32 hz, u32 acked)
{
	u32 target;

	c->last_cwnd = cwnd;
	c->last_time = now;
	if (!c->epoch_start)
		cubic_begin_epoch(c, cwnd, now, acked);
	target = cubic_curve(c, (u64)(s32)(now - c->epoch_start) + ticks_of(c->delay_min, hz), hz);
	c->cnt = target > cwnd ? cwnd / (target - cwnd) : CUBIC_FLAT * cwnd;
	if (!c->last_max)
		c->cnt = smaller(c->cnt, CUBIC_OPENING);
}

/* Never slower than Reno with this beta (RFC 9438, section 4.3). */
arithmetic void cubic_befriend_reno(struct cubic *c, u32 cwnd)
{
	u32 per_packet = (cwnd * CUBIC_RENO_EIGHTHS) >> 3;

	if (c->ack_cnt > per_packet && per_packet) {
		u32 packets = (c->ack_cnt - 1) / per_packet;

		c->ack_cnt -= packets * per_packet;
		c->reno_cwnd += packets;
	}
	if (c->reno_cwnd > cwnd)
		c->cnt = smaller(c->cnt, cwnd / (c->reno_cwnd - cwnd));
}

/* Finds how many packets are to be acknowledged for one of the window. */
arithmetic void cubic_update(struct cubic *c, u32 cwnd, u32 now, u32 hz, u32 acked)
{
	c->ack_cnt += acked;
	if (c->last_cwnd == cwnd && (s32)(now - c->last_time) <= (s32)(hz / CUBIC_READ_HZ))
		return;
	if (!c->epoch_start || now != c->last_time)
		cubic_read_curve(c, cwnd, now, hz, acked);
	cubic_befriend_reno(c, cwnd);
	c->cnt = larger(c->cnt, CUBIC_FASTEST);
}

/* Grows the window by an acknowledgement of `acked` packets, where the flow uses its window. */
arithmetic void cubic_grow(struct cubic *c, struct window *w, const struct cubic_ack *ack, u32 acked)
{
	if (in_slow_start(w)) {
		acked = slow_start(w, acked);
		if (!acked)
			return;
	}
	cubic_update(c, w->cwnd, ack->now, ack->hz, acked);
	additive_increase(w, c->cnt, acked);
}

/* In microseconds. */
arithmetic u32 cubic_cushion(const struct cubic_ack *ack)
{
	u64 us;

	if (!ack->pacing_rate)
		return 0;
	us = (u64)ack->burst * HYSTART_CUSHION_BURSTS * 1000000 / ack->pacing_rate;
	return us < HYSTART_CUSHION_MAX ? (u32)us : HYSTART_CUSHION_MAX;
}

/* Whether the acknowledgements of this round have come one after another for longer than the path without queue explains. */
arithmetic int cubic_train_is_long(struct cubic *c, const struct cubic_ack *ack)
{
	u32 limit;

	if ((s32)(ack->now_us - c->last_ack) > HYSTART_TRAIN_GAP)
		return 0;
	c->last_ack = ack->now_us;
	limit = c->delay_min + cubic_cushion(ack);
	/* Pacing by itself spreads a window over half a round trip. */
	if (!ack->paced)
		limit >>= 1;
	return (s32)(ack->now_us - c->round_start) > (s32)limit;
}

/* Whether the smallest RTT of this round shows a queue. */
arithmetic int cubic_delay_has_risen(struct cubic *c, u32 rtt)
{
	u32 rise = c->delay_min >> 3;

	c->round_rtt = smaller(c->round_rtt, rtt);
	if (c->samples < HYSTART_SAMPLES) {
		c->samples++;
		return 0;
	}
	rise = smaller(larger(rise, HYSTART_RISE_MIN), HYSTART_RISE_MAX);
	return c->round_rtt > c->delay_min + rise;
}

/*
 * An acknowledgement gave an RTT (microseconds, negative where it gave none), before the window grows by it. Slow start ends,
 * by ssthresh, where HyStart finds the window large enough.
 */
arithmetic void cubic_measure(struct cubic *c, struct window *w, const struct cubic_ack *ack, s32 rtt_us)
{
	u32 rtt = rtt_us > 0 ? (u32)rtt_us : 1;
	int found;

	/* What is measured within a second of a reduction may hold the repair. */
	if (rtt_us < 0 || (c->epoch_start && (s32)(ack->now - c->epoch_start) < (s32)ack->hz))
		return;
	if (!c->delay_min || c->delay_min > rtt)
		c->delay_min = rtt;
	if (c->found || !in_slow_start(w) || !ack->hystart)
		return;
	if (after(ack->snd_una, c->round_end))
		cubic_hystart_round(c, ack->now_us, ack->snd_nxt);
	if (w->cwnd < HYSTART_LOW_WINDOW)
		return;
	found = cubic_train_is_long(c, ack);
	found |= cubic_delay_has_risen(c, rtt);
	if (found) {
		c->found = 1;
		w->ssthresh = w->cwnd;
	}
}

#endif
