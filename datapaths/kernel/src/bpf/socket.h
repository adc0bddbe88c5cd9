/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A socket's window and clock, for the arithmetic headers. */
#ifndef PACELINE_SOCKET_H
#define PACELINE_SOCKET_H

#include "tcp.h"

#include <bpf/bpf_core_read.h>

#include "window.h"

static __always_inline struct window window_of(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct window){
		.cwnd = tp->snd_cwnd,
		.cwnd_cnt = tp->snd_cwnd_cnt,
		.ssthresh = tp->snd_ssthresh,
		.clamp = tp->snd_cwnd_clamp,
	};
}

static __always_inline void set_window(struct sock *sk, const struct window *w)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = w->cwnd;
	tp->snd_cwnd_cnt = w->cwnd_cnt;
	tp->snd_ssthresh = w->ssthresh;
}

/* Linux tcp_is_cwnd_limited. */
static __always_inline int may_grow(struct sock *sk, const struct window *w)
{
	return uses_window(w, BPF_CORE_READ_BITFIELD(tcp_sk(sk), is_cwnd_limited), tcp_sk(sk)->max_packets_out);
}

/* The window when the last repair was needless. Linux tcp_reno_undo_cwnd. */
static __always_inline __u32 undone_window(struct sock *sk)
{
	return larger(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

/* How many jiffies make a second; 0 where the kernel does not say how it was built. */
extern int CONFIG_HZ __kconfig __weak;

/* Ticks of ticks_now() in a second. */
static __always_inline __u32 ticks_per_second(void)
{
	return CONFIG_HZ ? (__u32)CONFIG_HZ : 1000;
}

/* Jiffies; where their length is not known, milliseconds. */
static __always_inline __u32 ticks_now(struct sock *sk)
{
	return CONFIG_HZ ? (__u32)bpf_jiffies64() : (__u32)(tcp_sk(sk)->tcp_mstamp / 1000);
}

#endif
