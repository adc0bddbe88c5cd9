/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a hop sees: its queue, and what arrives there: of which flows, how often, and what of it is dropped.
 *
 * Source: docs/design/telemetry-wire.md for what is counted; Linux include/net/sch_generic.h.
 */
#ifndef PACELINE_INT_QUEUE_H
#define PACELINE_INT_QUEUE_H

#include "kernel.h"
#include "meter.h"
#include "wire.h"

/* The loader writes it. */
const volatile struct {
	__u64 limit_bytes;
	__u64 seed;
	__u32 l2;
	/* 24 bits. */
	__u32 node;
	__u32 egress;
	__u32 limit_packets;
	/* Octets of a packet that a limit in octets counts for. */
	__u32 reference;
	/* Time is of TAI rather than of this machine alone. */
	__u32 tai;
	/* Buffers of more octets are queued packet by packet. */
	__u32 whole;
} config SEC(".rodata.config") = { .l2 = 14 };

/* What arrived lately; and of flows, in this second and in the one before, how many count, how many packets they all brought,
 * and the squares of what each did. */
struct meter {
	/* A processor works on it; the others go on meanwhile, and leave their packets to the next that does. */
	__u32 taken;
	__u32 flows[2];
	__u32 brought[2];
	/* Which second it is, and when that is over. */
	__u32 epoch;
	__u64 ends_ns;
	__u64 weight;
	__u64 last_ns;
	/* Drops when the last buffer came, whose it was, and for how many packets a drop of it stands. */
	__u32 drops;
	__u32 slot;
	__u32 stands;
	/* Drops in packets, from the queue's own count on; read by user space. */
	__u32 lost;
	__u32 begun;
	__u32 waiting;
	__u64 squares[2];
};
/* src/transit.rs. */
PLACE(struct meter, lost, 60);
PLACE(struct meter, begun, 64);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct meter);
} meters SEC(".maps");

/* Packets by flow: the second in the upper half, how many came in it in the lower one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} seen SEC(".maps");

/* Drops by flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} dropped SEC(".maps");

/* A queue, as the kernel counts it. */
struct queue {
	__u32 packets;
	__u32 drops;
	__u64 bytes;
	int known;
};

static __always_inline void add(struct queue *queue, struct Qdisc *qdisc)
{
	/* Counted by processor: not in one place. */
	if (BPF_CORE_READ(qdisc, flags) & TCQ_F_CPUSTATS)
		queue->known = 0;
	queue->packets += BPF_CORE_READ(qdisc, q.qlen);
	queue->bytes += BPF_CORE_READ(qdisc, qstats.backlog);
	queue->drops += BPF_CORE_READ(qdisc, qstats.drops);
}

/* Device queues of an interface with a queue for each that are added up (our choice: what a hop is asked to do for a packet). */
#define QUEUES_MAX 16

static __always_inline void look_at(struct __sk_buff *skb, struct queue *queue)
{
	struct net_device *dev = kernel_view(skb)->dev;
	struct netdev_queue *queues = dev->_tx;
	struct Qdisc *first = queues->qdisc;
	__u32 count_of = dev->real_num_tx_queues;

	queue->known = 1;
	if (first == dev->qdisc || count_of == 1) {
		if (first->flags & TCQ_F_CPUSTATS)
			queue->known = 0;
		queue->packets = first->q.qlen;
		queue->bytes = first->qstats.backlog;
		queue->drops = first->qstats.drops;
		return;
	}
	for (__u32 at = 0; at < QUEUES_MAX && at < count_of; at++) {
		struct netdev_queue *one = (void *)queues + at * bpf_core_type_size(struct netdev_queue);

		add(queue, BPF_CORE_READ(one, qdisc));
	}
}

/* Of which flow a buffer is (0: of none that shares a queue), for how many packets and octets on the wire it stands, and how many of the
 * packets are large enough to make a flow. */
struct arrival {
	__u64 hash;
	__u32 packets;
	__u32 octets;
	__u32 large;
};

/* Addresses, protocol and ports make a flow, behind a header of telemetry too. Answers the octets of the headers, as far as they are known. */
static __always_inline __u32 flow_of(struct __sk_buff *skb, __u64 *flow)
{
	void *data = packet_data(skb), *end = packet_end(skb);
	__u32 at, ports, headers = 0;
	__u64 hash = config.seed;
	struct tcphdr *transport;
	__u8 protocol;

	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + config.l2;

		if ((void *)(ip + 1) > end)
			return config.l2;
		/* Two at a time: a multiplication waits for the one before. */
		hash = mixed(mixed(hash, ip->saddr[0] | (__u64)ip->daddr[0] << 32), ip->saddr[1] | (__u64)ip->daddr[1] << 32);
		hash ^= mixed(mixed(~config.seed, ip->saddr[2] | (__u64)ip->daddr[2] << 32), ip->saddr[3] | (__u64)ip->daddr[3] << 32);
		protocol = ip->nexthdr;
		at = config.l2 + sizeof(*ip);
		if (protocol == IPPROTO_HOPOPTS) {
			__u8 *options = (void *)(ip + 1);

			if ((void *)(options + 2) > end)
				return config.l2;
			protocol = options[0];
			at += (options[1] + 1) * 8;
		}
	} else if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + config.l2;

		if ((void *)(ip + 1) > end)
			return config.l2;
		hash = mixed(hash, ip->saddr | (__u64)ip->daddr << 32);
		protocol = ip->protocol;
		at = config.l2 + (ip->version_and_words & 15) * 4;
		/* Only the first fragment has ports. */
		if (ip->frag_off & bpf_htons(0x3fff))
			protocol = 0;
	} else {
		return config.l2;
	}
	if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
		return config.l2;
	transport = data + at;
	if (protocol == IPPROTO_TCP && (void *)(transport + 1) <= end) {
		hash = mixed(hash, *(__u32 *)transport);
		headers = (transport->words >> 4) * 4;
	} else if ((protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) && !bpf_skb_load_bytes(skb, at, &ports, sizeof(ports))) {
		hash = mixed(hash, ports);
		headers = 8;
	}
	*flow = mixed(hash, protocol) | 1;
	return at + headers;
}

