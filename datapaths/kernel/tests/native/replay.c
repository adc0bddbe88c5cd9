/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Feeds what a sender reports, a line each on the standard input, to the arithmetic of the controller that is named, and prints
 * after each line the window in 1/65536 packets, ssthresh in packets, and alpha in 1/1024 (of DCTCP). Times are in
 * microseconds, sizes in packets.
 *
 *	ack NOW RTT UNA NEXT PACKETS MARKED ECHO USED PHASE SRTT MIN_RTT DELIVERED INTERVAL APP_LIMITED
 *								(RTT: -1 where there was none; PHASE: enum phase; INTERVAL: 0
 *								where there was no delivery rate)
 *	telemetry NOW VERDICT ROOM LIMIT RATE FLOWS DRAIN	(as struct pl_telemetry has them, fresh for 100 ms)
 *	loss NOW PACKETS NEW_EPISODE
 *	timeout NOW COUNT IN_FLIGHT
 *	spurious NOW
 *	restart NOW IDLE RTO
 *	window NOW WINDOW					(in 1/65536 packets: it goes on from there)
 *
 * What the socket does around a controller with ssthresh and cong_avoid (one reduction an episode, undo, timeouts, idle restarts)
 * is done here as core/cc/src/window.rs does it, in whole packets as Linux does.
 */
#include <stdio.h>
#include <string.h>

#include "../../src/bpf/copa.h"
#include "../../src/bpf/cubic_medium.h"
#include "../../src/bpf/dctcp.h"
#include "../../src/bpf/eq1.h"

/* Ticks of a millisecond. */
#define HZ 1000
#define INITIAL 10

enum phase { OPEN, CWR, RECOVERY, LOSS };

struct event {
	char name[16];
	unsigned long long now;
	/* As the lines above have them. */
	long long rest[13];
};

static struct window w = { .cwnd = INITIAL, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u }, before;
static int has_before, repairing;
static struct cubic cubic;
static struct dctcp dctcp;
static struct dctcp_counts counts;
static struct copa copa;
static struct medium medium;
static struct eq1 eq1;
static struct pl_telemetry record;
static struct telemetry_flow flow;

/* The controllers behind a window: what the socket asks of them. */
struct policy {
	void (*measure)(const struct event *e);
	void (*grow)(const struct event *e);
	u32 (*reduce)(int lost);
	void (*timeout)(const struct event *e);
	void (*restart)(const struct event *e);
};

static struct cubic_ack cubic_ack_of(const struct event *e)
{
	return (struct cubic_ack){
		.now = (u32)(e->now / 1000), .hz = HZ, .now_us = (u32)e->now,
		.snd_una = (u32)e->rest[1], .snd_nxt = (u32)e->rest[2], .hystart = 1,
	};
}

static void cubic_measures(const struct event *e)
{
	const struct cubic_ack ack = cubic_ack_of(e);

	cubic_measure(&cubic, &w, &ack, (s32)e->rest[0]);
}

static void cubic_grows(const struct event *e)
{
	const struct cubic_ack ack = cubic_ack_of(e);

	cubic_grow(&cubic, &w, &ack, (u32)e->rest[3]);
}

static u32 cubic_reduces(int lost)
{
	(void)lost;
	return cubic_ssthresh(&cubic, w.cwnd);
}

static void cubic_times_out(const struct event *e)
{
	cubic_reset(&cubic, (u32)e->now, counts.snd_nxt);
}

static void cubic_restarts(const struct event *e)
{
	u64 now = e->now / 1000;

	cubic_after_idle(&cubic, (u32)now, (u32)(now - e->rest[0] / 1000));
}

static void dctcp_measures(const struct event *e)
{
	counts.snd_una = (u32)e->rest[1];
	counts.snd_nxt = (u32)e->rest[2];
	counts.delivered += (u32)e->rest[3];
	counts.delivered_ce += (u32)e->rest[4];
	/* In Rust what delivers nothing ends no window of data. */
	if (counts.delivered != dctcp.delivered)
		dctcp_on_ack(&dctcp, &counts);
}

static void dctcp_grows(const struct event *e)
{
	reno_grow(&w, (u32)e->rest[3]);
}

