// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A hop: writes what it sees into the headers that pass, at the interface that they leave through: what is left of its queue, how
 * many packets a second and how many flows enter it, how much it has dropped.
 *
 * A record has fields in the order of the trace type's bits (RFC 9197 section 4.4.1); a hop fills the room from its end, so that the
 * first hop's is last. What a hop does not know is all ones.
 *
 * Source: RFC 9197; docs/design/telemetry-wire.md for namespace 0x8001; Linux include/net/sch_generic.h.
 */
#include "kernel.h"
#include "meter.h"
#include "radio.h"
#include "wire.h"

char _license[] SEC("license") = "Dual MIT/GPL";

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

/* As src/transit.rs has them. */
enum {
	WRITTEN,
	PACKETS,
	OVERFLOW,
	UNKNOWN_NAMESPACE,
	UNKNOWN_PROFILE,
	FOREIGN_HEADER,
	FAILED,
	COUNTER_COUNT,
};
COUNTERS(COUNTER_COUNT)

/* What arrived lately; and of flows, in this second and in the one before, how many count, how many packets they all brought,
 * and the squares of what each did. */
struct meter {
	struct bpf_spin_lock lock;
	__u32 flows[2];
	__u32 brought[2];
	__u32 epoch;
	__u64 weight;
	__u64 last_ns;
	/* Drops when the last buffer came, whose it was, and for how many packets a drop of it stands. */
	__u32 drops;
	__u32 slot;
	__u32 stands;
	/* Drops in packets, from the queue's own count on; read by user space. */
	__u32 lost;
	__u32 begun;
	__u64 squares[2];
};
/* src/transit.rs. */
PLACE(struct meter, lost, 52);
PLACE(struct meter, begun, 56);

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

/* Addresses, protocol and ports make a flow, behind a header of telemetry too. */
static __always_inline void arrival_of(struct __sk_buff *skb, struct arrival *arrival)
{
	void *data = packet_data(skb), *end = packet_end(skb);
	__u32 at, ports, headers = 0;
	__u64 hash = config.seed;
	struct tcphdr *transport;
	__u8 protocol;

	arrival->hash = 0;
	arrival->octets = skb->wire_len;
	arrival->large = 0;
	arrival->packets = wire_packets(skb, config.l2);
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + config.l2;

		if ((void *)(ip + 1) > end)
			return;
		for (int word = 0; word < 4; word++)
			hash = mixed(hash, ip->saddr[word] | (__u64)ip->daddr[word] << 32);
		protocol = ip->nexthdr;
		at = config.l2 + sizeof(*ip);
		if (protocol == IPPROTO_HOPOPTS) {
			__u8 *options = (void *)(ip + 1);

			if ((void *)(options + 2) > end)
				return;
			protocol = options[0];
			at += (options[1] + 1) * 8;
		}
	} else if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + config.l2;

		if ((void *)(ip + 1) > end)
			return;
		hash = mixed(hash, ip->saddr | (__u64)ip->daddr << 32);
		protocol = ip->protocol;
		at = config.l2 + (ip->version_and_words & 15) * 4;
		/* Only the first fragment has ports. */
		if (ip->frag_off & bpf_htons(0x3fff))
			protocol = 0;
	} else {
		return;
	}
	if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
		return;
	transport = data + at;
	if (protocol == IPPROTO_TCP && (void *)(transport + 1) <= end) {
		hash = mixed(hash, *(__u32 *)transport);
		headers = (transport->words >> 4) * 4;
	} else if ((protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) && !bpf_skb_load_bytes(skb, at, &ports, sizeof(ports))) {
		hash = mixed(hash, ports);
		headers = 8;
	}
	arrival->hash = mixed(hash, protocol) | 1;
	arrival->packets = wire_packets(skb, at + headers);
	if (arrival->packets > 1 || skb->len >= config.l2 + SMALLEST)
		arrival->large = arrival->packets;
}

/* Whether a flow counts from these packets of it on, and what they add to the squares. What two processors count at once may count once. */
static __always_inline int begins_to_count(const struct arrival *arrival, __u32 epoch, __u32 least, __u64 *squares)
{
	__u32 slot = arrival->hash >> 8 & (FLOW_SLOTS - 1), before, after;
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
	return before < least && after >= least;
}

struct measured {
	__u64 rate;
	__u32 flows;
	/* Of all flows, and of those of the packet's slot. */
	__u32 drops;
	__u32 dropped;
};