static __always_inline void look_at_arrival(struct __sk_buff *skb, struct arrival *arrival)
{
	arrival->hash = 0;
	arrival->octets = skb->wire_len;
	arrival->packets = wire_packets(skb, flow_of(skb, &arrival->hash));
	arrival->large = arrival->hash && (arrival->packets > 1 || skb->len >= config.l2 + SMALLEST) ? arrival->packets : 0;
}

/* Whether a flow counts from these packets of it on, and what they add to the squares. What two processors count at once may count once. */
static __always_inline int begins_to_count(const struct arrival *arrival, const struct meter *meter, __u32 epoch, __u64 *squares)
{
	__u32 slot = arrival->hash >> 8 & (FLOW_SLOTS - 1), before, after, least, last = !(epoch & 1);
	__u32 *of = bpf_map_lookup_elem(&seen, &slot);

	if (!of)
		return 0;
	before = *(volatile __u32 *)of;
	before = before >> 16 == (epoch & 0xffff) ? before & 0xffff : 0;
	after = before + arrival->large;
	if (after > 0xffff)
		after = 0xffff;
	*(volatile __u32 *)of = epoch << 16 | after;
	*squares = (__u64)after * after - (__u64)before * before;
	/* It is never more. */
	if (before >= ENOUGH)
		return 0;
	least = enough(meter->brought[last], meter->squares[last]);
	return before < least && after >= least;
}

struct measured {
	__u64 rate;
	__u32 flows;
	__u32 drops;
	/* Whose drops are the flow's own. */
	__u32 slot;
};

/* Another second begins. */
static __always_inline void begin(struct meter *meter, __u64 now)
{
	__u32 epoch = now / FLOWS_TIME_NS, half = epoch & 1, behind = epoch - meter->epoch;

	meter->epoch = epoch;
	meter->ends_ns = (epoch + 1) * FLOWS_TIME_NS;
	meter->flows[half] = meter->brought[half] = meter->squares[half] = 0;
	/* Nothing came for a second or more. */
	if (behind > 1)
		meter->flows[!half] = meter->brought[!half] = meter->squares[!half] = 0;
}

/* Takes a buffer in. What a queue that drops at its tail has dropped is what came last; answers how many packets that was. */
static __always_inline __u32 take(struct meter *meter, const struct arrival *arrival, __u64 now, const struct queue *queue, __u32 slot)
{
	__u32 drops = queue->drops, packets = arrival->packets, lost = 0, counts = 0, half;
	__u64 share = 0, squares = 0;

	if ((__s64)(now - meter->ends_ns) >= 0)
		begin(meter, now);
	half = meter->epoch & 1;
	if (arrival->large)
		counts = begins_to_count(arrival, meter, meter->epoch, &squares);
	if (meter->waiting)
		packets += __sync_lock_test_and_set(&meter->waiting, 0);
	if (now > meter->last_ns) {
		share = now - meter->last_ns;
		meter->last_ns = now;
	}
	meter->weight = arrived(meter->weight, share, packets);
	meter->flows[half] += counts;
	meter->squares[half] += squares;
	meter->brought[half] += arrival->large;
	if (!meter->begun) {
		meter->drops = drops;
		meter->lost = drops;
	} else if ((__s32)(drops - meter->drops) > 0) {
		lost = dropped_packets(drops - meter->drops, meter->stands);
		meter->drops = drops;
		meter->lost += lost;
	}
	meter->stands = arrival->octets > config.whole ? 1 : arrival->packets;
	meter->begun = queue->known;
	return lost;
}

static __always_inline void measure(const struct arrival *arrival, __u64 now, const struct queue *queue, struct measured *measured)
{
	__u32 slot = arrival->hash >> 40 & (FLOW_SLOTS - 1), zero = 0, before, lost, *of;
	struct meter *meter = bpf_map_lookup_elem(&meters, &zero);

	measured->rate = 0;
	measured->flows = 1;
	measured->drops = queue->drops;
	measured->slot = slot;
	if (!meter)
		return;
	if (__sync_val_compare_and_swap(&meter->taken, 0, 1)) {
		__sync_fetch_and_add(&meter->waiting, arrival->packets);
	} else {
		before = meter->slot;
		lost = take(meter, arrival, now, queue, slot);
		meter->slot = slot;
		*(volatile __u32 *)&meter->taken = 0;
		if (lost) {
			of = bpf_map_lookup_elem(&dropped, &before);
			if (of)
				__sync_fetch_and_add(of, lost);
		}
	}
	measured->rate = rate_of(meter->weight);
	measured->flows = meter->flows[0] > meter->flows[1] ? meter->flows[0] : meter->flows[1];
	measured->drops = meter->lost;
	if (!measured->flows)
		measured->flows = 1;
}

/* The flow's own drops, and the share of the queue that is in use. */
static __always_inline __be32 queue_word(const struct queue *queue, __u32 slot)
{
	__u32 *drops = bpf_map_lookup_elem(&dropped, &slot);
	__u32 share = occupancy_of(queue->known ? config.limit_packets : 0, queue->packets, queue->known ? config.limit_bytes : 0,
				   queue->bytes);

	return bpf_htonl((queue->known && drops ? *drops & 0xffff : UNKNOWN16) << 16 | share);
}

#endif