static u32 dctcp_reduces(int lost)
{
	return lost ? dctcp_ssthresh_after_loss(&dctcp, w.cwnd) : dctcp_ssthresh(&dctcp, w.cwnd);
}

static void nothing(const struct event *e)
{
	(void)e;
}

static void medium_measures(const struct event *e)
{
	cubic_measures(e);
	medium_measure(&medium, &flow);
}

static void medium_grows(const struct event *e)
{
	const struct cubic_ack ack = cubic_ack_of(e);

	medium_resume(&medium, &w);
	medium_grow_capped(&medium, &cubic, &w, &ack, (u32)e->rest[3],
			   medium_is_capped(&medium, &w, &flow) ? medium_cap(&medium, &record, &flow) : ~0u);
}

static u32 medium_reduces(int lost)
{
	return medium_ssthresh(&medium, &cubic, &w, &record, &flow, !lost);
}

static void medium_times_out(const struct event *e)
{
	flow.timeouts = (u32)e->rest[0] - 1;
	medium_timeout(&medium, &cubic, &w, &record, &flow, (u32)e->now, counts.snd_nxt);
	flow.timeouts = 0;
}

static void eq1_measures(const struct event *e)
{
	struct cubic_ack ack = cubic_ack_of(e);

	ack.hystart = 0;
	cubic_measure(&cubic, &w, &ack, (s32)e->rest[0]);
}

static void eq1_grows(const struct event *e)
{
	const struct cubic_ack ack = cubic_ack_of(e);

	eq1_grow(&eq1, &cubic, &w, &record, &flow, &ack, (u32)e->rest[3]);
}

static u32 eq1_reduces(int lost)
{
	(void)lost;
	return eq1_reduce(&eq1, &cubic, w.cwnd);
}

static void eq1_times_out(const struct event *e)
{
	eq1_timeout(&eq1, &cubic, (u32)e->now, counts.snd_nxt);
}

static const struct policy mediums = { medium_measures, medium_grows, medium_reduces, medium_times_out, cubic_restarts };
static const struct policy eq1s = { eq1_measures, eq1_grows, eq1_reduces, eq1_times_out, cubic_restarts };

/* Where the flow stands, and what is known of its path. */
static void take(const struct event *e)
{
	flow.now_ns = e->now * 1000;
	flow.now_us = (u32)e->now;
	if (!strcmp(e->name, "telemetry")) {
		record = (struct pl_telemetry){
			.rseq = 1, .rseq_again = 1, .stamp_ns = flow.now_ns, .fresh_ns = 100000000, .verdict = (u32)e->rest[0],
			.avail_pkts = (u32)e->rest[1], .limit_pkts = (u32)e->rest[2], .rate_pps = (u32)e->rest[3],
			.flows = (u32)e->rest[4], .drain_us = (u32)e->rest[5], .reports = TELEMETRY_REPORTS,
		};
	} else if (!strcmp(e->name, "ack")) {
		u32 delivered = (u32)e->rest[10], interval = (u32)e->rest[11];

		flow.srtt_us = (u32)e->rest[8];
		flow.min_rtt_us = (u32)e->rest[9];
		if (e->rest[3])
			flow.limited = (u8)e->rest[6];
		/* Linux tcp_rate_gen. */
		if (interval && (!e->rest[12] || (u64)delivered * flow.interval_us >= (u64)flow.delivered * interval)) {
			flow.delivered = delivered;
			flow.interval_us = interval;
		}
	}
}

static const struct policy cubics = { cubic_measures, cubic_grows, cubic_reduces, cubic_times_out, cubic_restarts };
static const struct policy dctcps = { dctcp_measures, dctcp_grows, dctcp_reduces, nothing, nothing };

static void reduce(const struct policy *policy, int lost)
{
	before = w;
	has_before = 1;
	w.ssthresh = policy->reduce(lost);
	w.cwnd = w.ssthresh;
	w.cwnd_cnt = 0;
}

