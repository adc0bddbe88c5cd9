/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A record of a path, and a flow over it, for tests of what CUBIC makes of them. */
#ifndef PACELINE_PATH_RECORD_H
#define PACELINE_PATH_RECORD_H

#include "check.h"

#include "../../src/bpf/cubic_medium.h"

#define HZ 1000u
#define MS 1000u

/* 20 Mbit/s, 20 ms, 60 packets, of which `room` are free: 1650 packets/s, 33 a round trip. */
static inline struct pl_telemetry record(u32 verdict, u32 room)
{
	return (struct pl_telemetry){
		.rseq = 5, .rseq_again = 5, .stamp_ns = 1000000000, .fresh_ns = 100000000, .verdict = verdict, .avail_pkts = room,
		.limit_pkts = 60, .rate_pps = 1650, .flows = 1, .drain_us = 36363, .reports = 3,
	};
}

/* Ten milliseconds later, and no queue; the window limits the flow. */
static inline struct telemetry_flow flow(void)
{
	return (struct telemetry_flow){
		.now_ns = 1010000000, .now_us = 1010000, .srtt_us = 20 * MS, .min_rtt_us = 20 * MS, .delivered = 33,
		.interval_us = 20 * MS, .limited = 1,
	};
}

/* A timeout as Linux has it: ssthresh unless losses are being repaired, the window, the state. */
static inline void time_out(struct medium *m, struct cubic *c, struct window *w, const struct pl_telemetry *r,
		     const struct telemetry_flow *f, int repairing)
{
	if (!repairing)
		w->ssthresh = medium_ssthresh(m, c, w, r, f, 0);
	w->cwnd = 1;
	medium_timeout(m, c, w, r, f, f->now_us, 0);
}

#endif
