// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A hop: writes what it sees into the headers that pass, at the interface that they leave through: what is left of its queue, how
 * many packets a second and how many flows enter it, how much it has dropped.
 *
 * A record has fields in the order of the trace type's bits (RFC 9197 section 4.4.1); a hop fills the room from its end, so that the
 * first hop's is last. What a hop does not know is all ones.
 *
 * In the word that is one for all hops each compares, and replaces what is better (word.h).
 *
 * Source: RFC 9197; docs/design/telemetry-wire.md for namespaces 0x8001 and 0x8002.
 */
#include "kernel.h"
#include "meter.h"
#include "queue.h"
#include "radio.h"
#include "wire.h"
#include "word.h"

char _license[] SEC("license") = "Dual MIT/GPL";

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
	case TYPE_WORD:
		return WORDS_WORD;
	default:
		return 0;
	}
}

/* Of its own, so that the verifier follows it once, not for each way that leads to it. */
__attribute__((noinline)) int code_of(__u64 rate)
{
	return rate_code(rate);
}

/* A record's words to their place; HIDE, or the verifier could not tell how many there is room for. */
#define WRITE(place, end, ...)                                                        \
	({                                                                            \
		const __be32 record[] = { __VA_ARGS__ };                              \
		__be32 *to = place;                                                   \
									              \
		HIDE(to);                                                             \
		if ((void *)to + sizeof(record) <= end)                               \
			__builtin_memcpy(to, record, sizeof(record));                 \
		(void *)to + sizeof(record) <= end;                                   \
	})

/* A data rate in 16 bits: in namespace 0x8002 as a float. Unknown is all ones. */
static __always_inline __u32 rate_field(const struct radio *radio, int wide)
{
	if (radio->rate_100k == UNKNOWN32)
		return UNKNOWN16;
	if (wide)
		return short_float(radio->rate_100k);
	return radio->rate_100k < UNKNOWN16 ? radio->rate_100k : UNKNOWN16 - 1;
}

/* Of its own, as code_of: arithmetic, whose ways are many. */
__attribute__((noinline)) int say(__u32 signal, __u32 capacity, __u64 rate, __u64 octets)
{
	return capacity ? signal_of(signal, capacity, rate, octets) : NOTHING;
}

/* Leaves this hop's mark in the word, where it has something worse to say. 0: it is not a word. */
static __always_inline int pass_word(__be32 *place, void *end, __u32 hop_limit, const struct queue *queue, __u64 rate)
{
	struct radio *radio;
	__u32 zero = 0, word, signal, own;

	HIDE(place);
	if ((void *)(place + 1) > end)
		return 0;
	word = bpf_ntohl(*place);
	signal = word >> 24;
	if (signal >= SIGNALS)
		return 0;
	radio = bpf_map_lookup_elem(&pl_int_radio, &zero);
	if (!radio || !radio->rate_100k || radio->rate_100k > FASTEST || (signal == DELAY && !queue->known))
		return 1;
	own = say(signal, radio->rate_100k, rate, queue->bytes);
	if (is_worse(signal, own, word & NOTHING))
		*place = bpf_htonl(signal << 24 | hop_limit << 16 | own);
	return 1;
}

SEC("tcx/egress")
int pl_int_transit(struct __sk_buff *skb)
{
	__u32 headers = config.l2 + sizeof(struct ipv6hdr), length, at, words, free, octets, zero = 0, packets;
	__be32 type, *place, hop, interfaces, short_word, depth;
	__u32 hop_limit, room;
	struct queue queue = {};
	struct measured measured;
	struct arrival arrival;
	struct radio *radio;
	__u64 now = bpf_ktime_get_ns(), time;
	__u16 word, namespace;
	void *data, *end;
	struct ipv6hdr *ip;
	__u8 *header, *option;
	int written;

	look_at_arrival(skb, &arrival);
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
	if (namespace != NAMESPACE && namespace != WIDE_NAMESPACE) {
		count(UNKNOWN_NAMESPACE, packets);
		return GO_ON;
	}
	word = (__u16)option[TRACE_WORD] << 8 | option[TRACE_WORD + 1];
	type = bpf_ntohl(*(__be32 *)(option + TRACE_TYPE));
	words = words_of(type);
	octets = option[1];
	free = TRACE_REMAINING(word);
	if (!words || (type == TYPE_WORD && namespace != WIDE_NAMESPACE) || TRACE_NODE_LEN(word) != words || octets < TRACE_DATA - 2 || at + 2 + octets > length ||
	    free * 4 > octets - (TRACE_DATA - 2)) {
		count(UNKNOWN_PROFILE, packets);
		return GO_ON;
	}
	if (type == TYPE_WORD) {
		if (free || octets != TRACE_DATA - 2 + 4 * WORDS_WORD ||
		    !pass_word((void *)(option + TRACE_DATA), end, hop_limit, &queue, measured.rate))
			count(UNKNOWN_PROFILE, packets);
		else
			count(WRITTEN, packets);
		return GO_ON;
	}
	if (free < words) {
		option[TRACE_WORD] |= TRACE_OVERFLOW >> 8;
		count(OVERFLOW, packets);
		return GO_ON;
	}

	free -= words;
	HIDE(free);
	place = (void *)(option + TRACE_DATA + 4 * (free & 0x7f));
	/* What waits in front of the last of a buffer's packets. */
	room = room_left(queue.known ? config.limit_packets : 0, queue.packets, queue.known ? config.limit_bytes : 0,
			 queue.bytes + (packets > 1 ? arrival.octets - arrival.octets / packets : 0), config.reference);
	hop = bpf_htonl(hop_limit << 24 | (config.node & 0xffffff));
	interfaces = bpf_htonl((skb->ingress_ifindex & 0xffff) << 16 | (config.egress & 0xffff));
	short_word = bpf_htonl(room << 16 | (measured.flows < 254 ? measured.flows : 254) << 8 | code_of(measured.rate));
	depth = queue.known ? bpf_htonl(queue.bytes) : UNKNOWN32;
	switch (type) {
	case TYPE_LEAN:
		written = WRITE(place, end, hop, interfaces, short_word, depth);
		break;
	case TYPE_COUNTED:
		written = WRITE(place, end, hop, interfaces, short_word, depth, queue_word(&queue, measured.slot));
		break;
	case TYPE_TIMED:
		time = config.tai ? bpf_ktime_get_tai_ns() : now;
		written = WRITE(place, end, hop, interfaces, bpf_htonl((__u32)(time / 1000000000)),
				bpf_htonl((__u32)(time % 1000000000 / 1000)), short_word, depth);
		break;
	default:
		radio = bpf_map_lookup_elem(&pl_int_radio, &zero);
		if (!radio)
			return GO_ON;
		time = config.tai ? bpf_ktime_get_tai_ns() : now;
		written = WRITE(place, end, hop, interfaces, bpf_htonl((__u32)(time / 1000000000)),
				bpf_htonl((__u32)(time % 1000000000 / 1000)), UNKNOWN32, short_word, depth,
				bpf_htonl((radio->knows_lost ? radio->lost & 0xffff : UNKNOWN16) << 16 |
					  (queue.known ? measured.drops & 0xffff : UNKNOWN16)),
				bpf_htonl((__u32)(__u8)radio->rssi_dbm << 24 | (__u32)radio->mcs << 16 |
					  rate_field(radio, namespace == WIDE_NAMESPACE)),
				queue_word(&queue, measured.slot));
	}
	if (!written) {
		count(FAILED, packets);
		return GO_ON;
	}
	option[TRACE_WORD + 1] -= words;
	count(WRITTEN, packets);
	return GO_ON;
}