static void feed_window(const struct policy *policy, const struct event *e)
{
	if (!strcmp(e->name, "ack")) {
		const enum phase phase = (enum phase)e->rest[7];

		repairing &= phase != OPEN;
		policy->measure(e);
		counts.snd_nxt = (u32)e->rest[2];
		if (e->rest[5])
			reduce(policy, 0);
		else if (phase != RECOVERY && phase != CWR && e->rest[6] && e->rest[3])
			policy->grow(e);
	} else if (!strcmp(e->name, "loss")) {
		if (!e->rest[1])
			return;
		repairing = 1;
		reduce(policy, 1);
		medium.asked = 0;
	} else if (!strcmp(e->name, "timeout")) {
		u32 cwnd = w.cwnd;

		if (e->rest[0] == 1 && !repairing)
			reduce(policy, 1);
		w.cwnd = smaller((u32)e->rest[1] + 1, cwnd);
		w.cwnd_cnt = 0;
		policy->timeout(e);
	} else if (!strcmp(e->name, "spurious")) {
		if (!has_before)
			return;
		w.cwnd = larger(w.cwnd, before.cwnd);
		w.ssthresh = larger(w.ssthresh, before.ssthresh);
		has_before = 0;
	} else if (!strcmp(e->name, "restart")) {
		u32 halvings = smaller((u32)(e->rest[0] / e->rest[1]), 31), floor = smaller(INITIAL, w.cwnd);

		policy->restart(e);
		if (!halvings)
			return;
		w.ssthresh = larger(w.ssthresh, (w.cwnd >> 1) + (w.cwnd >> 2));
		w.cwnd = larger(w.cwnd >> halvings, floor);
		w.cwnd_cnt = 0;
	} else if (!strcmp(e->name, "window")) {
		w.cwnd = larger((u32)((e->rest[0] + 32768) >> 16), 1);
	}
}

static void feed_copa(const struct event *e)
{
	if (!strcmp(e->name, "ack")) {
		const struct copa_ack ack = {
			.now = e->now, .rtt = (s32)e->rest[0], .delivered = (u32)e->rest[3], .used = (u8)e->rest[6],
		};

		copa_on_ack(&copa, &ack);
	} else if (!strcmp(e->name, "loss")) {
		copa_on_loss(&copa, e->now, (u32)e->rest[0]);
	} else if (!strcmp(e->name, "timeout")) {
		copa_on_timeout(&copa, e->now, (u32)e->rest[0]);
	} else if (!strcmp(e->name, "spurious")) {
		copa_undo(&copa);
	} else if (!strcmp(e->name, "restart")) {
		copa_after_idle(&copa, e->now);
	} else if (!strcmp(e->name, "window")) {
		copa.cwnd = (u64)e->rest[0];
	}
}

int main(int argc, char **argv)
{
	enum medium_mode mode = MEDIUM_KEEP;
	const struct policy *policy = NULL;
	char line[256];
	u8 inc = 1;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "cubic"))
		policy = &cubics;
	else if (!strcmp(argv[1], "dctcp"))
		policy = &dctcps;
	else if (!strncmp(argv[1], "cubic-l", 7)) {
		policy = &mediums;
		mode = !strcmp(argv[1], "cubic-l2") ? MEDIUM_CUT : !strcmp(argv[1], "cubic-l1g") ? MEDIUM_GROW : MEDIUM_KEEP;
	} else if (sscanf(argv[1], "cubic:eq1=%hhu", &inc) == 1)
		policy = &eq1s;
	else if (strcmp(argv[1], "copa"))
		return 2;
	cubic_reset(&cubic, 0, 0);
	dctcp_reset(&dctcp, &counts, DCTCP_ONE, 0);
	copa_reset(&copa);
	medium_reset(&medium, mode, 0, 0);
	eq1_reset(&eq1, inc);
	while (fgets(line, sizeof(line), stdin)) {
		struct event e = { 0 };
		long long *rest = e.rest;

		if (sscanf(line, "%15s %llu %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld", e.name, &e.now,
			   &rest[0], &rest[1], &rest[2], &rest[3], &rest[4], &rest[5], &rest[6], &rest[7], &rest[8], &rest[9],
			   &rest[10], &rest[11], &rest[12]) < 2)
			return 2;
		take(&e);
		if (policy) {
			feed_window(policy, &e);
			printf("%llu %u %u\n", (u64)w.cwnd << COPA_SHIFT, w.ssthresh,
			       policy == &dctcps ? dctcp.alpha : 0);
		} else {
			feed_copa(&e);
			printf("%llu 0 0\n", copa.cwnd);
		}
	}
	return 0;
}
