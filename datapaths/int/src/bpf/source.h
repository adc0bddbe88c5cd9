/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the source's two programs share: options, counters, flows, and which are selected. */
#ifndef PACELINE_INT_SOURCE_H
#define PACELINE_INT_SOURCE_H

#include "kernel.h"

/* A header as it is inserted, but for the room for records, which is zero, and for what it says of its own packet. */
struct template {
	__u32 octets;
	/* Where its edge option begins. */
	__u32 edge_at;
	/* Up to the room for records. */
	__be32 trace[4];
	/* The first word of the edge option, and the one behind the option, where octets says that there is one: padding. */
	__be32 edge;
	__be32 padding;
	/* It has the word, which asks for one signal after the other. */
	__u32 word;
};

/* The loader writes it. */
const volatile struct {
	/* Octets before the IPv6 header. */
	__u32 l2;
	/* The usual header, and every full_every-th (0: none) of the full profile. */
	struct template usual;
	struct template full;
	__u32 full_every;
	/* A header on one buffer of this many, and so many microseconds after the last at the earliest. */
	__u32 one_in;
	__u32 every_us;
	/* One of these leaves packets out, which have numbers too then. */
	__u32 sampled;
	/* Flows of UDP as well. */
	__u32 udp;
	/* What selects: all that are set must hold. */
	__u32 by_port;
	__u32 by_address;
	__u32 by_cgroup;
	/* Octets of the largest header: this much lower is the segment size. */
	__u32 reserve;
	/* Time is of TAI rather than of this machine alone. */
	__u32 tai;
	/* Longest time without a report, and how long there are no headers then; 0: headers whatever comes back. */
	__u32 patience_ms;
	__u32 pause_ms;
} config SEC(".rodata.config") = { .l2 = 14 };

/* As src/source.rs has them. */
enum {
	INSERTED,
	PACKETS,
	FULL,
	TOO_BIG,
	FOREIGN_HEADER,
	FRAGMENTS,
	NOT_IPV6,
	OTHER_PROTOCOL,
	NOT_SELECTED,
	SAMPLED_OUT,
	PAUSED,
	PAUSES,
	FAILED,
	SEGMENT_SIZES,
	PATH_MTUS,
	FORGED_MTUS,
	COUNTER_COUNT,
};
COUNTERS(COUNTER_COUNT)

/* Which ports select, a bit for each, by its number in the order of packets. The loader writes it. */
const volatile __u32 ports[65536 / 32] SEC(".rodata.ports") = {};

static __always_inline int has_port(__be16 port)
{
	return ports[port / 32] >> port % 32 & 1;
}

struct address {
	__u32 prefix;
	__be32 of[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct address);
	__type(value, __u8);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Headers without a report that a flow must have had before there are none for a while (our choice, the simulator's). */
#define UNANSWERED 10

/* What is known of a flow's way. */
enum {
	/* Nothing yet: there is no header. */
	UNTRIED,
	/* It carries headers: each packet of new data has one. */
	OPEN,
	/* One header is on its way, or reports have stopped: there is no other before a report. */
	ASKING,
};

/* A flow with headers; what it says besides the sequence is read by user space. Times are of CLOCK_MONOTONIC. */
struct flow {
	__u64 cookie;
	__u64 headers;
	__u64 last_ns;
	/* The first header that no report has come after; of the first of all while there was none ever. */
	__u64 waiting_ns;
	__u64 paused_until_ns;
	/* Packets with a header so far, and buffers that were looked at. */
	__u32 sequence;
	__u32 seen;
	__u32 reported;
	/* Of the path, where a router has said it at mtu_ns; else 0. */
	__u32 mtu;
	/* What headers was at waiting_ns. */
	__u64 waiting_headers;
	__u64 mtu_ns;
	/* When its last data left. */
	__u64 seen_ns;
	/* TCP's sequence number behind the highest that has left. */
	__u32 next;
	__u32 state;
	/* Buffers that could have had the first header and were too many packets, or alone on their way. */
	__u32 spared;
	/* It has sent its FIN. */
	__u32 ended;
	/* When its first data left. */
	__u64 begun_ns;
	/* Headers before the next full one. */
	__u32 until_full;
	/* TCP's or UDP's number. */
	__u32 protocol;
};
/* src/flows.rs. */
PLACE(struct flow, cookie, 0);
PLACE(struct flow, headers, 8);
PLACE(struct flow, last_ns, 16);
PLACE(struct flow, paused_until_ns, 32);
PLACE(struct flow, sequence, 40);
PLACE(struct flow, seen_ns, 72);
PLACE(struct flow, ended, 92);
PLACE(struct flow, begun_ns, 96);

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pl_tuple);
	__type(value, struct flow);
} pl_int_flows SEC(".maps");

/* What is known of the way to an address. */
struct path {
	/* Its MTU, where a router has said it at at_ns. */
	__u64 at_ns;
	__u64 mtu;
	/* When a header left that asks whether any arrive (0: none does), when the last such question was given up, until when none is
	 * asked, and how many were given up in a row. */
	__u64 asked_ns;
	__u64 failed_ns;
	__u64 silent_until_ns;
	__u64 silences;
};

struct to {
	__be32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct to);
	__type(value, struct path);
} paths SEC(".maps");

/* The way of a flow; none where there is no memory for it. */
static __always_inline struct path *path_of(const struct pl_tuple *tuple)
{
	struct path *path = bpf_map_lookup_elem(&paths, tuple->destination), fresh = {};

	if (path)
		return path;
	bpf_map_update_elem(&paths, tuple->destination, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&paths, tuple->destination);
}

/* When a report of any flow to an address came last: user space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct to);
	__type(value, __u64);
} pl_int_heard SEC(".maps");

/* When a report of a flow came last: user space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pl_tuple);
	__type(value, __u64);
} pl_int_reports SEC(".maps");

/* Where the headers of a packet of TCP over IPv6 are; or of UDP, which has its ports in the same places. */
struct packet {
	struct ipv6hdr *ip;
	struct tcphdr *tcp;
};

static __always_inline int headers_of(struct __sk_buff *skb, struct packet *packet)
{
	void *data = packet_data(skb), *end = packet_end(skb);
	__u32 length = config.l2 + sizeof(struct ipv6hdr) + sizeof(struct tcphdr);

	if (data + length > end)
		return 0;
	packet->ip = data + config.l2;
	packet->tcp = (void *)(packet->ip + 1);
	return 1;
}

static __always_inline void copy_address(__be32 *to, const __be32 *from)
{
	for (int at = 0; at < 4; at++)
		to[at] = from[at];
}

static __always_inline int has_address(const __be32 *of)
{
	struct address address = { .prefix = 128 };

	copy_address(address.of, of);
	return bpf_map_lookup_elem(&addresses, &address) != 0;
}

/* By what both directions of a flow have in common. */
static __always_inline int is_selected(const struct packet *packet)
{
	if (config.by_port && !has_port(packet->tcp->source) && !has_port(packet->tcp->dest))
		return 0;
	return !config.by_address || has_address(packet->ip->saddr) || has_address(packet->ip->daddr);
}

#endif
