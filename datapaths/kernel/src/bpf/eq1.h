/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Slow start by the room that the bottleneck hop reports: the kernel's `cubic:eq1=N`. For each packet acknowledged the
 * window grows by available queue capacity x increment / (arrival rate x flow count) packets, and not by one. Plain C without
 * a library: compiled for the kernel and, by the tests, natively.
 *
 * Source: Bhat, Haxhibeqiri, Moerman, Hoebeke, "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF",
 * equation (1). The paper prints no units; ours, as in core/cc/src/eq1.rs:
 *
 * - Room in packets, the arrival rate in packets per smoothed RTT; a fifth of the queue is not counted as room.
 * - The quotient is one at most: an increment of 1 never exceeds slow start.
 * - A round trip grows by the flow's share of the room at its start, times the increment; once only where the link is half busy.
 * - A hop without room whose queue would take longer than a round trip does is not believed: it is as without a record then.
 * - Without a fresh record it is slow start; one that had filled the room before ends instead, where it is.
 * - Slow start ends where a whole round trip had no room.
 * - After it it is CUBIC, whose window and curve stand still while there is no room. In each round trip without room the window gives way by
 *   5 %, three times in a row at most, so that flows that come later get their part. Losses are CUBIC's.
 *
 * No HyStart: it would end slow start first.
 */
#ifndef PACELINE_EQ1_H
#define PACELINE_EQ1_H

#include "cubic.h"
#include "telemetry.h"

/* One packet. */
#define EQ1_ONE 65536ull
/* A fifth of the queue does not count as room. Our choice: a report is a round trip old. */
#define EQ1_RESERVE 5u
/* The most that is counted, of room and of its share (our choices): no product overflows, and no queue is as long. */
#define EQ1_ROOM_MAX 0xffffffu
#define EQ1_SHARE_MAX 0x3fffu

/* What a window keeps after a round trip without room, in hundredths, and after how many in a row it gives way. As in eq1.rs. */
#define EQ1_KEPT 95u
#define EQ1_GIVES_WAY 3u

struct eq1 {
	/* The round trip ends when everything below has been acknowledged. */
	u32 round_end;
	/* What it may still grow by, and what it has grown by beyond whole packets, in 1/65536 packets. */
	u32 budget;
	u32 rest;
	/* The window stands still; since when its curve does, in ticks. */
	u32 held;
	/* The round trip without room ends when everything below has been acknowledged. */
	u32 full_end;
	/* There has been no room since then; how often the window has given way since. */
	u8 full;
	u8 gave_way;
	u8 holds;
	u8 in_round;
	/* The last fresh record left no room. */
	u8 filled;
	/* The increment; up to 4. */
	u8 inc;
};

arithmetic void eq1_reset(struct eq1 *e, u8 inc)
{
	e->round_end = 0;
	e->budget = 0;
	e->rest = 0;
	e->held = 0;
	e->full_end = 0;
	e->full = 0;
	e->gave_way = 0;
	e->holds = 0;
	e->in_round = 0;
	e->filled = 0;
	e->inc = inc;
}

/* A', in packets. Where the queue's limit is not known, it is taken to be empty. */
arithmetic u32 eq1_room(const struct pl_telemetry *r)
{
	u32 limit = r->limit_pkts == TELEMETRY_UNKNOWN ? r->avail_pkts : r->limit_pkts, reserve = limit / EQ1_RESERVE;

	return r->avail_pkts > reserve ? smaller(r->avail_pkts - reserve, EQ1_ROOM_MAX) : 0;
}

/* The hop says what room it has. */
arithmetic int eq1_knows(const struct pl_telemetry *r, const struct telemetry_flow *f)
{
	if (!telemetry_fresh(r, f->now_ns) || r->avail_pkts == TELEMETRY_UNKNOWN)
		return 0;
	return eq1_room(r) || telemetry_queue_us(r) <= f->srtt_us + TELEMETRY_TOO_LONG_US;
}

/* Packets that arrive at the hop in a round trip, of all flows, in millionths; where it does not say, as many windows as it has flows. */
arithmetic u64 eq1_load(const struct pl_telemetry *r, const struct telemetry_flow *f, u32 cwnd)
{
	u64 load = r->rate_pps == TELEMETRY_UNKNOWN ? (u64)cwnd * telemetry_flows(r) * 1000000 : (u64)r->rate_pps * f->srtt_us;

	return load > 1000000 ? load : 1000000;
}

/* The link carries half of what it can, or where that is not known, packets wait. */
arithmetic int eq1_is_busy(const struct pl_telemetry *r, const struct telemetry_flow *f, u64 load)
{
	if (!r->drain_us || r->limit_pkts == TELEMETRY_UNKNOWN || !f->min_rtt_us)
		return r->limit_pkts == TELEMETRY_UNKNOWN || r->avail_pkts < r->limit_pkts;
	return 2 * (load / 1000000) >= (u64)r->limit_pkts * f->min_rtt_us / r->drain_us;
}

