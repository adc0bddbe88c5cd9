// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Selects a congestion control for the TCP sockets of a cgroup, and for no others: when a socket connects, before its SYN
 * (which says whether it takes ECN), and when it listens, so that what it accepts has it from the start.
 *
 * A socket for which the program has chosen one itself keeps it, as it would keep it against a namespace's default.
 *
 * Source: Linux net/ipv4/tcp_output.c (tcp_connect), net/ipv4/af_inet.c (inet_listen), net/ipv4/tcp_cong.c
 * (tcp_ca_openreq_child: an accepted socket keeps what was set on its listener).
 */
#include "tcp.h"

#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "Dual MIT/GPL";

/* include/uapi/linux/bpf.h; programs read their context at fixed places. */
struct bpf_sock_ops {
	__u32 op;
	__u32 between[45];
	struct sock *sk;
};

enum { SOCK_OPS_TCP_CONNECT = 3, SOCK_OPS_PASSIVE_ESTABLISHED = 5, SOCK_OPS_TCP_LISTEN = 11 };

/* The loader writes it. TCP_CA_NAME_MAX. */
const volatile char controller[16] = "";

/* Sockets that did not get it: it is no longer registered, or a route has a choice of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} refused SEC(".maps");

static __always_inline int has_chosen(struct sock *sk)
{
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	return !tp || BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

SEC("sockops")
int select_controller(struct bpf_sock_ops *ops)
{
	char name[16];
	__u32 zero = 0;
	__u64 *count;

	switch (ops->op) {
	case SOCK_OPS_TCP_CONNECT:
	case SOCK_OPS_TCP_LISTEN:
	/* Of a listener that did not get it. */
	case SOCK_OPS_PASSIVE_ESTABLISHED:
		break;
	default:
		return 1;
	}
	if (has_chosen(ops->sk))
		return 1;
	for (int at = 0; at < (int)sizeof(name); at++)
		name[at] = controller[at];
	if (bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, name, sizeof(name))) {
		count = bpf_map_lookup_elem(&refused, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return 1;
}
