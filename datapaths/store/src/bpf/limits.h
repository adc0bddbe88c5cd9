/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The router's limits, in memory that it has too (core/icn/src/limiter.rs). */
#ifndef PACELINE_STORE_LIMITS_H
#define PACELINE_STORE_LIMITS_H

#include "memory.h"
#include "request.h"
#include "siphash.h"

/* A power of two. */
#define BUCKETS 65536

struct bucket {
	__u64 full_at;
	__u64 tag;
};

/* The first is the link's, and the one of bad tokens. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 + BUCKETS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Limiter::place. */
INLINE struct bucket *bucket_of(__u64 now, __u64 hash)
{
	__u32 one = 1 + (hash & (BUCKETS - 1)), other = 1 + (hash >> 16 & (BUCKETS - 1));
	struct bucket *a = bpf_map_lookup_elem(&buckets, &one), *b = bpf_map_lookup_elem(&buckets, &other);
	__u64 tag = hash | 1;

	if (!a || !b)
		return 0;
	if (a->tag == tag)
		return a;
	if (b->tag == tag)
		return b;
	if (a->full_at <= now) {
		a->tag = tag;
		return a;
	}
	if (b->full_at <= now) {
		b->tag = tag;
		return b;
	}
	return a->full_at > b->full_at ? b : a;
}

enum taken { TAKEN, OVER, LOST };

/* Takes `cost` where that leaves no more than until `most`; else `over` is how long it takes until it does. Others may be faster. */
INLINE enum taken take(__u64 *full_at, __u64 now, __u64 cost, __u64 most, __u64 *over)
{
	int tries;

#pragma unroll
	for (tries = 0; tries < 4; tries++) {
		__u64 had = *(volatile __u64 *)full_at, after = (had > now ? had : now) + cost;

		if (after > most) {
			*over = after - most;
			return OVER;
		}
		if (__sync_val_compare_and_swap(full_at, had, after) == had)
			return TAKEN;
	}
	return LOST;
}

/* Limits::take. */
INLINE enum taken charge(const struct settings *set, const struct sender *from, __u64 now, __u64 *over)
{
	struct bucket *site = 0, *source;
	enum taken taken;

	if (!set->cost)
		return TAKEN;
	if (from->ipv6) {
		site = bucket_of(now, hash_of(set->places, from->prefix >> 16, 7));
		if (!site)
			return LOST;
		taken = take(&site->full_at, now, set->site_cost, now + set->site_room, over);
		if (taken != TAKEN)
			return taken;
	}
	source = bucket_of(now, hash_of(set->places, from->prefix, from->ipv6 ? 6 : 4));
	taken = source ? take(&source->full_at, now, set->cost, now + set->room, over) : LOST;
	if (taken != TAKEN && site)
		__sync_fetch_and_add(&site->full_at, -set->site_cost);
	return taken;
}

#endif
