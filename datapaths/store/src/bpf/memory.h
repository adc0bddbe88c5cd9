/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What user space fills in, and what it reads: units, addresses, settings, counts. */
#ifndef PACELINE_STORE_MEMORY_H
#define PACELINE_STORE_MEMORY_H

#include "../../../kernel/src/bpf/layout.h"
#include "request.h"

/* core/icn: UNIT. */
#define UNIT 1400
/* src/store.rs: PART_UNITS. A power of two. */
#define SLAB 64

struct unit {
	/* Of its bytes, as checksums of the Internet are added up, in the order of this machine. */
	__u16 sum;
	__u16 unused[3];
	__u8 bytes[UNIT];
};

/* Units in a row: the name (33 bytes), and the number of the first one over SLAB (7 bytes, the lowest first). */
struct part {
	__u64 words[5];
};

struct slab {
	__u32 index;
	/* That it has, all of them whole. */
	__u32 units;
	/* Of the object. */
	__u64 stored_units;
	/* When it was asked for last, by the router's clock. */
	__u64 used;
};

/* src/settings.rs writes it. Times are nanoseconds. */
struct settings {
	/* Of tokens: of an even and an odd hour. */
	__u64 keys[2][2];
	/* Of the buckets' places. */
	__u64 places;
	/* The time since 1970 less the monotonic clock. */
	__u64 unix_offset;
	/* The monotonic clock when the router's was zero. */
	__u64 origin;
	/* What an answer takes out of a bucket, and what that holds: of a source, of a /48. 0: no limit. */
	__u64 cost, room, site_cost, site_room;
	/* The same of the link; what may leave ahead of it. */
	__u64 link_cost, link_slack;
	/* As in packets: the router's port, the interface's address on the link. */
	__u64 port;
	__u8 link[8];
};
PLACE(struct settings, link, 112);

/* src/counters.rs has them in this order. */
struct counts {
	__u64 answered, busy, missed, bad_tokens, dropped, renewals, paced, no_room;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLAB);
	__type(key, __u32);
	__type(value, struct unit);
} units SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct part);
	__type(value, struct slab);
} parts SEC(".maps");

/* Addresses of this host that are answered for; those of IPv4 mapped into IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct address);
	__type(value, __u8);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

#endif
