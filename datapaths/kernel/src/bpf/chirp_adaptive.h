/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Paced chirping, ours (start=chirp): core/cc/src/chirp/adaptive.rs in fixed point. Plain C without a library. Times are in
 * nanoseconds, windows and round trips in parts of CHIRP_ONE. Each choice is explained there and in
 * docs/results/paced-chirping.md.
 */
#ifndef PACELINE_CHIRP_ADAPTIVE_H
#define PACELINE_CHIRP_ADAPTIVE_H

#include "chirp.h"

/* Constants and their origins as in adaptive.rs; n thirds, eighths and so on are written where they are used. */
#define ADAPTIVE_BURSTS 2
#define ADAPTIVE_UNKNOWN_PART 64
#define ADAPTIVE_UNKNOWN_GAP 200000ull
#define ADAPTIVE_PACKETS 16
#define ADAPTIVE_GEOMETRY (2 * CHIRP_RATIO)
#define ADAPTIVE_SHORTEST 5
#define ADAPTIVE_UNDER_WAY 3
#define ADAPTIVE_STEP (4 * CHIRP_ONE)
#define ADAPTIVE_STEP_GROWTH 2
/* 0.35 of a packet. */
#define ADAPTIVE_MARK (CHIRP_ONE * 35 / 100)
#define ADAPTIVE_LEAST_LOAD (ADAPTIVE_SHORTEST * CHIRP_ONE)
#define ADAPTIVE_PATIENCE (20 * CHIRP_ONE)
#define ADAPTIVE_UNREADABLE 8
/* Shares of the gap: an eighth and a quarter. */
#define ADAPTIVE_REPEATING (CHIRP_ONE / 8)
#define ADAPTIVE_SCATTERED (CHIRP_ONE / 4)
#define ADAPTIVE_VALID 300000000000ull
/* Lone acknowledgements in a row that end what shared ones began: as many as a chirp has packets at least, our choice. */
#define ADAPTIVE_LONE ADAPTIVE_SHORTEST

enum chirp_stage {
	CHIRP_CHIRPING,
	/* Paced at `pace`, until `left` packets more have been acknowledged. */
	CHIRP_TRANSITION,
	/* The host cannot keep the gaps: slow start. */
	CHIRP_SLOW,
	/* The policy is in charge. */
	CHIRP_OVER,
	/* As over, but paced at `pace` after a silence, until `left` packets more have been acknowledged. */
	CHIRP_RESUMING,
};

struct chirp_adaptive {
	/* Average of the estimates, the bottleneck's own gap, the RTTs; 0 where unknown. */
	__u64 gap;
	__u64 capacity;
	__u64 srtt;
	__u64 min_rtt;
	/* Packets that may be in flight. */
	__u64 load;
	/* Average deviation of the estimates as a share of the gap. */
	__u64 scatter;
	/* Round trips since a mark, and those without calm growth. */
	__u64 unmarked;
	__u64 waiting;
	/* Packets acknowledged since the load has been near its end. */
	__u64 near;
	__u64 pace;
	/* Numbers of packets. */
	__u32 in_flight;
	__u32 left;
	/* Most packets that shared an acknowledgement, and lone ones in a row since. */
	__u32 shared;
	__u32 lone;
	/* Trains in a row that could not be read, and those of them that left ragged. */
	__u32 unreadable;
	__u32 ragged;
	__u8 bursts;
	__u8 stage;
	/* The path has marked. */
	__u8 marks;
};

static inline void adaptive_init(struct chirp_adaptive *a)
{
	const struct chirp_adaptive fresh = {
		.load = CHIRP_INITIAL * CHIRP_ONE,
		.scatter = ADAPTIVE_SCATTERED,
		.shared = 1,
		.bursts = ADAPTIVE_BURSTS,
		.stage = CHIRP_CHIRPING,
	};

	*a = fresh;
}

/* `window` in packets, at least one, of a time. */
static inline __u64 chirp_times(__u64 window, __u64 gap)
{
	return window * gap >> CHIRP_SHIFT;
}

/* The gap found. */
static inline __u64 adaptive_found(const struct chirp_adaptive *a)
{
	if (a->gap)
		return a->gap;
	return a->srtt ? a->srtt / ADAPTIVE_UNKNOWN_PART : ADAPTIVE_UNKNOWN_GAP;
}

/* The gap about which chirps are sent: no wider than the load's own. */
static inline __u64 adaptive_centre(const struct chirp_adaptive *a)
{
	__u64 gap = adaptive_found(a);

	return a->srtt ? chirp_min(gap, (a->srtt << CHIRP_SHIFT) / chirp_max(a->load, 1)) : gap;
}

/* Packets that fill a round trip when they are `gap` apart. */
static inline __u64 adaptive_filling(const struct chirp_adaptive *a, __u64 gap)
{
	return (a->srtt << CHIRP_SHIFT) / chirp_max(gap, 1);
}

