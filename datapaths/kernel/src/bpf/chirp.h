/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Chirps: trains of packets whose gaps shrink, and what the return of one shows of the path. Plain C without a library:
 * compiled for the kernel and, by the tests, natively.
 *
 * Source: Misund and Briscoe, "Paced Chirping" (2019), the modules released with it, and core/cc/src/chirp, whose integers
 * these are. Times are in nanoseconds.
 *
 * Nothing is kept of a packet: each reading takes one acknowledgement at a time.
 */
#ifndef PACELINE_CHIRP_H
#define PACELINE_CHIRP_H

#ifndef PACELINE_TCP_H
#include <linux/types.h>
#endif

/* Packets of the longest chirp (the newest kernel branch's bound). */
#define CHIRP_LONGEST 64
/* Ratios of gaps are counted in this unit, as in the released modules. */
#define CHIRP_RATIO 1024
/* Windows and numbers of round trips are counted in this part of one: our choice, 1/65536 of a packet. */
#define CHIRP_SHIFT 16
#define CHIRP_ONE (1ull << CHIRP_SHIFT)
/* A rise of the delay that falls back counts as cross traffic from this many packets on (pathChirp's L). */
#define CHIRP_EXCURSION 5
/* The module of 2018: this many gaps above the smallest so far spoil a chirp. */
#define CHIRP_WIDENINGS 5
/* Fewer exact samples than this give no estimate (core/cc/src/chirp/train.rs). */
#define CHIRP_FEWEST 4
/* Packets of an opening burst: half the initial window (the module of 2018). */
#define CHIRP_BURST 5
/* The initial window (RFC 6928). */
#define CHIRP_INITIAL 10
/* The smallest window after a reduction (RFC 5681, section 3.1). */
#define CHIRP_SMALLEST_WINDOW 2
/* A standing queue this long ends chirping (newest branch). */
#define CHIRP_OVERLOAD 30000000ull

#define CHIRP_NEVER (~0ull)

