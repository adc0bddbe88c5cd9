/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* CUBIC (cubic.h) on a socket: each function is one of Linux's, with `struct cubic` wherever its owner keeps it. */
#ifndef PACELINE_CUBIC_SOCKET_H
#define PACELINE_CUBIC_SOCKET_H

#include "socket.h"

#include "cubic.h"

static __always_inline struct cubic_ack cubic_ack_of(struct sock *sk, int hystart)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct cubic_ack){
		.now = ticks_now(sk),
		.hz = ticks_per_second(),
		.now_us = tp->tcp_mstamp,
		.snd_una = tp->snd_una,
		.snd_nxt = tp->snd_nxt,
		.pacing_rate = sk->sk_pacing_rate,
		.burst = sk->sk_gso_max_size,
		.paced = sk->sk_pacing_status != SK_PACING_NONE,
		.hystart = hystart,
	};
}

static __always_inline void cubic_socket_reset(struct sock *sk, struct cubic *c)
{
	cubic_reset(c, tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->snd_nxt);
}

static __always_inline void cubic_socket_measure(struct sock *sk, struct cubic *c, int hystart, s32 rtt_us)
{
	const struct cubic_ack ack = cubic_ack_of(sk, hystart);
	struct window w = window_of(sk);

	cubic_measure(c, &w, &ack, rtt_us);
	tcp_sk(sk)->snd_ssthresh = w.ssthresh;
}

static __always_inline void cubic_socket_grow(struct sock *sk, struct cubic *c, u32 acked)
{
	const struct cubic_ack ack = cubic_ack_of(sk, 0);
	struct window w = window_of(sk);

	if (!may_grow(sk, &w))
		return;
	cubic_grow(c, &w, &ack, acked);
	set_window(sk, &w);
}

/* The flow sends after a silence. */
static __always_inline void cubic_socket_after_idle(struct sock *sk, struct cubic *c)
{
	/* Without jiffies: the curve was read last with the acknowledgements before the silence. */
	cubic_after_idle(c, ticks_now(sk), CONFIG_HZ ? tcp_sk(sk)->lsndtime : c->last_time);
}

#endif
