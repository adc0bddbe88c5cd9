// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The sink: takes a header of telemetry out of what arrives, and gives it to user space with the flow and the time. The packet goes on
 * as its sender's TCP made it.
 *
 * A header is taken out whole or not at all: only one whose options are all ours, of our namespace, in front of TCP or UDP. It is read
 * only if TCP would take its packet: anyone may send packets with a flow's ends, and what they say moves a sender's window. Of UDP, which
 * tells no such packets apart, it is read only where that is asked for.
 *
 * Source: docs/design/telemetry-wire.md; Linux net/core/filter.c (bpf_skb_adjust_room); RFC 9293 section 3.10.7.4 and RFC 5961 section 5.2
 * for the numbers that TCP takes, Linux net/ipv4/tcp_input.c (tcp_sequence, tcp_ack); RFC 5082 for the hop limit.
 */
#include "kernel.h"
#include "wire.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The loader writes it. */
const volatile struct {
	__u32 l2;
	/* Time is of TAI rather than of this machine alone. */
	__u32 tai;
	/* Flows that pass on to other hosts are believed as well. */
	__u32 forwarded;
	/* Least hop limit of a packet that is believed. */
	__u32 hop_limit;
	/* Datagrams of UDP are believed as well. */
	__u32 udp;
} config SEC(".rodata.config") = { .l2 = 14 };

/* As src/sink.rs has them. */
enum {
	TAKEN,
	PACKETS,
	RING_FULL,
	UNKNOWN_NAMESPACE,
	FOREIGN_HEADER,
	FAILED,
	FOREIGN_FLOW,
	COUNTER_COUNT,
};
COUNTERS(COUNTER_COUNT)

/* The loader sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} arrivals SEC(".maps");

/* What user space gets; the header's octets follow. */
struct arrival {
	__u64 at_ns;
	struct pl_tuple tuple;
	__u16 length;
	__u16 packets;
	/* Packets that came without a header since the last one, where the source numbers them too. */
	__u32 bare;
	__u32 hop_limit;
};
/* src/sink.rs. */
PLACE(struct arrival, tuple, 8);
PLACE(struct arrival, length, 44);
PLACE(struct arrival, packets, 46);
PLACE(struct arrival, bare, 48);
PLACE(struct arrival, hop_limit, 52);

/* Two sizes: one for two hops and the lean profile, which nearly all are, and one for what else there may be. */
#define SMALL 64

struct small {
	struct arrival arrival;
	__u8 header[SMALL];
};

struct large {
	struct arrival arrival;
	__u8 header[HEADER_MAX];
};

/* The reader sleeps, and is to be woken: it says so, and what wakes it takes that back. */
volatile struct {
	__u32 sleeps;
} reader SEC(".data.reader") = {};

/* Whether there are flows of which not all packets have a header; of those, how many came without since the last with one. */
volatile struct {
	__u32 there;
} sampled SEC(".data.sampled") = {};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pl_tuple);
	__type(value, __u64);
} bare SEC(".maps");

static __always_inline __u64 wake(void)
{
	if (!reader.sleeps)
		return BPF_RB_NO_WAKEUP;
	reader.sleeps = 0;
	return BPF_RB_FORCE_WAKEUP;
}

/* What a packet says to TCP; of UDP the hop limit alone. */
struct segment {
	/* Of its data. */
	__u32 start;
	__u32 end;
	__u32 acknowledged;
	__u32 hop_limit;
};

/* UDP has its ports in TCP's places. */
static __always_inline void ends_of(const struct ipv6hdr *ip, const struct tcphdr *tcp, struct pl_tuple *tuple)
{
	for (int word = 0; word < 4; word++) {
		tuple->source[word] = ip->saddr[word];
		tuple->destination[word] = ip->daddr[word];
	}
	tuple->source_port = tcp->source;
	tuple->destination_port = tcp->dest;
}

/* Octets of the header of TCP, or of UDP. */
static __always_inline __u32 header_octets(const struct tcphdr *tcp, __u32 protocol)
{
	return protocol == IPPROTO_TCP ? (tcp->words >> 4) * 4 : sizeof(struct udphdr);
}

/* A packet without a header. */
static __always_inline void pass(struct __sk_buff *skb)
{
	__u32 headers = config.l2 + sizeof(struct ipv6hdr);
	struct ipv6hdr *ip = packet_data(skb) + config.l2;
	struct tcphdr *tcp = (void *)(ip + 1);
	struct pl_tuple tuple = {};
	__u64 *of;

	if ((void *)(tcp + 1) > packet_end(skb)) {
		if (bpf_skb_pull_data(skb, headers + sizeof(*tcp)))
			return;
		ip = packet_data(skb) + config.l2;
		tcp = (void *)(ip + 1);
		if ((void *)(tcp + 1) > packet_end(skb))
			return;
	}
	if (ip->nexthdr != IPPROTO_TCP && ip->nexthdr != IPPROTO_UDP)
		return;
	headers += header_octets(tcp, ip->nexthdr);
	if (skb->len <= headers)
		return;
	ends_of(ip, tcp, &tuple);
	of = bpf_map_lookup_elem(&bare, &tuple);
	if (of)
		__sync_fetch_and_add(of, wire_packets(skb, headers));
}

