/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the hops of a flow's path say of it, as user space writes it for the kernel, and what a loss is by that: of the medium,
 * or congestion. Plain C without a library: compiled for the kernel and, by the tests, natively.
 *
 * Source: "Adaptive TCP by in-band network telemetry and eBPF", in which a loss of the lossy medium is known by telemetry and
 * not answered as congestion. How a loss is decided on, when a record counts, and the guards are ours: the paper does not say.
 *
 * Without the guards a false "medium" would take congestion control away:
 *	G1	a queue stands that is as long as the bottleneck's: congestion
 *	G2	a second timeout in a row: congestion
 *	G3	many losses of the medium in a row: one of them counts as congestion
 *	G4	the hop's queue has next to no room, so that it may have dropped: congestion
 *	G5	round trips are longer than the hop's queue explains, which lies or is not the one that is full: congestion
 */
#ifndef PACELINE_TELEMETRY_H
#define PACELINE_TELEMETRY_H

#include "window.h"

/* A number that is not known. */
#define TELEMETRY_UNKNOWN (~0u)
/* Whatever a record says, it is stale after half a second: as long as an agent may be silent (agent.h). */
#define TELEMETRY_LONGEST_NS 500000000ull
/* Reports in a row before the cause of a loss is believed. Our choice: the first gaps may be older than the flow. */
#define TELEMETRY_REPORTS 3u
/* G1, in microseconds, where the hop does not say how long its queue takes to drain. Our choice: 60 packets at 14 Mbit/s. */
#define TELEMETRY_DRAIN_US 50000u
/* G3: this many losses of the medium in a row are spared, the next is congestion. Our choice, as in core/cc/src/cubic_medium.rs. */
#define TELEMETRY_STREAK 128u
/* In a row means within this many smoothed RTTs of each other. Our choice: what congestion there was has drained. */
#define TELEMETRY_STREAK_RTTS 4u

/*
 * G4, in tenths of a packet: with room for less than this, or than a tenth of its limit, a queue may have dropped; with room for half of
 * it where the limit is below 20 packets. As in core/cc/src/path_report.rs.
 */
#define TELEMETRY_SCARCE 40u
#define TELEMETRY_SHORT_QUEUE 20u

/* G5: a queue explains round trips that are this much longer, and by twice what it takes to drain. As in core/cc/src/doubt.rs. */
#define TELEMETRY_UNEXPLAINED_US 10000u
/* A queue takes no longer than a round trip, and this. As there. */
#define TELEMETRY_TOO_LONG_US 4000u

/*
 * Round trips that were longer than the smallest for this long, and equal, while the hop's queue was empty, are the path's: of flights of which
 * the larger is this much larger, in thirds of the smaller and in packets. Equal are those that differ by no more than a part and a time. As
 * in core/cc/src/path_rtt.rs.
 */
#define PATH_LONGER_FOR_US 10000000u
#define PATH_FLIGHTS_MORE 4u
#define PATH_FLIGHTS_LESS 3u
#define PATH_FLIGHTS_APART 4u
/* One that has not been seen for this time was of a moment: a second, in 131 ms, so that a byte has it. */
#define PATH_SEEN_SHIFT 17
#define PATH_SEEN_FOR 7u
#define PATH_EQUAL_SHARE 32u
#define PATH_EQUAL_US 1000u
/* A queue with no more packets than this counts as empty. */
#define PATH_EMPTY 4u

enum loss_cause { LOSS_UNKNOWN = 0, LOSS_MEDIUM = 1, LOSS_CONGESTION = 2 };

/*
 * Of one flow, 64 bytes: the newest report of its receiver, and the bottleneck hop in it. Written by user space into the map
 * `pl_telemetry` of every module that has one, under the cookie of the flow's socket.
 */
struct pl_telemetry {
	/* Number of the report; grows. */
	u64 rseq;
	/* CLOCK_MONOTONIC when it was received; for how long it counts. */
	u64 stamp_ns;
	u64 fresh_ns;
	/* enum loss_cause: why packets were lost lately. */
	u32 verdict;
	/* For how many packets the hop's queue has room, and how many it holds when it is full; packets a second that arrive; flows. */
	u32 avail_pkts;
	u32 limit_pkts;
	u32 rate_pps;
	u32 flows;
	u32 loss_ppm;
	/* How long a full queue of the hop takes to drain; 0 where it is not known. */
	u32 drain_us;
	/* Fresh reports in a row, saturating. */
	u32 reports;
	/* = rseq, written last: a record that is half written does not count. */
	u64 rseq_again;
};