static __always_inline void measure(const struct arrival *arrival, __u64 now, const struct queue *queue, struct measured *measured)
{
	__u64 hash = arrival->hash;
	__u32 slot = hash >> 40 & (FLOW_SLOTS - 1), drops = queue->drops, before = 0, lost = 0, *of;
	__u32 epoch = now / FLOWS_TIME_NS, zero = 0, half = epoch & 1, behind, counts = 0;
	struct meter *meter = bpf_map_lookup_elem(&meters, &zero);
	__u64 share, squares = 0;

	measured->rate = 0;
	measured->flows = 1;
	measured->drops = drops;
	measured->dropped = 0;
	if (!meter)
		return;
	if (meter->epoch != epoch) {
		bpf_spin_lock(&meter->lock);
		behind = epoch - meter->epoch;
		meter->epoch = epoch;
		if (behind) {
			meter->flows[half] = meter->brought[half] = meter->squares[half] = 0;
			/* Nothing came for a second or more. */
			if (behind > 1)
				meter->flows[!half] = meter->brought[!half] = meter->squares[!half] = 0;
		}
		bpf_spin_unlock(&meter->lock);
	}
	if (hash && arrival->large)
		counts = begins_to_count(arrival, epoch, enough(meter->brought[!half], meter->squares[!half]), &squares);
	bpf_spin_lock(&meter->lock);
	if (now > meter->last_ns) {
		share = now - meter->last_ns;
		meter->last_ns = now;
	} else {
		share = 0;
	}
	meter->weight = arrived(meter->weight, share, arrival->packets);
	meter->flows[half] += counts;
	meter->squares[half] += squares;
	meter->brought[half] += hash ? arrival->large : 0;
	measured->rate = rate_of(meter->weight);
	measured->flows = meter->flows[half] > meter->flows[!half] ? meter->flows[half] : meter->flows[!half];
	if (!meter->begun) {
		meter->drops = drops;
		meter->lost = drops;
	} else if ((__s32)(drops - meter->drops) > 0) {
		/* A queue that drops at its tail has dropped what came last. */
		lost = dropped_packets(drops - meter->drops, meter->stands);
		before = meter->slot;
		meter->drops = drops;
		meter->lost += lost;
	}
	measured->drops = meter->lost;
	meter->slot = slot;
	meter->stands = arrival->octets > config.whole ? 1 : arrival->packets;
	meter->begun = queue->known;
	bpf_spin_unlock(&meter->lock);
	if (lost) {
		of = bpf_map_lookup_elem(&dropped, &before);
		if (of)
			__sync_fetch_and_add(of, lost);
	}
	of = bpf_map_lookup_elem(&dropped, &slot);
	if (of)
		measured->dropped = *of;
	if (!measured->flows)
		measured->flows = 1;
}

/* Where the trace option begins, in octets from the first of the header. */
static __always_inline __u32 trace_option(__u8 *header, __u32 length, void *end)
{
	__u32 at = 2;

	for (int option = 0; option < 4; option++) {
		__u8 *of = header + at;

		if (at + TRACE_DATA > length || (void *)(of + TRACE_DATA) > end)
			return 0;
		if (of[0] == OPT_PAD1) {
			at++;
			continue;
		}
		if (of[0] == OPT_IOAM_CHANGES && of[3] == IOAM_PREALLOCATED)
			return at;
		at += 2 + of[1];
		if (at > HEADER_MAX - TRACE_DATA)
			return 0;
	}
	return 0;
}

/* Words of a record of a profile; 0: unknown. */
static __always_inline __u32 words_of(__u32 type)
{
	switch (type) {
	case TYPE_LEAN:
		return WORDS_LEAN;
	case TYPE_TIMED:
		return WORDS_TIMED;
	case TYPE_COUNTED:
		return WORDS_COUNTED;
	case TYPE_FULL:
		return WORDS_FULL;
	default:
		return 0;
	}
}

