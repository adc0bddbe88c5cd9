// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What a store at a veth needs of the pair's other end (examples/veth_peer.rs), where requests come from sockets. A network card needs none of it.
 *
 * Source: Linux drivers/net/veth.c. A packet of a socket is copied for XDP into memory that is little larger than it, so that an answer has
 * no room, unless it has more than 1472 bytes. What a program answers with reaches an end that has a program too.
 */
#include "../../src/bpf/request.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Ethernet's longest. */
#define LONGEST 1514

struct __sk_buff {
	__u32 len;
};

/* On the way out: requests for one unit become as long as packets can be; lengths in their heads stay. */
SEC("tc")
int pl_pad(struct __sk_buff *packet)
{
	if (packet->len == ETHERNET + IPV4 + UDP + REQUEST || packet->len == ETHERNET + IPV6 + UDP + REQUEST)
		bpf_skb_change_tail(packet, LONGEST, 0);
	/* TC_ACT_UNSPEC: others decide. */
	return -1;
}

SEC("xdp")
int pl_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
