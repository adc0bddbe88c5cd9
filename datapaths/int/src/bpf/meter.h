/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a hop measures: how many packets a second arrive, how many flows there are. Pure arithmetic, compiled for the host too.
 */
#ifndef PACELINE_INT_METER_H
#define PACELINE_INT_METER_H

/* The weight of a packet falls by e in this time: the format's definition of the arrival rate (namespace 0x8001, short word). */
#define RATE_TIME_NS 100000000ULL
/* Flows are those of this time (the same). */
#define FLOWS_TIME_NS 1000000000ULL
/* A flow counts from this many packets in that time on, or from what the flow of a packet
 * brought in the time before, in the mean of its packets, divided by PART (the same). */
#define ENOUGH 10
#define PART 4
/* Packets of fewer octets from the IP header on make no flow (the same). */
#define SMALLEST 256
/* One slot for each value of a flow's hash; 254 flows, the most that is reported, meet in two of them (our choice). */
#define FLOW_SLOTS 16384

#define ONE 65536ULL

/* 2^-f, both in units of 2^-30, f below 1: polynomial of degree 3 through 0, 1/3, 2/3 and 1, off by at most 1.2e-4. */
static inline __u64 half_to(__u64 f)
{
	__u64 a = 742511400, b = 248064012, c = 42423524;

	return (1ULL << 30) - (f * (a - (f * (b - (c * f >> 30)) >> 30)) >> 30);
}

/* e^(-ns / RATE_TIME_NS), in units of 2^-30. */
static inline __u64 decay(__u64 ns)
{
	__u64 halves;

	/* 2^-23 of anything counts as nothing here. */
	if (ns > 16 * RATE_TIME_NS)
		return 0;
	/* 2^30 log2(e) / RATE_TIME_NS = 15.49060. */
	halves = ns * 253802 >> 14;
	return half_to(halves & ((1 << 30) - 1)) >> (halves >> 30);
}

/* The weight of all packets so far, in units of 2^-16, after these arrived. */
static inline __u64 arrived(__u64 weight, __u64 ns, __u32 packets)
{
	__u64 share = decay(ns);

	return ((weight >> 16) * share >> 14) + ((weight & 0xffff) * share >> 30) + ((__u64)packets << 16);
}

/* Packets a second, in units of 2^-16. */
static inline __u64 rate_of(__u64 weight)
{
	return weight * (1000000000ULL / RATE_TIME_NS);
}

/* 8 log2(rate), rounded; 0 is below 1.05 a second (2^(1/16)). */
static inline __u8 rate_code(__u64 rate)
{
	/* 2^((k + 1/2) / 8) in units of 2^-31. */
	__u32 mantissa, code, exponent = 0;
	__u64 value = rate;

	if (rate < ONE)
		return 0;
	if (value >> 32) {
		value >>= 32;
		exponent += 32;
	}
	if (value >> 16) {
		value >>= 16;
		exponent += 16;
	}
	if (value >> 8) {
		value >>= 8;
		exponent += 8;
	}
	if (value >> 4) {
		value >>= 4;
		exponent += 4;
	}
	if (value >> 2) {
		value >>= 2;
		exponent += 2;
	}
	exponent += value >> 1;
	mantissa = exponent > 31 ? rate >> (exponent - 31) : rate << (31 - exponent);
	code = (exponent - 16) * 8;
	code += mantissa >= 2242560872u;
	code += mantissa >= 2445529972u;
	code += mantissa >= 2666869345u;
	code += mantissa >= 2908241642u;
	code += mantissa >= 3171459999u;
	code += mantissa >= 3458501653u;
	code += mantissa >= 3771522796u;
	code += mantissa >= 4112874773u;
	/* 255 is unknown, and 2^31 is the largest rate of the format. */
	return code > 248 ? 248 : code;
}

/* Packets from which on a flow counts, after a time with this many packets, whose flows brought these squares of packets together. */
static inline __u32 enough(__u32 packets, __u64 squares)
{
	__u64 part = squares / (PART * (__u64)(packets ? packets : 1));

	return part < 1 ? 1 : part < ENOUGH ? part : ENOUGH;
}

/* What is left of a queue: packets if its limit is in packets, else packets of the reference size. All ones are unknown. */
static inline __u32 room_left(__u32 limit_packets, __u32 packets, __u64 limit_bytes, __u64 bytes, __u32 reference)
{
	__u64 room;

	if (limit_packets)
		room = limit_packets > packets ? limit_packets - packets : 0;
	else if (limit_bytes && reference)
		room = limit_bytes > bytes ? (limit_bytes - bytes) / reference : 0;
	else
		return 0xffff;
	return room > 0xfffe ? 0xfffe : room;
}

/* Packets on the wire that a queue dropped by `drops` of its own count, the last of which was what came last, of `packets`. */
static inline __u32 dropped_packets(__u32 drops, __u32 packets)
{
	return drops ? drops - 1 + packets : 0;
}

/* The share of a queue's limit that is used, in units of 1/65535; 65534 is full. All ones are unknown. */
static inline __u32 occupancy_of(__u32 limit_packets, __u32 packets, __u64 limit_bytes, __u64 bytes)
{
	__u64 limit = limit_packets ? limit_packets : limit_bytes, used = limit_packets ? packets : bytes;

	if (!limit)
		return 0xffff;
	return used >= limit ? 0xfffe : used * 0xffff / limit;
}

/* Mixes a word into a flow's hash. The multiplier is 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4). */
static inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

#endif
