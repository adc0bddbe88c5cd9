/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Paced chirping by load, the newest kernel branch (start=chirp-r): core/cc/src/chirp/load.rs in fixed point. Plain C without a
 * library. Times are in nanoseconds. What differs from the branch stands there.
 */
#ifndef PACELINE_CHIRP_LOAD_H
#define PACELINE_CHIRP_LOAD_H

#include "chirp.h"

/* Constants and their origins as in load.rs. */
#define LOAD_GAP_PART 64
#define LOAD_PART 16
#define LOAD_GAP_MAX 1000000ull
#define LOAD_GAP_BLIND 120000ull
#define LOAD_BLIND 2400000ull
#define LOAD_ESTIMATE_MAX 100000000ull
#define LOAD_STEP_MIN 1024
#define LOAD_CHIRPS_MAX 200
#define LOAD_TIMER_LIMIT 40000ull
#define LOAD_PACKETS 16
#define LOAD_GEOMETRY (2 * CHIRP_RATIO)
/* Packets of a burst of the link are counted in CHIRP_RATIO. */
#define LOAD_BURSTY (2 * CHIRP_RATIO)
#define LOAD_BURSTY_GEOMETRY (3 * CHIRP_RATIO / 2)
#define LOAD_BURSTY_QUEUE 10000000ull
#define LOAD_CHIRP_OF_BURST 4
#define LOAD_WEIGHT_SHIFT 3

struct chirp_load {
	/* Average of the estimates, the gap of the mean rate, the RTTs; 0 where unknown. */
	__u64 gap;
	__u64 load;
	__u64 srtt;
	__u64 min_rtt;
	/* When the last acknowledgement came, and the average time between them, a packet; 0 where unknown. */
	__u64 last_ack;
	__u64 ack_gap;
	/* Packets that may be in flight when a chirp begins, and that are. */
	__u32 load_window;
	__u32 in_flight;
	/* Packets of a burst of the link, in CHIRP_RATIO. */
	__u32 burst;
	/* Number of the next chirp, from 1, and how many have come back. */
	__u32 next;
	__u32 analysed;
	__u8 chirping;
	/* Slow start goes on. */
	__u8 slow;
};

static inline void load_init(struct chirp_load *l)
{
	const struct chirp_load fresh = {
		.gap = LOAD_GAP_BLIND,
		.load = LOAD_BLIND,
		.load_window = CHIRP_INITIAL,
		.burst = CHIRP_RATIO,
		.next = 1,
		.chirping = 1,
	};

	*l = fresh;
}

/* Before the first chirp: the gaps follow from the RTT, where one is known. */
static inline void load_open(struct chirp_load *l)
{
	if (!l->srtt)
		return;
	l->gap = chirp_min(l->srtt / LOAD_GAP_PART, LOAD_GAP_MAX);
	l->load = l->srtt / LOAD_PART;
}

static inline int load_bursty(const struct chirp_load *l)
{
	return l->burst > LOAD_BURSTY;
}

/* Packets of the next chirp. */
static inline __u32 load_size(const struct chirp_load *l)
{
	if (l->next <= 2)
		return 5;
	if (l->next <= 4)
		return 8;
	return chirp_min(chirp_max(LOAD_CHIRP_OF_BURST * l->burst / CHIRP_RATIO, LOAD_PACKETS), CHIRP_LONGEST);
}

/* The next chirp: about the average gap, but not faster than the load; the nearer the two, the flatter. */
static inline void load_place(const struct chirp_load *l, struct chirp_train *train)
{
	__u32 packets = load_size(l), largest = LOAD_GEOMETRY;
	__u64 centre = chirp_min(l->gap, l->load), gap = chirp_max(l->gap, 1), geometry, least;

	if (load_bursty(l)) {
		centre = centre * 3 / 4;
		largest = LOAD_BURSTY_GEOMETRY;
	}
	/* Rounded, as load.rs rounds a real number. */
	least = CHIRP_RATIO + ((__u64)(packets - 1) * LOAD_STEP_MIN * CHIRP_RATIO + gap / 2) / gap;
	geometry = chirp_min(chirp_max((l->load * CHIRP_RATIO + gap / 2) / gap, least), largest);
	chirp_train_begin(train, CHIRP_OF_GAPS, packets);
	chirp_plan(&train->plan, packets, centre, geometry, CHIRP_BY_GAPS);
}

/* The silence after a chirp that makes its mean rate that of the load gap. */
static inline __u64 load_guard(const struct chirp_load *l, const struct chirp_plan *plan)
{
	__u64 whole = l->load * plan->packets, length = chirp_length(plan);

	return whole > length + l->load ? whole - length : l->gap;
}

/* A chirp may not begin. With nothing in flight there is nothing to wait for. */
static inline int load_holds(const struct chirp_load *l)
{
	return l->in_flight && l->in_flight >= l->load_window;
}

