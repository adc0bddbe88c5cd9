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

/*
 * A router says that a packet was too big. TCP does not believe it if it leaves room for TCP's own part of the packet, so what it says
 * is kept here: packets that are too long with a header go without.
 */
static __always_inline void learn(struct __sk_buff *skb)
{
	struct { struct icmp6hdr icmp; struct ipv6hdr ip; __u8 next[2]; } said;
	__u32 at = config.l2 + sizeof(struct ipv6hdr), size = sizeof(struct icmp6hdr) + sizeof(struct ipv6hdr) + 2, mtu;
	struct pl_tuple tuple = {};
	struct path path = {};
	struct flow *flow;
	struct to to;

	if (bpf_skb_load_bytes(skb, at, &said, size) || said.icmp.type != ICMPV6_PKT_TOOBIG)
		return;
	at += sizeof(struct icmp6hdr) + sizeof(struct ipv6hdr);
	if (said.ip.nexthdr == IPPROTO_HOPOPTS && said.next[0] == IPPROTO_TCP)
		at += (said.next[1] + 1) * 8;
	else if (said.ip.nexthdr != IPPROTO_TCP)
		return;
	copy_address(tuple.source, said.ip.saddr);
	copy_address(tuple.destination, said.ip.daddr);
	/* The ports are next to each other. */
	if (bpf_skb_load_bytes(skb, at, &tuple.source_port, 2 * sizeof(tuple.source_port)))
		return;
	flow = bpf_map_lookup_elem(&pl_int_flows, &tuple);
	if (!flow)
		return;
	mtu = bpf_ntohl(said.icmp.mtu);
	if (mtu < IPV6_MIN_MTU)
		mtu = IPV6_MIN_MTU;
	if (flow->mtu && flow->mtu <= mtu)
		return;
	flow->mtu = mtu;
	path.at_ns = bpf_ktime_get_ns();
	path.mtu = mtu;
	copy_address(to.address, tuple.destination);
	bpf_map_update_elem(&paths, &to, &path, BPF_ANY);
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
		learn(skb);
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