static inline __u64 chirp_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static inline __u64 chirp_max(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static inline __u64 chirp_less(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

/* a / b; the largest number where b is 0. */
static inline __u64 chirp_ratio(__u64 a, __u64 b)
{
	return b ? a / b : CHIRP_NEVER;
}

/* The plan of one chirp: the gap after its packet 0, and by how much each gap is less than the one before. */
struct chirp_plan {
	__u64 first;
	__u64 step;
	__u32 packets;
};

/* By what the fall of the gaps is divided to give the step, less than N: 0 in the modules of 2018 and 2019, 1 since. */
enum chirp_divisor { CHIRP_BY_PACKETS, CHIRP_BY_GAPS };

/* A chirp of `packets` (2 to 64) about the average gap `gap`; `geometry` is first gap over average gap, in CHIRP_RATIO. */
static inline void chirp_plan(struct chirp_plan *plan, __u32 packets, __u64 gap, __u32 geometry, enum chirp_divisor divisor)
{
	__u32 count = packets < 2 ? 2 : packets > CHIRP_LONGEST ? CHIRP_LONGEST : packets;
	__u32 ratio = geometry < CHIRP_RATIO ? CHIRP_RATIO : geometry;
	__u64 span = gap * 2 * (ratio - CHIRP_RATIO) / CHIRP_RATIO, parts = divisor == CHIRP_BY_GAPS ? count - 1 : count;

	plan->packets = count;
	plan->first = gap * ratio / CHIRP_RATIO;
	plan->step = (span + parts - 1) / parts;
}

/* The gap after packet `index`, from 0. */
static inline __u64 chirp_gap(const struct chirp_plan *plan, __u32 index)
{
	return chirp_less(plan->first, plan->step * index);
}

/* From the first packet to the last. */
static inline __u64 chirp_length(const struct chirp_plan *plan)
{
	__u64 gaps = plan->packets - 1;

	return chirp_less(plan->first * gaps, plan->step * (gaps * (gaps - 1) / 2));
}

/* Whether gaps shrank as they must: none above 5/4 of the smallest before it, fewer than five above that (module of 2018). */
struct chirp_shrinking {
	__u64 smallest;
	__u8 widenings;
	__u8 spoilt;
};

static inline void chirp_shrinking_push(struct chirp_shrinking *gaps, __u64 gap)
{
	__u64 smallest = gaps->smallest ? gaps->smallest : CHIRP_NEVER;

	/* 0 means none yet; a gap of 0 counts as one of a nanosecond. */
	gap = gap ? gap : 1;
	if (smallest != CHIRP_NEVER) {
		gaps->widenings += gap > smallest;
		gaps->spoilt |= gap > smallest + smallest / 4 || gaps->widenings >= CHIRP_WIDENINGS;
	}
	gaps->smallest = chirp_min(smallest, gap);
}

/* A rise of the delay that has not fallen back. */
struct chirp_rise {
	__s64 base;
	__s64 highest;
	/* The gap at which it began, and the number and sum of the gaps within it that queued. */
	__u64 first;
	__u64 sum;
	__u32 count;
	__u32 length;
};

/*
 * The gap at which the delay begins to rise and does not fall back. Of two forms: the last gap that did not queue, which looks
 * at a whole chirp (the modules of 2018 and 2019; here a packet behind), or the first gap that did (the newest branch).
 */
struct chirp_onset {
	/* Of the packet before: its delay, and the gap before it. */
	__s64 delay;
	__u64 gap;
	/* The delay of the next is longer when it is this much longer: what the hosts' clocks and timers add. 0 in core/cc. */
	__u64 slack;
	struct chirp_rise rise;
	/* Of rises that fell back: number and sum of the gaps that they explain. */
	__u64 explained_sum;
	__u32 explained;
	__u32 taken;
};

static inline void chirp_rise_grow(struct chirp_rise *rise, __u64 gap, int queued)
{
	rise->length++;
	if (queued) {
		rise->count++;
		rise->sum += gap;
	}
}

static inline void chirp_rise_begin(struct chirp_onset *onset, __s64 base, __u64 first)
{
	struct chirp_rise *rise = &onset->rise;

	rise->base = base;
	rise->highest = 0;
	rise->first = first;
	rise->sum = 0;
	rise->count = 0;
	rise->length = 0;
}

/* It has fallen back: if it was long, it was cross traffic. */
static inline void chirp_rise_end(struct chirp_onset *onset)
{
	if (onset->rise.length >= CHIRP_EXCURSION) {
		onset->explained += onset->rise.count;
		onset->explained_sum += onset->rise.sum;
	}
	onset->rise.length = 0;
}

/* The rise falls below this when it has lost 3/8 of its height (pathChirp's F = 1.6). */
static inline __s64 chirp_rise_floor(const struct chirp_rise *rise)
{
	return (rise->highest >> 1) + (rise->highest >> 3);
}

/* The packet before stands, and `rises` says whether the delay of the next is longer. */
static inline void chirp_settle(struct chirp_onset *onset, int rises)
{
	struct chirp_rise *rise = &onset->rise;
	__s64 height = onset->delay - rise->base;

	if (rise->length && height >= 0 && height > chirp_rise_floor(rise)) {
		rise->highest = height > rise->highest ? height : rise->highest;
		chirp_rise_grow(rise, onset->gap, rises);
	} else {
		chirp_rise_end(onset);
	}
	if (!rise->length && rises) {
		chirp_rise_begin(onset, onset->delay, onset->gap);
		chirp_rise_grow(rise, onset->gap, 1);
	}
}

/* The next packet: the gap before it (of no meaning for the first), and its delay, of which differences alone matter. */
static inline void chirp_last_push(struct chirp_onset *onset, __u64 gap, __s64 delay)
{
	if (onset->taken > 1)
		chirp_settle(onset, onset->delay + (__s64)onset->slack < delay);
	onset->taken++;
	onset->delay = delay;
	onset->gap = gap;
}

/* After the last packet: the last gap that did not queue, 0 for fewer than two packets. */
static inline __u64 chirp_last_gap(struct chirp_onset *onset)
{
	__u64 gaps = onset->taken - 1, others, sample;

	if (onset->taken < 2)
		return 0;
	chirp_settle(onset, 0);
	sample = onset->rise.length ? onset->rise.first : onset->gap;
	others = gaps - onset->explained;
	return (onset->explained_sum + sample * others) / gaps;
}

/* As chirp_last_push, of a chirp of `packets`, for the first gap that queued. */
static inline void chirp_first_push(struct chirp_onset *onset, __u32 packets, __u64 gap, __s64 delay)
{
	struct chirp_rise *rise = &onset->rise;
	__s64 before = onset->delay, height;
	int queued;

	onset->taken++;
	onset->delay = delay;
	onset->gap = gap;
	if (onset->taken == 1)
		return;
	queued = before < delay && onset->taken < packets;
	/* It is open from `first` on, also where its length is still 0. */
	if (!rise->first && queued)
		chirp_rise_begin(onset, before, gap);
	if (!rise->first)
		return;
	height = before > rise->base ? before - rise->base : 0;
	if (height >= chirp_rise_floor(rise)) {
		rise->highest = height > rise->highest ? height : rise->highest;
		chirp_rise_grow(rise, gap, queued);
		return;
	}
	chirp_rise_end(onset);
	rise->first = 0;
	if (queued) {
		chirp_rise_begin(onset, before, gap);
		chirp_rise_grow(rise, gap, 1);
	}
}

/* After the last packet of `packets`: the first gap that queued, 0 where packets are missing. */
static inline __u64 chirp_first_gap(const struct chirp_onset *onset, __u32 packets)
{
	__u64 gaps = packets - 1, sample = onset->rise.first ? onset->rise.first : onset->gap;

	if (packets < 2 || onset->taken != packets)
		return 0;
	return (onset->explained_sum + sample * (gaps - onset->explained)) / gaps;
}

enum chirp_kind { CHIRP_NONE, CHIRP_OF_NO_GAPS, CHIRP_OF_GAPS, CHIRP_OF_THE_REST };

/* A train of packets in flight, and what its return has shown so far. */
struct chirp_train {
	struct chirp_plan plan;
	/* Sequence numbers of its first byte, and behind its last one once all of it has left. */
	__u32 start;
	__u32 end;
	__u8 kind;
	__u8 sent;
	__u8 acked;
	/* A packet was short, lost, sent again or out of order: it shows nothing. */
	__u8 spoilt;
	/* Packets whose arrival is known; index of the first and of the last of them. */
	__u8 samples;
	__u8 first_index;
	__u8 last_index;
	/* Packets that shared an acknowledgement, and those that were marked. */
	__u8 coarse;
	__u16 marked;
	/* Packets that came close behind another, and pauses before others. */
	__u8 aggregated;
	__u8 jumps;
	/* Of the last known packet, and of the first. */
	__u64 sent_at;
	__u64 arrived_at;
	__u64 first_arrived;
	/* Between known packets. */
	__u64 first_gap;
	__u64 last_gap;
	/* Shortest wait in the queue. */
	__u64 least_queue;
	struct chirp_shrinking shrinking;
	struct chirp_onset onset;
};

/* Forgets what was there before. */
static inline void chirp_train_begin(struct chirp_train *train, enum chirp_kind kind, __u32 packets)
{
	const struct chirp_train empty = { .least_queue = CHIRP_NEVER };

	*train = empty;
	train->kind = kind;
	train->plan.packets = packets;
}

/* Its packet `index` left at `sent` and arrived at `arrived`, by one clock or by two. One after a later one is left out. */
static inline void chirp_train_push(struct chirp_train *train, __u32 index, __u64 sent, __u64 arrived)
{
	__u64 gap = 0;

	if (train->samples && train->last_index >= index)
		return;
	if (train->samples) {
		gap = chirp_less(sent, train->sent_at) / (index - train->last_index);
		chirp_shrinking_push(&train->shrinking, gap);
		if (train->samples == 1)
			train->first_gap = gap;
		train->last_gap = gap;
	} else {
		train->first_index = index;
		train->first_arrived = arrived;
	}
	chirp_last_push(&train->onset, gap, (__s64)(arrived - sent));
	train->samples++;
	train->last_index = index;
	train->sent_at = sent;
	train->arrived_at = arrived;
}

/* Mean gap at which its packets arrived; 0 when they came together. */
static inline __u64 chirp_dispersion(const struct chirp_train *train)
{
	__u32 gaps = train->last_index - train->first_index;

	return gaps && train->samples ? chirp_less(train->arrived_at, train->first_arrived) / gaps : 0;
}

/* What a train shows. Gaps are what the path can carry. */
#define CHIRP_UNSEEN 0ull
/* The packets did not leave with shrinking gaps: the host cannot keep them. */
#define CHIRP_RAGGED CHIRP_NEVER

/* What a burst without gaps shows: the bottleneck's own gap. */
static inline __u64 chirp_read_burst(const struct chirp_train *train)
{
	return train->spoilt ? CHIRP_UNSEEN : chirp_dispersion(train);
}

/* What a chirp shows: between the last gap that did not queue and the first that did. */
static inline __u64 chirp_read(struct chirp_train *train)
{
	__u64 onset, step;

	if (train->spoilt || train->samples < CHIRP_FEWEST)
		return CHIRP_UNSEEN;
	if (train->shrinking.spoilt)
		return CHIRP_RAGGED;
	onset = chirp_last_gap(&train->onset);
	/* The path is slower than any gap of the chirp: what arrived shows how slow. */
	if (onset >= train->first_gap)
		return chirp_max(train->first_gap, chirp_dispersion(train));
	step = chirp_less(train->first_gap, train->last_gap) / (train->samples - 2);
	/* The queue grew by more than the slack, so that the path's gap is this much wider than this one. */
	return chirp_less(onset + train->onset.slack, step / 2);
}

#endif
