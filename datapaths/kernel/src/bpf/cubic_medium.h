/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CUBIC that spares the window when telemetry says that the medium lost the packets, and no queue: the kernel's
 * `cubic-l1`, `cubic-l1g` and `cubic-l2`. Plain C without a library: compiled for the kernel and, by the tests, natively.
 *
 * Source: Bhat, Haxhibeqiri, Moerman, Hoebeke, "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF": L1
 * (the window stays) and L2 (5 % off). What becomes of threshold, curve, timeouts and slow start is ours, as in core/cc/src/cubic_medium.rs:
 *
 *	the medium lost packets		L1		L2			L1G
 *	the window w			w		0.95 w			w + d, at most the cap
 *	W_max and the curve		unchanged	W_max = w, a new curve	unchanged
 *	in slow start			leaves it	leaves it		stays in it
 *	timeout: threshold		w		0.95 w			w
 *	timeout: window			the kernel's	the kernel's		10 packets, if it had this many
 *
 * d = max(1, w/4) where the hop has room for d + 4 packets for each of its flows and round trips show less than a quarter of its queue, else nothing: at 10 % of loss every round trip has one,
 * the flow is always in recovery, where no acknowledgement opens the window, and it must grow at the loss or not at all.
 *
 * A second timeout in a row is answered as CUBIC would have answered the losses that were spared. Losses that are not the
 * medium's are CUBIC's, bit by bit.
 *
 * L2 keeps the part of a packet that rounding would take: of 10 packets 9.5 remain, not 9. All keep the part by which the window has
 * grown already, which Linux drops at each loss: where every round trip has one, no window would ever be a packet larger.
 */
#ifndef PACELINE_CUBIC_MEDIUM_H
#define PACELINE_CUBIC_MEDIUM_H

#include "cubic.h"
#include "telemetry.h"

/* The paper's factor of L2, in hundredths; also what a window above its cap keeps in a round trip (our choice). */
#define MEDIUM_BETA 95u
/* L1G grows by a quarter of the window, with room for as many packets more. Our choices: half of slow start's half; a report is old. */
#define MEDIUM_GROWTH_SHIFT 2
#define MEDIUM_MARGIN 4u
/* ... while less of the queue than one in this many stands, as round trips show. Our choice, as in cubic_medium.rs. */
#define MEDIUM_GROWS_BELOW 4u
/* The cap is at least this, and so is L1G's window after a timeout. RFC 6928: the initial window. */
#define MEDIUM_INITIAL 10u
/* Delivery rates are kept in so many packets a second, up to a million. */
#define MEDIUM_RATE 16u

enum medium_mode { MEDIUM_KEEP, MEDIUM_GROW, MEDIUM_CUT };

struct medium {
	struct streak streak;
	struct path_rtt path;
	/* The window when losses were last answered. */
	u32 before;
	/* L1G: slow start, which recovery interrupts, goes on to here; 0 where none is interrupted. */
	u32 slow_until;
	/* The round trip ends when everything below has been acknowledged. */
	u32 round_end;
	/* The largest delivery rates since the last losses, and between these and those before: MEDIUM_RATE packets a second. */
	u16 rates[2];
	/* L2: of a packet, in 1/65536. L1 and L1G: packets acknowledged towards the next step of the window. */
	union {
		u16 rest;
		u16 count;
	};
	/* enum medium_mode. */
	u8 mode : 2;
	/* The last losses were spared. */
	u8 spared : 1;
	/* They were decided on, and the state that they lead to is not entered yet. */
	u8 asked : 1;
	/* When the newest of `path` came. */
	u8 seen;
};

arithmetic void medium_reset(struct medium *m, enum medium_mode mode, u32 now_us, u32 snd_una)
{
	m->streak.last_us = now_us;
	m->streak.length = 0;
	path_rtt_reset(&m->path);
	m->before = 0;
	m->slow_until = 0;
	m->round_end = snd_una;
	m->rates[0] = 0;
	m->rates[1] = 0;
	m->rest = 0;
	m->mode = (u8)mode;
	m->spared = 0;
	m->asked = 0;
	m->seen = 0;
}

