// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * CUBIC with HyStart, as Linux has it: the same windows, packet by packet (cubic.h), and the same calls, so that losses are
 * repaired and marks answered by proportional rate reduction (RFC 6937). Made to differ from the system's own CUBIC where a
 * flow should: HyStart is a switch, of all flows and of one.
 *
 * Source: Linux net/ipv4/tcp_cubic.c (its operations), struct tcp_congestion_ops of include/net/tcp.h.
 */
#include "cubic_socket.h"

char _license[] SEC("license") = "Dual MIT/GPL";

PRIVATE_STATE(struct cubic)

/* Of one flow or of all. Zero, which is what a map begins with, leaves it to all, and those to the default: on. */
enum hystart_switch { HYSTART_DEFAULT = 0, HYSTART_ON = 1, HYSTART_OFF = 2 };

/* Written by user space with the socket as its key. Read while the flow is in slow start, so that it can be set at any time. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} pl_cubic_flow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pl_cubic_all SEC(".maps");

static __always_inline int hystart_of(struct sock *sk)
{
	__u32 first = 0, *of_flow = bpf_sk_storage_get(&pl_cubic_flow, sk, 0, 0), *of_all;

	if (of_flow && *of_flow != HYSTART_DEFAULT)
		return *of_flow == HYSTART_ON;
	of_all = bpf_map_lookup_elem(&pl_cubic_all, &first);
	return !of_all || *of_all != HYSTART_OFF;
}

SEC("struct_ops")
void BPF_PROG(cubic_init, struct sock *sk)
{
	cubic_socket_reset(sk, private(sk));
}

SEC("struct_ops")
void BPF_PROG(cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	int starting = tcp_sk(sk)->snd_cwnd < tcp_sk(sk)->snd_ssthresh && !private(sk)->found;

	cubic_socket_measure(sk, private(sk), starting && hystart_of(sk), sample->rtt_us);
}

SEC("struct_ops")
void BPF_PROG(cubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	cubic_socket_grow(sk, private(sk), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_ssthresh_of, struct sock *sk)
{
	return cubic_ssthresh(private(sk), tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(cubic_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_LOSS)
		cubic_socket_reset(sk, private(sk));
}

SEC("struct_ops")
void BPF_PROG(cubic_cwnd_event, struct sock *sk, int event)
{
	if (event == CA_EVENT_TX_START)
		cubic_socket_after_idle(sk, private(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_undo_cwnd, struct sock *sk)
{
	return undone_window(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops pl_cubic = {
	.ssthresh = (void *)cubic_ssthresh_of,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_set_state,
	.cwnd_event = (void *)cubic_cwnd_event,
	.pkts_acked = (void *)cubic_pkts_acked,
	.undo_cwnd = (void *)cubic_undo_cwnd,
	.init = (void *)cubic_init,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "pl_cubic",
};