/* What passed since the last header, which is counted from here on. */
static __always_inline __u32 passed(const struct pl_tuple *tuple)
{
	__u64 *of = bpf_map_lookup_elem(&bare, tuple), none = 0, since;

	if (of) {
		since = __sync_lock_test_and_set(of, 0);
		return since < UNKNOWN32 ? since : UNKNOWN32;
	}
	bpf_map_update_elem(&bare, tuple, &none, BPF_NOEXIST);
	sampled.there = 1;
	return 0;
}

enum { OURS, FOREIGN, OTHER_NAMESPACE };

/* Whose a header is; of ours also the flags of the edge option. */
static __always_inline int whose(__u8 *header, __u32 length, void *end, __u32 *flags)
{
	int answer = FOREIGN;
	__u32 at = 2, namespace;

	for (int count_of = 0; count_of < OPTIONS_MAX && at < length; count_of++) {
		__u8 *option = header + at;

		if (at >= HEADER_MAX || (void *)(option + 1) > end)
			return FOREIGN;
		if (option[0] == OPT_PAD1) {
			at++;
			continue;
		}
		if (at + 2 > length || (void *)(option + 2) > end)
			return FOREIGN;
		switch (option[0]) {
		case OPT_PADN:
			break;
		case OPT_EDGE:
			if ((void *)(option + 3) > end)
				return FOREIGN;
			*flags = option[2];
			break;
		case OPT_IOAM_CHANGES:
		case OPT_IOAM_FIXED:
			if (option[1] < 4 || at + 6 > length || (void *)(option + 6) > end)
				return FOREIGN;
			namespace = (__u16)option[4] << 8 | option[5];
			if (namespace != NAMESPACE && namespace != WIDE_NAMESPACE)
				return OTHER_NAMESPACE;
			if (option[0] == OPT_IOAM_CHANGES && option[3] == IOAM_PREALLOCATED)
				answer = OURS;
			break;
		default:
			return FOREIGN;
		}
		at += 2 + option[1];
	}
	return at == length ? answer : FOREIGN;
}

/* Whether a packet with these ends goes on to another host. */
static __always_inline int is_forwarded(struct __sk_buff *skb, const struct pl_tuple *tuple, __u32 protocol)
{
	struct bpf_fib_lookup way = { .family = AF_INET6, .l4_protocol = protocol, .ifindex = skb->ifindex };
	long answer;

	__builtin_memcpy(way.src, tuple->source, sizeof(way.src));
	__builtin_memcpy(way.dst, tuple->destination, sizeof(way.dst));
	answer = bpf_fib_lookup(skb, &way, sizeof(way), 0);
	return answer == BPF_FIB_LKUP_RET_SUCCESS || answer == BPF_FIB_LKUP_RET_NO_NEIGH;
}

/*
 * Whether the packet is one that TCP would take: of a connection of this host, with data within what it has offered to receive, that
 * acknowledges what it may. A packet from off the path has both numbers right once in some million times. Of UDP, whether a socket of this
 * host would receive it.
 */
static __always_inline int is_believed(struct __sk_buff *skb, const struct pl_tuple *tuple, __u32 protocol, const struct segment *segment)
{
	struct bpf_sock_tuple ends = { .sport = tuple->source_port, .dport = tuple->destination_port };
	struct bpf_sock *found;
	struct tcp_sock *tp;
	int answer = 0;

	if (segment->hop_limit < config.hop_limit)
		return 0;
	__builtin_memcpy(ends.saddr, tuple->source, sizeof(ends.saddr));
	__builtin_memcpy(ends.daddr, tuple->destination, sizeof(ends.daddr));
	if (protocol == IPPROTO_UDP) {
		if (!config.udp)
			return 0;
		found = bpf_sk_lookup_udp(skb, &ends, sizeof(ends), BPF_F_CURRENT_NETNS, 0);
		if (!found)
			return config.forwarded && is_forwarded(skb, tuple, protocol);
		bpf_sk_release(found);
		return 1;
	}
	found = connection(skb, &ends);
	if (!found)
		return config.forwarded && is_forwarded(skb, tuple, protocol);
	tp = bpf_skc_to_tcp_sock(found);
	if (tp)
		answer = (__s32)(segment->end - tp->rcv_wup) >= 0 &&
			 (__s32)(segment->start - tp->rcv_wup - tp->rcv_wnd) <= 0 &&
			 (__s32)(segment->acknowledged - tp->snd_una + tp->max_window) >= 0 &&
			 (__s32)(segment->acknowledged - tp->snd_nxt) <= 0;
	bpf_sk_release(found);
	return answer;
}

