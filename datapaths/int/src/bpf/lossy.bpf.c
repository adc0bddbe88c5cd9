// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A link that loses packets at random, as a radio does after its last retry: at the ingress behind it, so that what is lost has been
 * through the queue in front of it. What it loses it counts where that queue's hop looks.
 */
#include "kernel.h"
#include "radio.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The loader writes it. */
const volatile struct {
	/* Of 2^32. */
	__u32 share;
} config SEC(".rodata.config") = {};

/* As src/lossy.rs has them. */
enum { PASSED, LOST, COUNTER_COUNT };
COUNTERS(COUNTER_COUNT)

/* TC_ACT_SHOT and TCX_DROP. */
#define DROP 2

SEC("tcx/ingress")
int pl_int_lossy(struct __sk_buff *skb)
{
	__u32 packets = wire_packets(skb, 14 + sizeof(struct ipv6hdr) + sizeof(struct tcphdr)), zero = 0;
	struct radio *radio;

	if (bpf_get_prandom_u32() >= config.share) {
		count(PASSED, packets);
		return GO_ON;
	}
	count(LOST, packets);
	radio = bpf_map_lookup_elem(&pl_int_radio, &zero);
	if (radio)
		__sync_fetch_and_add(&radio->lost, packets);
	return DROP;
}