/* Losses of the medium in a row, and when the last loss was (microseconds). */
struct streak {
	u32 last_us;
	u32 length;
};

/*
 * The smallest RTT since it was taken anew, 0 before; and round trips that are longer, 0 where they are not: since when, of which flights.
 * When the newest of them came stands in a byte of what this is a part of.
 */
struct path_rtt {
	u32 anew_us;
	u32 longer_us;
	u32 since_us;
	u16 least;
	u16 most;
};

/* Where a flow stands, in microseconds; its clock in nanoseconds too. */
struct telemetry_flow {
	u64 now_ns;
	u32 now_us;
	/* 0 before there is one. */
	u32 srtt_us;
	u32 min_rtt_us;
	/* The newest delivery rate: packets in a time; a time of 0 before there is one. */
	u32 delivered;
	u32 interval_us;
	/* Timeouts since the cumulative acknowledgement last advanced, before this one. */
	u32 timeouts;
	/* The flow uses its window. */
	u8 limited;
};

/* The record is whole, and in time. One from the future is not: its age wraps around. */
arithmetic int telemetry_fresh(const struct pl_telemetry *r, u64 now_ns)
{
	u64 longest = r->fresh_ns < TELEMETRY_LONGEST_NS ? r->fresh_ns : TELEMETRY_LONGEST_NS;

	return r->rseq == r->rseq_again && now_ns - r->stamp_ns < longest;
}

/* The hop's queue is empty, as far as it says. */
arithmetic int telemetry_queue_is_empty(const struct pl_telemetry *r)
{
	if (r->avail_pkts == TELEMETRY_UNKNOWN || r->limit_pkts == TELEMETRY_UNKNOWN)
		return 0;
	return (u64)r->avail_pkts + PATH_EMPTY >= r->limit_pkts;
}

arithmetic void path_rtt_reset(struct path_rtt *p)
{
	p->anew_us = 0;
	p->longer_us = 0;
	p->since_us = 0;
	p->least = 0;
	p->most = 0;
}

/* The smallest RTT of the path; `of_flow` is the flow's own. */
arithmetic u32 path_rtt_smallest(const struct path_rtt *p, u32 of_flow)
{
	return p->anew_us ? p->anew_us : of_flow;
}

arithmetic u32 path_rtt_near(u32 rtt_us)
{
	return rtt_us / PATH_EQUAL_SHARE + PATH_EQUAL_US;
}

/* A round trip as long as ever; what is longer is to be looked at otherwise. `of_flow` is the flow's own smallest. */
arithmetic int path_rtt_is_usual(struct path_rtt *p, u32 of_flow, u32 rtt_us)
{
	u32 smallest;

	if (p->anew_us)
		p->anew_us = smaller(p->anew_us, rtt_us);
	smallest = path_rtt_smallest(p, of_flow);
	if (smallest && rtt_us > smallest + path_rtt_near(smallest))
		return 0;
	p->longer_us = 0;
	return 1;
}

/* A round trip that is longer than usual, of a packet with which this many were in flight. */
arithmetic void path_rtt_take_longer(struct path_rtt *p, const struct pl_telemetry *r, const struct telemetry_flow *f, u32 rtt_us,
				     u32 flight, u8 *seen)
{
	u8 now = (u8)(f->now_us >> PATH_SEEN_SHIFT);

	flight = smaller(flight, 0xffff);
	if (!telemetry_fresh(r, f->now_ns) || !telemetry_queue_is_empty(r))
		return;
	if (!p->longer_us || rtt_us + path_rtt_near(p->longer_us) < p->longer_us || (u8)(now - *seen) > PATH_SEEN_FOR) {
		p->longer_us = rtt_us;
		p->since_us = f->now_us;
		p->least = p->most = (u16)flight;
		*seen = now;
	} else if (rtt_us <= p->longer_us + path_rtt_near(p->longer_us)) {
		p->least = (u16)smaller(p->least, flight);
		p->most = (u16)larger(p->most, flight);
		*seen = now;
	}
	if (f->now_us - p->since_us < PATH_LONGER_FOR_US || (u32)(p->most - p->least) < PATH_FLIGHTS_APART ||
	    p->most * PATH_FLIGHTS_LESS < p->least * PATH_FLIGHTS_MORE)
		return;
	p->anew_us = p->longer_us;
	p->longer_us = 0;
}