/* Packets have been delivered at this rate. */
arithmetic void medium_measure(struct medium *m, const struct telemetry_flow *f)
{
	u64 rate = f->interval_us ? (u64)f->delivered * (1000000 / MEDIUM_RATE) / f->interval_us : 0;

	m->rates[0] = (u16)larger(m->rates[0], rate < 0xffff ? (u32)rate : 0xffff);
}

/* What is delivered in a time at the largest of these rates and the newest. */
arithmetic u64 medium_brought(const struct medium *m, const struct telemetry_flow *f, u32 us)
{
	u64 now = (u64)f->delivered * us / f->interval_us;
	u64 before = (u64)larger(m->rates[0], m->rates[1]) * MEDIUM_RATE * us / 1000000;

	return now > before ? now : before;
}

/*
 * The largest window that spared losses may leave, in packets: twice what the path and the hop's room hold of this flow; of L1G, which gets there
 * by itself, half more than the path holds, and the room. Whatever room is claimed, it counts up to what a round trip brought. At the end of a
 * recovery, where the next losses are answered, few packets arrive, since it thins out the flight: the largest rate since the losses before counts.
 */
arithmetic u32 medium_cap(const struct medium *m, const struct pl_telemetry *r, const struct telemetry_flow *f)
{
	u64 brought, path, room, cap;

	if (!telemetry_fresh(r, f->now_ns) || !f->interval_us || !f->min_rtt_us)
		return ~0u;
	brought = medium_brought(m, f, f->srtt_us);
	path = medium_brought(m, f, f->min_rtt_us);
	room = telemetry_share(r) < brought ? telemetry_share(r) : brought;
	cap = m->mode == MEDIUM_GROW ? path * 3 / 2 + room : 2 * (path + room);
	return cap < SSTHRESH_INFINITE ? larger((u32)cap, MEDIUM_INITIAL) : ~0u;
}

/* Above the cap: towards it. */
arithmetic u32 medium_glide(u32 cwnd, u32 cap)
{
	return larger((u32)((u64)cwnd * MEDIUM_BETA / 100), cap);
}

/* What L1G grows by, in packets. */
arithmetic u32 medium_growth(const struct pl_telemetry *r, const struct telemetry_flow *f, u32 cwnd)
{
	u32 by = larger(cwnd >> MEDIUM_GROWTH_SHIFT, 1);

	if (!telemetry_fresh(r, f->now_ns) || !f->limited || telemetry_queue_stands(r, f, MEDIUM_GROWS_BELOW))
		return 0;
	return telemetry_share(r) >= by + MEDIUM_MARGIN ? by : 0;
}

/* L2: the curve begins again below this window, which is not taken for a newcomer's sign. */
arithmetic u32 medium_cut(struct medium *m, struct cubic *c, u32 cwnd)
{
	u64 left = (((u64)cwnd << 16) + m->rest) * MEDIUM_BETA / 100;

	c->epoch_start = 0;
	c->last_max = cwnd;
	m->rest = left >> 16 < WINDOW_MIN ? 0 : (u16)left;
	return larger((u32)(left >> 16), WINDOW_MIN);
}

/* L1 and L1G: of a window that has no more than the cap, and of one that has. */
arithmetic u32 medium_kept(u32 cwnd, u32 growth, u32 cap)
{
	u32 to = cwnd > cap ? medium_glide(cwnd, cap) : smaller(cwnd + growth, cap);

	return larger(to, WINDOW_MIN);
}

/* Losses have been answered. */
arithmetic void medium_begin_span(struct medium *m)
{
	m->rates[1] = m->rates[0];
	m->rates[0] = 0;
}

