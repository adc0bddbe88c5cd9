/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The source's program for what arrives: it keeps room for a header. Included by source.bpf.c alone, for they have their maps in common.
 */
#ifndef PACELINE_INT_SEGMENT_H
#define PACELINE_INT_SEGMENT_H

#include "source.h"

/* TCP option kinds (RFC 9293 section 3.2). */
#define TCPOPT_EOL 0
#define TCPOPT_NOP 1
#define TCPOPT_MSS 2

/* A path may become wider again: Linux net.ipv6.route.mtu_expires, its default. */
#define MTU_EXPIRES_NS 600000000000ULL
/* So far behind the newest data of a flow that only passes here a packet may be that a router speaks of (our choice: 100 ms of 80 Mbit/s). */
#define QUOTED_BEHIND (1 << 20)

/* Octets that are summed at a time, and most times (RFC 4443 section 2.4: an error is not longer than the least MTU). */
#define BLOCK 64
#define BLOCKS (IPV6_MIN_MTU / BLOCK)

/* Whether an MTU that was said at at_ns holds still. */
static __always_inline int is_fresh(__u32 mtu, __u64 at_ns, __u64 now)
{
	return mtu && now - at_ns < MTU_EXPIRES_NS;
}

/* Whether the checksum of what is behind the IPv6 header is right (RFC 8200 section 8.1). */
static __always_inline int is_whole(struct __sk_buff *skb, __u32 length)
{
	struct { __be32 addresses[8], length, next; } pseudo = {
		.length = bpf_htonl(length), .next = bpf_htonl(IPPROTO_ICMPV6)
	};
	__u32 at = config.l2 + sizeof(struct ipv6hdr), left = length;
	__be32 block[BLOCK / 4];
	__s64 sum;

	if (length > BLOCK * BLOCKS ||
	    bpf_skb_load_bytes(skb, config.l2 + __builtin_offsetof(struct ipv6hdr, saddr), pseudo.addresses,
			       sizeof(pseudo.addresses)))
		return 0;
	sum = bpf_csum_diff(0, 0, (void *)&pseudo, sizeof(pseudo), 0);
	for (int turn = 0; turn < BLOCKS && left; turn++) {
		__u32 size = left < BLOCK ? left : BLOCK;

		__builtin_memset(block, 0, sizeof(block));
		HIDE(size);
		if (size < 1 || size > BLOCK || bpf_skb_load_bytes(skb, at, block, size))
			return 0;
		sum = bpf_csum_diff(0, 0, block, sizeof(block), sum);
		at += size;
		left -= size;
	}
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Whether a packet of this flow with this sequence number may be on its way. Datagrams have no number: their ends are all that a router can
 * have of them that others have not. What it says without need costs headers, and not data. */
static __always_inline int is_on_its_way(struct __sk_buff *skb, const struct pl_tuple *tuple, const struct flow *flow, __u32 sequence)
{
	struct bpf_sock_tuple ends = { .sport = tuple->destination_port, .dport = tuple->source_port };
	struct bpf_sock *found;
	struct tcp_sock *tp;
	int answer = 0;

	if (flow->protocol == IPPROTO_UDP)
		return 1;
	copy_address(ends.saddr, tuple->destination);
	copy_address(ends.daddr, tuple->source);
	found = connection(skb, &ends);
	/* Of a router's source: its own numbers are all that there is. */
	if (!found)
		return flow->next - sequence - 1 < QUOTED_BEHIND;
	tp = bpf_skc_to_tcp_sock(found);
	if (tp)
		answer = sequence - tp->snd_una < tp->snd_nxt - tp->snd_una;
	bpf_sk_release(found);
	return answer;
}

/*
 * A router says that a packet was too big. TCP does not believe it if it leaves room for TCP's own part of the packet, so what it says
 * is kept here, for a while: packets that are too long with a header go without. It must quote a packet that is on its way and longer than
 * that (RFC 8201 section 4, RFC 5927 section 7).
 */
static __always_inline void learn(struct __sk_buff *skb, __u32 length)
{
	struct { struct icmp6hdr icmp; struct ipv6hdr ip; __u8 next[2]; } said;
	__u32 at = config.l2 + sizeof(struct ipv6hdr), size = sizeof(struct icmp6hdr) + sizeof(struct ipv6hdr) + 2, mtu, protocol;
	/* Of TCP; of UDP length and checksum are in the place of the number. */
	struct { __be16 ports[2]; __be32 sequence; } tcp;
	struct pl_tuple tuple = {};
	struct path *path;
	struct flow *flow;
	__u64 now;

	if (bpf_skb_load_bytes(skb, at, &said, size) || said.icmp.type != ICMPV6_PKT_TOOBIG)
		return;
	at += sizeof(struct icmp6hdr) + sizeof(struct ipv6hdr);
	protocol = said.ip.nexthdr;
	if (protocol == IPPROTO_HOPOPTS) {
		protocol = said.next[0];
		at += (said.next[1] + 1) * 8;
	}
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return;
	copy_address(tuple.source, said.ip.saddr);
	copy_address(tuple.destination, said.ip.daddr);
	if (bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)))
		return;
	tuple.source_port = tcp.ports[0];
	tuple.destination_port = tcp.ports[1];
	flow = bpf_map_lookup_elem(&pl_int_flows, &tuple);
	if (!flow || flow->protocol != protocol)
		return;
	mtu = bpf_ntohl(said.icmp.mtu);
	if (sizeof(struct ipv6hdr) + bpf_ntohs(said.ip.payload_len) <= mtu || !is_on_its_way(skb, &tuple, flow, bpf_ntohl(tcp.sequence)) ||
	    !is_whole(skb, length)) {
		count(FORGED_MTUS, 1);
		return;
	}
	if (mtu < IPV6_MIN_MTU)
		mtu = IPV6_MIN_MTU;
	now = bpf_ktime_get_ns();
	if (is_fresh(flow->mtu, flow->mtu_ns, now) && flow->mtu <= mtu)
		return;
	flow->mtu = mtu;
	flow->mtu_ns = now;
	path = path_of(&tuple);
	if (path) {
		path->mtu = mtu;
		path->at_ns = now;
	}
	count(PATH_MTUS, 1);
}