SEC("tcx/ingress")
int pl_int_sink(struct __sk_buff *skb)
{
	__u32 headers = config.l2 + sizeof(struct ipv6hdr), length, payload, packets, at, flags = 0, protocol;
	struct { __be16 payload; __u8 nexthdr; } __attribute__((packed)) fields;
	struct arrival arrival = {};
	struct segment segment;
	struct ipv6hdr *ip;
	struct tcphdr *tcp;
	void *data, *end;
	__u8 *header;
	long error;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return GO_ON;
	data = packet_data(skb);
	end = packet_end(skb);
	ip = data + config.l2;
	if ((void *)(ip + 1) > end)
		return GO_ON;
	if (ip->nexthdr != IPPROTO_HOPOPTS) {
		if (sampled.there)
			pass(skb);
		return GO_ON;
	}
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
	protocol = header[0];
	if (length > HEADER_MAX || (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)) {
		count(FOREIGN_HEADER, 1);
		return GO_ON;
	}
	/* A source leaves datagrams alone that are shorter than a header of TCP. */
	if ((void *)(header + length + sizeof(*tcp)) > end && bpf_skb_pull_data(skb, headers + length + sizeof(*tcp))) {
		count(FOREIGN_HEADER, 1);
		return GO_ON;
	}
	data = packet_data(skb);
	end = packet_end(skb);
	ip = data + config.l2;
	header = (void *)(ip + 1);
	tcp = (void *)header + length;
	if ((void *)(ip + 1) > end || (void *)(tcp + 1) > end) {
		count(FOREIGN_HEADER, 1);
		return GO_ON;
	}
	payload = bpf_ntohs(ip->payload_len);
	switch (payload < length + sizeof(*tcp) ? FOREIGN : whose(header, length, end, &flags)) {
	case OURS:
		break;
	case OTHER_NAMESPACE:
		count(UNKNOWN_NAMESPACE, 1);
		return GO_ON;
	default:
		count(FOREIGN_HEADER, 1);
		return GO_ON;
	}
	ends_of(ip, tcp, &arrival.tuple);
	arrival.at_ns = config.tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
	arrival.length = length;
	at = headers + length + header_octets(tcp, protocol);
	packets = wire_packets(skb, at);
	segment.start = bpf_ntohl(tcp->seq);
	segment.end = segment.start + (skb->len > at ? skb->len - at : 0);
	segment.acknowledged = bpf_ntohl(tcp->ack_seq);
	arrival.hop_limit = segment.hop_limit = ip->hop_limit;
	arrival.packets = packets < 0xffff ? packets : 0xffff;
	at = length;
	if (!is_believed(skb, &arrival.tuple, protocol, &segment)) {
		count(FOREIGN_FLOW, packets);
		goto out;
	}
	if (flags & EDGE_SAMPLED)
		arrival.bare = passed(&arrival.tuple);
	if (length <= SMALL) {
		struct small *small = bpf_ringbuf_reserve(&arrivals, sizeof(*small), 0);

		if (small) {
			small->arrival = arrival;
			/* All of them, where that many octets are there: the length says which are the header's. */
			if ((void *)(header + SMALL) <= end) {
				for (int word = 0; word < SMALL / 4; word++)
					((__u32 *)small->header)[word] = ((__u32 *)header)[word];
			} else {
				HIDE(at);
				if (at >= 8 && at <= SMALL)
					bpf_skb_load_bytes(skb, headers, small->header, at);
			}
			bpf_ringbuf_submit(small, wake());
		} else {
			count(RING_FULL, packets);
		}
	} else {
		struct large *large = bpf_ringbuf_reserve(&arrivals, sizeof(*large), 0);

		if (large) {
			large->arrival = arrival;
			HIDE(at);
			if (at >= 8 && at <= HEADER_MAX)
				bpf_skb_load_bytes(skb, headers, large->header, at);
			bpf_ringbuf_submit(large, wake());
		} else {
			count(RING_FULL, packets);
		}
	}
out:
	error = bpf_skb_adjust_room(skb, -(__s32)length, BPF_ADJ_ROOM_NET,
				    BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET);
	fields.payload = bpf_htons(payload - length);
	fields.nexthdr = protocol;
	if (error || bpf_skb_store_bytes(skb, config.l2 + __builtin_offsetof(struct ipv6hdr, payload_len), &fields,
					 sizeof(fields), BPF_F_RECOMPUTE_CSUM)) {
		count(FAILED, packets);
		return GO_ON;
	}
	count(TAKEN, 1);
	count(PACKETS, packets);
	return GO_ON;
}