/* Packets of the next chirp: its part of the load, and enough for acknowledgements that are shared. */
static inline __u32 adaptive_size(const struct chirp_adaptive *a)
{
	__u64 part = a->load / ADAPTIVE_UNDER_WAY >> CHIRP_SHIFT, shared = a->shared > 1 ? CHIRP_FEWEST * a->shared : 0;

	return chirp_max(chirp_min(chirp_max(part, ADAPTIVE_SHORTEST), ADAPTIVE_PACKETS), shared);
}

/* The next train, of which `left` packets are there to send. */
static inline void adaptive_place(const struct chirp_adaptive *a, struct chirp_train *train, __u32 left)
{
	__u32 size = adaptive_size(a);

	if (a->bursts) {
		chirp_train_begin(train, CHIRP_OF_NO_GAPS, chirp_min(left, CHIRP_BURST));
	} else if (left < size) {
		chirp_train_begin(train, CHIRP_OF_THE_REST, left);
	} else {
		chirp_train_begin(train, CHIRP_OF_GAPS, size);
		chirp_plan(&train->plan, size, adaptive_centre(a), ADAPTIVE_GEOMETRY, CHIRP_BY_GAPS);
	}
}

/* The silence after a train, so that the queue is empty before the next and the mean rate is the load's. */
static inline __u64 adaptive_guard(const struct chirp_adaptive *a, const struct chirp_train *train)
{
	__u64 centre = adaptive_centre(a), filling, share;

	if (train->kind != CHIRP_OF_GAPS)
		return centre;
	filling = chirp_max(adaptive_filling(a, adaptive_found(a)), CHIRP_ONE);
	/* At least half of the capacity found. */
	share = chirp_min(chirp_max((a->load << CHIRP_SHIFT) / filling, CHIRP_ONE / 2), CHIRP_ONE);
	return chirp_max(chirp_less((centre * train->plan.packets << CHIRP_SHIFT) / share, chirp_length(&train->plan)), centre);
}

/* No room in the load for another chirp. */
static inline int adaptive_holds(const struct chirp_adaptive *a)
{
	return !a->bursts && a->in_flight && (__u64)(a->in_flight + adaptive_size(a)) << CHIRP_SHIFT > a->load;
}

/*
 * An acknowledgement delivers this many packets. Where several share one, chirps get longer, and a lone one may have waited. A row of
 * lone ones shows that the receiver delays none, and that those before only met on the way.
 */
static inline void adaptive_shared(struct chirp_adaptive *a, __u32 packets)
{
	if (packets > 1) {
		a->shared = chirp_max(a->shared, chirp_min(packets, CHIRP_LONGEST / CHIRP_FEWEST));
		a->lone = 0;
	} else if (packets && a->shared > 1 && ++a->lone >= ADAPTIVE_LONE) {
		a->shared = 1;
	}
}

static inline void adaptive_marked(struct chirp_adaptive *a, __u32 packets)
{
	a->load = chirp_max(chirp_less(a->load, ADAPTIVE_MARK * packets), ADAPTIVE_LEAST_LOAD);
}

static inline void adaptive_average(struct chirp_adaptive *a, __u64 reading)
{
	__u64 off = reading > a->gap ? reading - a->gap : a->gap - reading;

	if (!a->gap) {
		a->gap = reading;
		return;
	}
	a->scatter = (a->scatter + (off << CHIRP_SHIFT) / a->gap) / 2;
	a->gap = chirp_max((a->gap + reading) / 2, 1);
}

/* Growth of the load from one round trip to the next while no other flow is there, less one. */
static inline __u64 adaptive_gain(const struct chirp_adaptive *a)
{
	if (a->scatter < ADAPTIVE_REPEATING)
		return 2 * CHIRP_ONE;
	return a->scatter <= ADAPTIVE_SCATTERED ? CHIRP_ONE : CHIRP_ONE / 2;
}

/* A train of `packets` found `reading`, and `marked` of them were marked. */
static inline void adaptive_grow(struct chirp_adaptive *a, __u32 packets, __u64 reading, __u32 marked)
{
	__u64 target = adaptive_filling(a, adaptive_found(a));
	/* The train's part of a round trip. */
	__u64 part = ((__u64)packets << 2 * CHIRP_SHIFT) / a->load;
	__u64 room = chirp_less(chirp_min(target, adaptive_filling(a, reading)), a->load), step;
	/* A gap 9/8 of that of the bursts means that there is other traffic. */
	int busy = marked || (a->capacity && reading > a->capacity + a->capacity / 8);
	/* Marks say when it is too much; where none ever came, the delay has to. */
	int pushing = busy && a->marks;

	if (busy) {
		step = chirp_times(ADAPTIVE_STEP + ADAPTIVE_STEP_GROWTH * a->unmarked, part);
		step = step * chirp_less(packets, marked) / packets;
		a->load += pushing ? step : chirp_min(step, room);
	} else {
		step = chirp_min(adaptive_gain(a) * packets, room);
		/* Above a fifth of what the gap found would fill, at most a third of what is missing. */
		if (a->load >= target / 5)
			step = chirp_min(step, chirp_times(chirp_less(target, a->load) / 3, part));
		if (step)
			a->waiting = chirp_less(a->waiting, part);
		a->load += step;
	}
	/* 0.8 of what the gap found would fill. */
	a->near = !pushing && a->load >= target / 5 * 4 ? a->near + packets : 0;
}

