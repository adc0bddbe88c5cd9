// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Asks a router for units as a network card would bring the requests in, a page each, at the other end of the veth pair of its store, and
 * counts what comes back (examples/store_load.rs). User space runs `pl_ask` with live frames (BPF_PROG_TEST_RUN), and puts `pl_count` at the interface.
 */
#include "../../src/bpf/request.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define FRAME (ETHERNET + IPV4 + UDP + REQUEST)

/* Read and written by user space. Times in nanoseconds. */
struct load {
	/* Between two requests, 0: as many as go; when the next one is due. */
	__u64 gap, due;
	__u64 asked;
	/* Receivers; units of the object, from its start, that they ask for at random; where to. */
	__u32 receivers, units, interface;
	/* Of the router, as in packets. */
	__u32 port;
};

/* A request of a receiver. */
struct request {
	__u8 bytes[128];
};

struct came {
	__u64 units, nacks;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct load);
} load SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct request);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct came);
} came SEC(".maps");

static long is_due(__u32 turn, __u64 *due)
{
	return bpf_ktime_get_ns() >= *due;
}

SEC("xdp")
int pl_ask(struct xdp_md *ctx)
{
	__u32 zero = 0, receiver;
	struct load *all = bpf_map_lookup_elem(&load, &zero);
	struct request *request;
	__u64 due, now;

	if (!all || !all->receivers || !all->units)
		return XDP_DROP;
	receiver = all->asked % all->receivers;
	request = bpf_map_lookup_elem(&requests, &receiver);
	if (!request)
		return XDP_DROP;
	if (all->gap) {
		due = all->due;
		bpf_loop(1 << 20, is_due, &due, 0);
		now = bpf_ktime_get_ns();
		/* What was late by more than 10 ms is not made up for. */
		all->due = (now > due + 10000000 ? now : due) + all->gap;
	}
	AT(wide, request->bytes, FRAME - REQUEST + 44) = bpf_cpu_to_be64((__u64)(bpf_get_prandom_u32() % all->units));
	/* The page may be one that an answer was in. */
	if (bpf_xdp_store_bytes(ctx, 0, request->bytes, FRAME))
		return XDP_DROP;
	all->asked++;
	return bpf_redirect(all->interface, 0);
}

SEC("xdp")
int pl_count(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *message = data + ETHERNET + IPV4 + UDP;
	__u32 zero = 0;
	struct load *all = bpf_map_lookup_elem(&load, &zero);
	struct came *here = bpf_map_lookup_elem(&came, &zero);

	if (!all || !here || message + 1 > end || AT(half, data, 12) != bpf_htons(0x0800) || AT(byte, data, ETHERNET) != 0x45 ||
	    AT(byte, data, ETHERNET + 9) != 17 || AT(half, message, -UDP) != (__u16)all->port)
		return XDP_PASS;
	if (AT(byte, message, 0) == 0x12)
		here->units++;
	else if (AT(byte, message, 0) == 0x13)
		here->nacks++;
	return XDP_DROP;
}