/* What is in flight, at most what the average gap holds; in packets. */
static inline __u32 load_found(const struct chirp_load *l)
{
	__u64 most = load_bursty(l) || !l->min_rtt ? CHIRP_NEVER : l->min_rtt / chirp_max(l->gap, 1);

	return chirp_max(chirp_min(l->in_flight, most), CHIRP_SMALLEST_WINDOW);
}

/* `average` moved to `sample` by 2^-`shift` of the way, in the branch's integers. */
static inline __u64 load_averaged(__u64 average, __u64 sample, __u32 shift)
{
	return average - (average >> shift) + (sample >> shift);
}

/* Logarithm to the base 2 of 1 to 2^32 - 1, rounded down. */
static inline __u32 load_log(__u32 number)
{
	__u32 log = 0, by;

	for (by = 16; by; by /= 2) {
		if (number >> by) {
			number >>= by;
			log += by;
		}
	}
	return log;
}

/* Once for each acknowledgement that delivers `packets`, before the chirps that it brings back. */
static inline void load_clock(struct chirp_load *l, __u64 now, __u32 packets)
{
	__u64 gap;

	if (!packets)
		return;
	if (l->last_ack) {
		gap = chirp_less(now, l->last_ack) / packets;
		l->ack_gap = l->ack_gap ? load_averaged(l->ack_gap, gap, LOAD_WEIGHT_SHIFT) : gap;
	}
	l->last_ack = now;
}

/* A packet of a chirp has come back: sent this long after the one before, and arrived this long after. */
static inline void load_acked(const struct chirp_load *l, struct chirp_train *train, __u32 index, __u64 sent, __u64 arrived,
			      int coarse)
{
	__u64 gap = 0, received = 0;

	train->spoilt |= index != train->samples;
	train->coarse += coarse;
	if (train->samples) {
		gap = chirp_max(chirp_less(sent, train->sent_at), 1);
		received = chirp_less(arrived, train->arrived_at);
		train->aggregated += received < l->gap / 2;
		train->jumps += received > chirp_max(gap, 2 * l->gap);
		chirp_shrinking_push(&train->shrinking, gap);
	}
	chirp_first_push(&train->onset, train->plan.packets, gap, (__s64)(arrived - sent));
	train->least_queue = chirp_min(train->least_queue, chirp_less(arrived, sent + l->min_rtt));
	train->samples++;
	train->sent_at = sent;
	train->arrived_at = arrived;
}

/* What the chirp shows, the average gap where it cannot be believed. */
static inline __u64 load_estimate(const struct chirp_load *l, const struct chirp_train *train)
{
	__u64 gap;

	if (train->spoilt || train->kind != CHIRP_OF_GAPS || train->coarse > train->plan.packets / 4 ||
	    train->shrinking.spoilt)
		return l->gap;
	gap = chirp_first_gap(&train->onset, train->plan.packets);
	return gap && gap <= LOAD_ESTIMATE_MAX ? gap : l->gap;
}

/* A chirp has come back whole; `delivery` is the gap at which packets were delivered of late, 0 where unknown. */
static inline void load_returned(struct chirp_load *l, const struct chirp_train *train, __u64 delivery)
{
	__u32 packets = train->plan.packets, ours = load_log(packets + 1), all = load_log(l->in_flight + 1);
	__u64 estimate = load_estimate(l, train), queue = train->least_queue;
	__u32 shift = all > ours ? all - ours : 1;

	l->analysed++;
	if (train->jumps) {
		__u32 burst = (train->aggregated + train->jumps) * CHIRP_RATIO / train->jumps;

		l->burst += ((__s32)burst - (__s32)l->burst) >> LOAD_WEIGHT_SHIFT;
	}
	/* A queue stands that this chirp never saw empty. */
	if (train->samples && queue > l->min_rtt / 5 && (!load_bursty(l) || queue > LOAD_BURSTY_QUEUE)) {
		estimate = chirp_min(delivery ? delivery : CHIRP_NEVER, l->ack_gap ? l->ack_gap : CHIRP_NEVER);
		estimate = chirp_min(estimate, LOAD_ESTIMATE_MAX);
		shift = 1;
	}
	l->gap = load_averaged(l->gap, estimate, shift);
	if (l->gap < l->load)
		l->load = load_averaged(l->load, l->gap, shift + 1);
	l->load_window = chirp_min(chirp_ratio(l->srtt, l->load), 1u << 30);
}

/* After a chirp: the window in packets where the start-up ends, else 0. */
static inline __u32 load_end(struct chirp_load *l)
{
	int met = l->load <= l->gap, overload = l->srtt >= l->min_rtt + CHIRP_OVERLOAD;

	if (!met && !overload && l->analysed < LOAD_CHIRPS_MAX && l->load >= LOAD_TIMER_LIMIT)
		return 0;
	l->chirping = 0;
	l->slow = !met && !overload;
	return load_found(l);
}

#endif
