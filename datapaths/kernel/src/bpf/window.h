/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The window of a TCP flow, and how Reno moves it (RFC 5681, section 3.1), in whole packets as Linux counts them: what the
 * controllers here share. Plain C without a library: compiled for the kernel and, by the tests, natively.
 *
 * Source: Linux net/ipv4/tcp_cong.c (tcp_slow_start, tcp_cong_avoid_ai, tcp_reno_ssthresh, tcp_reno_undo_cwnd),
 * include/net/tcp.h (tcp_in_slow_start, tcp_is_cwnd_limited).
 */
#ifndef PACELINE_WINDOW_H
#define PACELINE_WINDOW_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

/* Functions of the arithmetic headers: inlined into their callers, so that the verifier sees what their pointers are. */
#define arithmetic static inline __attribute__((always_inline))

/* Linux keeps two packets after any reduction (RFC 5681, equation 4). */
#define WINDOW_MIN 2u
/* ssthresh before the first loss. Linux TCP_INFINITE_SSTHRESH. */
#define SSTHRESH_INFINITE 0x7fffffffu

/* In packets. The members have the names of tcp_sock's, without `snd_`. */
struct window {
	u32 cwnd;
	/* Packets acknowledged towards the next step of the window. */
	u32 cwnd_cnt;
	u32 ssthresh;
	/* The window never exceeds it. */
	u32 clamp;
};

arithmetic u32 smaller(u32 a, u32 b)
{
	return a < b ? a : b;
}

arithmetic u32 larger(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* `a` is later than `b`, of sequence numbers or times that wrap around. */
arithmetic int after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

arithmetic int in_slow_start(const struct window *w)
{
	return w->cwnd < w->ssthresh;
}

/*
 * The flow uses its window, so that it may grow; in slow start half of it will do. `limited` says that packets waited for the
 * window in the last round trip, `most_out` is the most that was in flight in it.
 */
arithmetic int uses_window(const struct window *w, int limited, u32 most_out)
{
	return limited || (in_slow_start(w) && w->cwnd < 2 * most_out);
}

/* A packet more for each acknowledged, up to ssthresh. Answers how many of `acked` are left for congestion avoidance. */
arithmetic u32 slow_start(struct window *w, u32 acked)
{
	u32 cwnd = smaller(w->cwnd + acked, w->ssthresh);

	acked -= cwnd - w->cwnd;
	w->cwnd = smaller(cwnd, w->clamp);
	return acked;
}

/* A packet more for each `per` acknowledged. */
arithmetic void additive_increase(struct window *w, u32 per, u32 acked)
{
	/* `per` has become smaller than what was counted already: that is worth one packet. */
	if (w->cwnd_cnt >= per) {
		w->cwnd_cnt = 0;
		w->cwnd++;
	}
	w->cwnd_cnt += acked;
	if (w->cwnd_cnt >= per) {
		u32 steps = w->cwnd_cnt / per;

		w->cwnd_cnt -= steps * per;
		w->cwnd += steps;
	}
	w->cwnd = smaller(w->cwnd, w->clamp);
}

/* Reno's growth. */
arithmetic void reno_grow(struct window *w, u32 acked)
{
	if (in_slow_start(w)) {
		acked = slow_start(w, acked);
		if (!acked)
			return;
	}
	additive_increase(w, w->cwnd, acked);
}

/* ssthresh after a loss. */
arithmetic u32 reno_ssthresh(u32 cwnd)
{
	return larger(cwnd >> 1, WINDOW_MIN);
}

#endif