/* What a peer announces as its largest segment is lowered, so that TCP leaves room for a header behind its own. */
SEC("tcx/ingress")
int pl_int_segment(struct __sk_buff *skb)
{
	__u32 at = config.l2 + sizeof(struct ipv6hdr) + sizeof(struct tcphdr), end, mtu, largest;
	struct packet packet;
	__be16 announced, lower;
	__u8 option[4];

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !headers_of(skb, &packet))
		return GO_ON;
	if (packet.ip->nexthdr == IPPROTO_ICMPV6) {
		learn(skb, bpf_ntohs(packet.ip->payload_len));
		return GO_ON;
	}
	if (packet.ip->nexthdr != IPPROTO_TCP || !(packet.tcp->flags & TCP_SYN) || !is_selected(&packet))
		return GO_ON;
	end = config.l2 + sizeof(struct ipv6hdr) + (packet.tcp->words >> 4) * 4;
	mtu = kernel_view(skb)->dev->mtu;
	largest = sizeof(struct ipv6hdr) + sizeof(struct tcphdr) + config.reserve;
	if (mtu <= largest)
		return GO_ON;
	largest = mtu - largest;
	/* As many as there is space for. */
	for (int count_of = 0; count_of < 40 && at + 4 <= end; count_of++) {
		if (bpf_skb_load_bytes(skb, at, option, sizeof(option)))
			return GO_ON;
		if (option[0] == TCPOPT_EOL)
			return GO_ON;
		if (option[0] == TCPOPT_NOP) {
			at++;
			continue;
		}
		if (option[0] == TCPOPT_MSS && option[1] == 4) {
			announced = *(__be16 *)&option[2];
			if (bpf_ntohs(announced) <= largest)
				return GO_ON;
			lower = bpf_htons(largest);
			if (bpf_skb_store_bytes(skb, at + 2, &lower, sizeof(lower), 0))
				return GO_ON;
			/* Checksums are of words of two octets. */
			if ((at - config.l2) & 1) {
				announced = __builtin_bswap16(announced);
				lower = __builtin_bswap16(lower);
			}
			if (bpf_l4_csum_replace(skb,
						config.l2 + sizeof(struct ipv6hdr) + __builtin_offsetof(struct tcphdr, check),
						announced, lower, sizeof(lower)))
				count(FAILED, 1);
			count(SEGMENT_SIZES, 1);
			return GO_ON;
		}
		if (option[1] < 2)
			return GO_ON;
		at += option[1];
	}
	return GO_ON;
}

#endif