/* All packets of a train have been acknowledged. */
static inline void adaptive_returned(struct chirp_adaptive *a, struct chirp_train *train)
{
	__u32 packets = train->plan.packets;
	__u64 part = ((__u64)packets << 2 * CHIRP_SHIFT) / a->load, reading;

	a->unmarked = train->marked ? 0 : a->unmarked + part;
	if (train->kind == CHIRP_OF_THE_REST)
		return;
	a->waiting += part;
	reading = train->kind == CHIRP_OF_NO_GAPS ? chirp_read_burst(train) : chirp_read(train);
	if (reading == CHIRP_UNSEEN || reading == CHIRP_RAGGED) {
		a->unreadable++;
		a->ragged += reading == CHIRP_RAGGED;
		return;
	}
	a->unreadable = 0;
	a->ragged = 0;
	if (train->kind == CHIRP_OF_NO_GAPS)
		a->capacity = a->capacity ? chirp_min(a->capacity, reading) : reading;
	adaptive_average(a, reading);
	adaptive_grow(a, packets, reading, train->marked);
}

/* Where the start-up ends: the window that is handed over, 0 where it does not end yet. */
static inline __u64 adaptive_end(const struct chirp_adaptive *a)
{
	/* Half a round trip of chirps confirms it; 0.95 of what the gap found would fill. */
	if (a->near && a->near << CHIRP_SHIFT >= a->load / 2)
		return chirp_max(a->load, adaptive_filling(a, adaptive_found(a)) / 100 * 95);
	if (a->min_rtt && a->srtt >= a->min_rtt + CHIRP_OVERLOAD)
		return a->load * (a->min_rtt >> 10) / chirp_max(a->srtt >> 10, 1);
	if (a->waiting > ADAPTIVE_PATIENCE || a->unreadable >= ADAPTIVE_UNREADABLE)
		return a->load;
	return 0;
}

/*
 * After an acknowledgement, and after the trains that it brought back, with this window in packets where the stage has one.
 * Answers the window, in parts of CHIRP_ONE, when the stage has changed, else 0. In CHIRP_OVER it is the threshold too.
 */
static inline __u64 adaptive_after_ack(struct chirp_adaptive *a, __u32 acked, __u64 rtt, __u32 window)
{
	__u64 found;

	if (a->stage == CHIRP_RESUMING) {
		a->left = chirp_less(a->left, acked);
		if (!a->left)
			a->stage = CHIRP_OVER;
		return 0;
	}
	if (a->stage == CHIRP_TRANSITION) {
		if (acked <= a->left) {
			a->left -= acked;
			return 0;
		}
		a->stage = CHIRP_OVER;
		/* What is in flight without what waits; where the application had less, what may be. */
		found = (__u64)(2 * a->in_flight > window ? a->in_flight : window) << CHIRP_SHIFT;
		if (rtt > a->min_rtt)
			found = found * (a->min_rtt >> 10) / chirp_max(rtt >> 10, 1);
		return chirp_max(found, CHIRP_SMALLEST_WINDOW * CHIRP_ONE);
	}
	if (a->stage != CHIRP_CHIRPING)
		return 0;
	if (a->ragged >= ADAPTIVE_UNREADABLE) {
		a->stage = CHIRP_SLOW;
		return a->load;
	}
	found = adaptive_end(a);
	if (!found)
		return 0;
	found = chirp_max(found, CHIRP_SMALLEST_WINDOW * CHIRP_ONE);
	a->stage = CHIRP_TRANSITION;
	a->pace = (a->srtt << CHIRP_SHIFT) / found;
	a->left = found >> CHIRP_SHIFT;
	return found;
}

/* What a silence leaves standing of a window or a load, in parts of CHIRP_ONE. */
static inline __u64 adaptive_standing(__u64 packets, __u64 idle)
{
	__u64 halvings = chirp_min(idle / ADAPTIVE_VALID, 32);

	return chirp_max(packets >> halvings, chirp_min(packets, CHIRP_INITIAL * CHIRP_ONE));
}

/* After a silence of a timeout or more: the window, in parts of CHIRP_ONE, where the policy goes on with what is left of this one. */
static inline __u64 adaptive_restarts(struct chirp_adaptive *a, __u64 idle, __u64 rto, __u64 window)
{
	if (!a->srtt || idle < rto)
		return 0;
	if (a->stage == CHIRP_CHIRPING) {
		a->load = adaptive_standing(a->load, idle);
		a->unmarked = 0;
	}
	if (a->stage != CHIRP_OVER && a->stage != CHIRP_RESUMING)
		return 0;
	window = adaptive_standing(window, idle);
	a->stage = CHIRP_RESUMING;
	a->pace = (a->srtt << CHIRP_SHIFT) / chirp_max(window, CHIRP_ONE);
	a->left = window >> CHIRP_SHIFT;
	return window;
}

#endif
