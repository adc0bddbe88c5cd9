/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The record of a socket's path (telemetry.h), and where the socket stands, for what decides by it. */
#ifndef PACELINE_TELEMETRY_SOCKET_H
#define PACELINE_TELEMETRY_SOCKET_H

#include "socket.h"

#include "telemetry.h"

/* Flows that can have a record at a time: as many as an agent steers (agent.h). */
#define TELEMETRY_FLOWS 16384

_Static_assert(sizeof(struct pl_telemetry) == 64, "as user space writes it");

/* Written by user space, by the cookie of the flow's socket. Each loaded module has its own map of this name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TELEMETRY_FLOWS);
	__type(key, __u64);
	__type(value, struct pl_telemetry);
} pl_telemetry SEC(".maps");

/*
 * Reads the newest record, or one of zeros. A socket has no cookie before user space asks for it (SO_COOKIE), and then no
 * record.
 */
static __always_inline void telemetry_read(struct sock *sk, struct pl_telemetry *r)
{
	__u64 cookie = sk->__sk_common.skc_cookie.counter, number;
	const struct pl_telemetry *entry = cookie ? bpf_map_lookup_elem(&pl_telemetry, &cookie) : 0;

	if (!entry) {
		__builtin_memset(r, 0, sizeof(*r));
		return;
	}
	/* Another record may take this one's place meanwhile: its numbers must be equal, read first and last. */
	number = *(const volatile __u64 *)&entry->rseq;
	__builtin_memcpy(r, entry, sizeof(*r));
	r->rseq = number;
	r->rseq_again = *(const volatile __u64 *)&entry->rseq_again;
}

static __always_inline struct telemetry_flow telemetry_flow_of(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct window w = window_of(sk);
	/* Before the first sample it is the largest number. */
	const __u32 min_rtt = tp->rtt_min.s[0].v;

	return (struct telemetry_flow){
		.now_ns = bpf_ktime_get_ns(),
		.now_us = tp->tcp_mstamp,
		.srtt_us = tp->srtt_us >> 3,
		.min_rtt_us = min_rtt == ~0u ? 0 : min_rtt,
		.delivered = tp->rate_delivered,
		.interval_us = tp->rate_interval_us,
		.timeouts = inet_csk(sk)->icsk_retransmits,
		.limited = may_grow(sk, &w),
	};
}

#endif