/* Round trips show that more than one in `parts` of the bottleneck's queue stands; G1: more than all of it. */
arithmetic int telemetry_queue_stands(const struct pl_telemetry *r, const struct telemetry_flow *f, u32 parts)
{
	u64 drain = r->drain_us ? r->drain_us : TELEMETRY_DRAIN_US;

	return f->min_rtt_us && f->srtt_us > f->min_rtt_us + drain / parts;
}

/* The hop says how long its queue takes to drain. */
arithmetic int telemetry_knows_queue(const struct pl_telemetry *r)
{
	return r->drain_us && r->avail_pkts != TELEMETRY_UNKNOWN && r->limit_pkts != TELEMETRY_UNKNOWN && r->limit_pkts;
}

/* How long it takes; 0 where it does not say. */
arithmetic u32 telemetry_queue_us(const struct pl_telemetry *r)
{
	if (!telemetry_knows_queue(r) || r->avail_pkts >= r->limit_pkts)
		return 0;
	return (u32)((u64)r->drain_us * (r->limit_pkts - r->avail_pkts) / r->limit_pkts);
}

/* G5. */
arithmetic int telemetry_is_unexplained(const struct pl_telemetry *r, const struct telemetry_flow *f)
{
	if (!telemetry_knows_queue(r) || !f->min_rtt_us)
		return 0;
	return f->srtt_us > f->min_rtt_us + 2 * (u64)telemetry_queue_us(r) + TELEMETRY_UNEXPLAINED_US;
}

/* G4. */
arithmetic int telemetry_room_is_scarce(const struct pl_telemetry *r)
{
	u32 limit = r->limit_pkts, scarce = TELEMETRY_SCARCE;

	if (r->avail_pkts == TELEMETRY_UNKNOWN)
		return 0;
	if (limit != TELEMETRY_UNKNOWN)
		scarce = limit < TELEMETRY_SHORT_QUEUE ? TELEMETRY_SCARCE / 2 : larger(scarce, limit);
	return (u64)r->avail_pkts * 10 < scarce;
}

/* What the record says of losses now, but for G3. */
arithmetic enum loss_cause telemetry_verdict(const struct pl_telemetry *r, const struct telemetry_flow *f)
{
	if (!telemetry_fresh(r, f->now_ns) || r->reports < TELEMETRY_REPORTS)
		return LOSS_UNKNOWN;
	if (telemetry_queue_stands(r, f, 1) || telemetry_room_is_scarce(r) || telemetry_is_unexplained(r, f) || f->timeouts)
		return LOSS_CONGESTION;
	if (r->verdict == LOSS_MEDIUM || r->verdict == LOSS_CONGESTION)
		return (enum loss_cause)r->verdict;
	return LOSS_UNKNOWN;
}

/* The last loss is near enough for one now to be in a row with it. */
arithmetic int streak_goes_on(const struct streak *s, const struct telemetry_flow *f)
{
	return (u64)(f->now_us - s->last_us) <= (u64)f->srtt_us * TELEMETRY_STREAK_RTTS;
}

/* Decides on losses. A flow without a record has one of zeros. */
arithmetic enum loss_cause telemetry_decide(struct streak *s, const struct pl_telemetry *r, const struct telemetry_flow *f)
{
	enum loss_cause cause = telemetry_verdict(r, f);
	u32 before = streak_goes_on(s, f) ? s->length : 0;

	s->last_us = f->now_us;
	s->length = 0;
	if (cause != LOSS_MEDIUM)
		return cause;
	if (before >= TELEMETRY_STREAK)
		return LOSS_CONGESTION;
	s->length = before + 1;
	return LOSS_MEDIUM;
}

/* Flows that share the hop; one that does not say has this one. */
arithmetic u32 telemetry_flows(const struct pl_telemetry *r)
{
	return r->flows == TELEMETRY_UNKNOWN || !r->flows ? 1 : r->flows;
}

/* Packets for which the hop has room, for each of its flows; 0 where that is not known. */
arithmetic u32 telemetry_share(const struct pl_telemetry *r)
{
	return r->avail_pkts == TELEMETRY_UNKNOWN ? 0 : r->avail_pkts / telemetry_flows(r);
}

#endif