arithmetic void eq1_begin_round(struct eq1 *e, const struct pl_telemetry *r, const struct telemetry_flow *f,
				const struct cubic_ack *ack, u64 load)
{
	u32 share = smaller(eq1_room(r) / telemetry_flows(r), EQ1_SHARE_MAX), inc = e->inc;

	if (eq1_is_busy(r, f, load))
		inc = smaller(inc, 1);
	e->in_round = 1;
	e->round_end = ack->snd_nxt;
	e->budget = (u32)(inc * share * EQ1_ONE);
}

/* There is no room: whether there was none for a whole round trip. */
arithmetic int eq1_is_full(struct eq1 *e, const struct cubic_ack *ack)
{
	int over = e->full && !after(e->full_end, ack->snd_una);

	if (over || !e->full)
		e->full_end = ack->snd_nxt;
	e->full = 1;
	return over;
}

arithmetic void eq1_has_room(struct eq1 *e)
{
	e->full = 0;
	e->gave_way = 0;
}

/* What a packet acknowledged opens the window by, in 1/65536 packets. */
arithmetic u32 eq1_gain(const struct eq1 *e, const struct pl_telemetry *r, u64 load)
{
	u64 gain = eq1_room(r) * (EQ1_ONE * 1000000) / load / telemetry_flows(r);

	return e->inc * (u32)(gain < EQ1_ONE ? gain : EQ1_ONE);
}

/* Slow start with a fresh record. */
arithmetic void eq1_open(struct eq1 *e, struct window *w, const struct pl_telemetry *r, const struct telemetry_flow *f,
			 const struct cubic_ack *ack, u32 acked)
{
	u64 load = eq1_load(r, f, w->cwnd), grown;

	e->filled = !eq1_room(r);
	if (!e->filled) {
		eq1_has_room(e);
	} else if (eq1_is_full(e, ack)) {
		w->ssthresh = w->cwnd;
		return;
	}
	if (!e->in_round || !after(e->round_end, ack->snd_una))
		eq1_begin_round(e, r, f, ack, load);
	grown = (u64)eq1_gain(e, r, load) * acked;
	if (grown > e->budget)
		grown = e->budget;
	e->budget -= (u32)grown;
	grown += e->rest;
	e->rest = (u32)(grown & (EQ1_ONE - 1));
	w->cwnd = smaller(smaller(w->cwnd + (u32)(grown / EQ1_ONE), w->ssthresh), w->clamp);
}

/* Slow start without one: that of CUBIC, but where the room was filled. */
arithmetic void eq1_blind(struct eq1 *e, struct window *w)
{
	e->in_round = 0;
	e->rest = 0;
	eq1_has_room(e);
	if (e->filled)
		w->ssthresh = w->cwnd;
	e->filled = 0;
}

/* There is no room: the curve stands still with the window, which gives way after a round trip. */
arithmetic void eq1_hold(struct eq1 *e, struct cubic *c, struct window *w, const struct cubic_ack *ack)
{
	u64 left;

	if (e->holds)
		cubic_after_idle(c, ack->now, e->held);
	e->holds = 1;
	e->held = ack->now;
	if (!eq1_is_full(e, ack) || e->gave_way == EQ1_GIVES_WAY)
		return;
	e->gave_way++;
	left = (((u64)w->cwnd << 16) + (e->rest & (EQ1_ONE - 1))) * EQ1_KEPT / 100;
	c->epoch_start = 0;
	c->last_max = w->cwnd;
	e->rest = (u32)(left & (EQ1_ONE - 1));
	w->cwnd = smaller(larger((u32)(left >> 16), WINDOW_MIN), w->cwnd);
	w->ssthresh = w->cwnd;
}

/* Packets were lost: answers ssthresh. */
arithmetic u32 eq1_reduce(struct eq1 *e, struct cubic *c, u32 cwnd)
{
	eq1_has_room(e);
	e->rest = 0;
	return cubic_ssthresh(c, cwnd);
}

/* The retransmission timer has fired: what filled the room is lost. */
arithmetic void eq1_timeout(struct eq1 *e, struct cubic *c, u32 now_us, u32 snd_nxt)
{
	eq1_reset(e, e->inc);
	cubic_reset(c, now_us, snd_nxt);
}

/* Grows the window by an acknowledgement of `acked` packets, where the flow uses its window. */
arithmetic void eq1_grow(struct eq1 *e, struct cubic *c, struct window *w, const struct pl_telemetry *r,
			 const struct telemetry_flow *f, const struct cubic_ack *ack, u32 acked)
{
	if (in_slow_start(w)) {
		e->holds = 0;
		if (eq1_knows(r, f)) {
			eq1_open(e, w, r, f, ack, acked);
			return;
		}
		eq1_blind(e, w);
	} else if (eq1_knows(r, f) && !eq1_room(r)) {
		eq1_hold(e, c, w, ack);
		return;
	}
	eq1_has_room(e);
	e->holds = 0;
	cubic_grow(c, w, ack, acked);
}

#endif