SEC("tcx/egress")
int pl_int_transit(struct __sk_buff *skb)
{
	__u32 headers = config.l2 + sizeof(struct ipv6hdr), length, at, words, free, octets, position, zero = 0, packets;
	__u32 hop_limit, share;
	struct queue queue = {};
	struct measured measured;
	struct arrival arrival;
	struct radio *radio;
	__u64 now = bpf_ktime_get_ns();
	__be32 record[WORDS_FULL], type;
	__u16 word, namespace;
	void *data, *end;
	struct ipv6hdr *ip;
	__u8 *header, *option, remaining[2];
	__u32 filled = 0;

	arrival_of(skb, &arrival);
	packets = arrival.packets;
	look_at(skb, &queue);
	measure(&arrival, now, &queue, &measured);
	count(PACKETS, packets);

	data = packet_data(skb);
	end = packet_end(skb);
	ip = data + config.l2;
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || (void *)(ip + 1) > end || ip->nexthdr != IPPROTO_HOPOPTS)
		return GO_ON;
	hop_limit = ip->hop_limit;
	header = (void *)(ip + 1);
	if ((void *)(header + 8) > end) {
		if (bpf_skb_pull_data(skb, headers + 8))
			return GO_ON;
		data = packet_data(skb);
		end = packet_end(skb);
		header = data + headers;
		if ((void *)(header + 8) > end)
			return GO_ON;
	}
	/* The kernel's own, of multicast. */
	if (header[0] == IPPROTO_ICMPV6)
		return GO_ON;
	length = (header[1] + 1) * 8;
	if (length > HEADER_MAX) {
		count(FOREIGN_HEADER, packets);
		return GO_ON;
	}
	if ((void *)(header + length) > end) {
		if (bpf_skb_pull_data(skb, headers + length)) {
			count(FOREIGN_HEADER, packets);
			return GO_ON;
		}
		data = packet_data(skb);
		end = packet_end(skb);
		header = data + headers;
	}
	at = trace_option(header, length, end);
	option = header + at;
	if (!at || (void *)(option + TRACE_DATA) > end) {
		count(FOREIGN_HEADER, packets);
		return GO_ON;
	}
	namespace = (__u16)option[TRACE_NAMESPACE] << 8 | option[TRACE_NAMESPACE + 1];
	if (namespace != NAMESPACE) {
		count(UNKNOWN_NAMESPACE, packets);
		return GO_ON;
	}
	word = (__u16)option[TRACE_WORD] << 8 | option[TRACE_WORD + 1];
	type = bpf_ntohl(*(__be32 *)(option + TRACE_TYPE));
	words = words_of(type);
	octets = option[1];
	free = TRACE_REMAINING(word);
	if (!words || TRACE_NODE_LEN(word) != words || octets < TRACE_DATA - 2 || at + 2 + octets > length ||
	    free * 4 > octets - (TRACE_DATA - 2)) {
		count(UNKNOWN_PROFILE, packets);
		return GO_ON;
	}
	at += headers;
	if (free < words) {
		remaining[0] = (word | TRACE_OVERFLOW) >> 8;
		if (bpf_skb_store_bytes(skb, at + TRACE_WORD, remaining, 1, 0))
			count(FAILED, packets);
		count(OVERFLOW, packets);
		return GO_ON;
	}

	record[filled++] = bpf_htonl(hop_limit << 24 | (config.node & 0xffffff));
	record[filled++] = bpf_htonl((skb->ingress_ifindex & 0xffff) << 16 | (config.egress & 0xffff));
	position = at + TRACE_DATA + 4 * (free - words);
	remaining[0] = (word - words) >> 8;
	remaining[1] = word - words;
	free = bpf_htonl(room_left(queue.known ? config.limit_packets : 0, queue.packets, queue.known ? config.limit_bytes : 0,
				   queue.bytes + arrival.octets - arrival.octets / packets, config.reference) << 16 |
			 (measured.flows < 254 ? measured.flows : 254) << 8 | rate_code(measured.rate));
	if (type == TYPE_TIMED || type == TYPE_FULL) {
		__u64 time = config.tai ? bpf_ktime_get_tai_ns() : now;

		record[filled++] = bpf_htonl((__u32)(time / 1000000000));
		record[filled++] = bpf_htonl((__u32)(time % 1000000000 / 1000));
	}
	if (type == TYPE_FULL)
		record[filled++] = UNKNOWN32;
	record[filled++] = free;
	record[filled++] = queue.known ? bpf_htonl(queue.bytes) : UNKNOWN32;
	if (type == TYPE_FULL) {
		radio = bpf_map_lookup_elem(&pl_int_radio, &zero);
		if (!radio)
			return GO_ON;
		record[filled++] = bpf_htonl((radio->knows_lost ? radio->lost & 0xffff : UNKNOWN16) << 16 |
				  (queue.known ? measured.drops & 0xffff : UNKNOWN16));
		record[filled++] =
			bpf_htonl((__u32)(__u8)radio->rssi_dbm << 24 | (__u32)radio->mcs << 16 | (radio->rate_100k & 0xffff));
	}
	if (type == TYPE_COUNTED || type == TYPE_FULL) {
		share = occupancy_of(queue.known ? config.limit_packets : 0, queue.packets, queue.known ? config.limit_bytes : 0,
				     queue.bytes);
		record[filled++] = bpf_htonl((queue.known ? measured.dropped & 0xffff : UNKNOWN16) << 16 | share);
	}
	if (bpf_skb_store_bytes(skb, position, record, filled * 4, 0) ||
	    bpf_skb_store_bytes(skb, at + TRACE_WORD, remaining, sizeof(remaining), 0)) {
		count(FAILED, packets);
		return GO_ON;
	}
	count(WRITTEN, packets);
	return GO_ON;
}
