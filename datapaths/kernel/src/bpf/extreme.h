/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The smallest or largest RTT of the last this many microseconds, in bounded memory: a monotone queue, each entry of which beats all
 * later ones. A sample that does not beat the newest entry and follows its opening by less than a slice of the window only
 * prolongs that entry: an extreme is never forgotten early, and is remembered at most a slice too long. As core/cc/src/filter.rs.
 * Plain C without a library.
 *
 * Times are in microseconds and wrap around; what is remembered is younger than half an hour.
 */
#ifndef PACELINE_EXTREME_H
#define PACELINE_EXTREME_H

#include "window.h"

#define EXTREME_SLICES 32
/* Twice the slices, because a window may grow while entries of the shorter one are still held. A power of two. */
#define EXTREME_ENTRIES 64

struct extreme {
	u32 first;
	u32 count;
	struct {
		u32 value;
		/* When its first and its last sample came. */
		u32 opened;
		u32 seen;
	} entries[EXTREME_ENTRIES];
};

arithmetic u32 extreme_at(const struct extreme *e, u32 place)
{
	return (e->first + place) % EXTREME_ENTRIES;
}

/* There has been a sample. */
arithmetic int extreme_known(const struct extreme *e)
{
	return e->count != 0;
}

/* The extreme; 0 before the first sample. The last sample never expires. */
arithmetic u32 extreme_of(const struct extreme *e)
{
	return e->count ? e->entries[extreme_at(e, 0)].value : 0;
}

/* For how long the extreme has not been seen. */
arithmetic u32 extreme_age(const struct extreme *e, u32 now)
{
	return e->count ? now - e->entries[extreme_at(e, 0)].opened : 0;
}

/* Takes a sample and forgets what is older than `window`, whose length may differ from call to call. */
arithmetic void extreme_update(struct extreme *e, int largest, u32 now, u32 value, u32 window)
{
	u32 last, at;

	for (at = 0; at < EXTREME_ENTRIES && e->count; at++) {
		u32 newest = e->entries[extreme_at(e, e->count - 1)].value;

		/* Equal counts as beating: the newer sample lives longer. */
		if (largest ? value < newest : value > newest)
			break;
		e->count--;
	}
	last = extreme_at(e, e->count - 1);
	if (e->count && (now - e->entries[last].opened < window / EXTREME_SLICES || e->count >= EXTREME_ENTRIES)) {
		e->entries[last].seen = now;
	} else {
		last = extreme_at(e, e->count);
		e->entries[last].value = value;
		e->entries[last].opened = now;
		e->entries[last].seen = now;
		e->count++;
	}
	for (at = 0; at < EXTREME_ENTRIES && e->count > 1; at++) {
		if (now - e->entries[extreme_at(e, 0)].seen <= window)
			break;
		e->first = extreme_at(e, 1);
		e->count--;
	}
}

#endif