/* Packets were lost, or echo a mark (`marked`): answers ssthresh, which is the window after recovery. */
arithmetic u32 medium_ssthresh(struct medium *m, struct cubic *c, const struct window *w, const struct pl_telemetry *r,
			       const struct telemetry_flow *f, int marked)
{
	u32 growth, kept;

	m->before = w->cwnd;
	m->asked = 1;
	m->spared = !marked && telemetry_decide(&m->streak, r, f) == LOSS_MEDIUM;
	if (!m->spared) {
		m->slow_until = 0;
		m->rest = 0;
		medium_begin_span(m);
		return cubic_ssthresh(c, w->cwnd);
	}
	growth = m->mode == MEDIUM_GROW ? medium_growth(r, f, w->cwnd) : 0;
	kept = m->mode == MEDIUM_CUT ? medium_cut(m, c, w->cwnd) : medium_kept(w->cwnd, growth, medium_cap(m, r, f));
	medium_begin_span(m);
	if (m->mode == MEDIUM_CUT)
		return kept;
	if (m->mode == MEDIUM_KEEP)
		return kept;
	if (in_slow_start(w))
		m->slow_until = w->ssthresh;
	return m->slow_until ? smaller(kept, m->slow_until) : kept;
}

/*
 * The retransmission timer has fired; `w` is what Linux made of the window, one packet beside what is still in flight. Where
 * losses were being repaired Linux did not ask for ssthresh: these are of the same congestion, and their window stays what it was.
 */
arithmetic void medium_timeout(struct medium *m, struct cubic *c, struct window *w, const struct pl_telemetry *r,
			       const struct telemetry_flow *f, u32 now_us, u32 snd_nxt)
{
	int spared = m->spared;

	m->slow_until = 0;
	if (m->asked) {
		if (spared && m->mode == MEDIUM_GROW)
			w->ssthresh = medium_kept(m->before, 0, medium_cap(m, r, f));
	} else if (!f->timeouts) {
		spared = telemetry_decide(&m->streak, r, f) == LOSS_MEDIUM;
	} else {
		if (spared)
			w->ssthresh = cubic_ssthresh(c, m->before);
		m->spared = spared = 0;
	}
	m->asked = 0;
	if (!spared) {
		m->rest = 0;
		cubic_reset(c, now_us, snd_nxt);
	} else if (m->mode == MEDIUM_GROW)
		w->cwnd = larger(w->cwnd, smaller(m->before, MEDIUM_INITIAL));
}

/* Losses were spared of late, so that the cap is in force. Otherwise it is not: beside a flow that fills the queue it would be a trap. */
arithmetic int medium_is_capped(const struct medium *m, const struct window *w, const struct telemetry_flow *f)
{
	return m->mode != MEDIUM_CUT && m->streak.length && !in_slow_start(w) && streak_goes_on(&m->streak, f);
}

/* Slow start that recovery has interrupted goes on, and so does the growth by a packet. */
arithmetic void medium_resume(struct medium *m, struct window *w)
{
	w->ssthresh = larger(w->ssthresh, m->slow_until);
	m->slow_until = 0;
	if (m->spared && m->mode != MEDIUM_CUT)
		w->cwnd_cnt = larger(w->cwnd_cnt, m->count);
}

/* L2 after a spared loss: what was acknowledged towards the next packet is a part of it already, which the next loss does not take. */
arithmetic void medium_count_parts(struct medium *m, const struct cubic *c, struct window *w)
{
	u64 rest;

	if (!m->spared || !c->cnt || in_slow_start(w))
		return;
	rest = m->rest + ((u64)w->cwnd_cnt << 16) / c->cnt;
	m->rest = (u16)rest;
	w->cwnd = smaller(w->cwnd + (u32)(rest >> 16), w->clamp);
	w->cwnd_cnt = 0;
}

/* Grows the window by an acknowledgement of `acked` packets, at most to the cap, where the flow uses its window. */
arithmetic void medium_grow_capped(struct medium *m, struct cubic *c, struct window *w, const struct cubic_ack *ack, u32 acked,
				   u32 cap)
{
	if (w->cwnd <= cap) {
		cubic_grow(c, w, ack, acked);
		w->cwnd = smaller(w->cwnd, cap);
		if (m->mode == MEDIUM_CUT)
			medium_count_parts(m, c, w);
		else
			m->count = (u16)smaller(w->cwnd_cnt, 0xffff);
		return;
	}
	/* The second: not of this window, but left from long ago. */
	if (after(m->round_end, ack->snd_una) && !after(m->round_end, ack->snd_nxt))
		return;
	m->round_end = ack->snd_nxt;
	w->cwnd = medium_glide(w->cwnd, cap);
	w->ssthresh = smaller(w->ssthresh, w->cwnd);
}

#endif
