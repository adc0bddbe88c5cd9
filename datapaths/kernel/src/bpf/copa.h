/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Copa in fixed point: a window that aims at the rate 1/(delta x queueing delay), and competes where others fill the buffer. Plain
 * C without a library: compiled for the kernel and, by the tests, natively.
 *
 * Source: Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018, sections 2 and 3,
 * as core/cc/src/copa.rs reads it with its default parameters: each constant that is not the paper's has its reason there.
 *
 *	symbol				here
 *	1/delta				inverse
 *	v				velocity
 *	RTTstanding, RTTmin		standing, min
 *
 * Differs from copa.rs:
 * - Windows, v and 1/delta are in 1/65536 (packets), times in microseconds.
 * - A socket keeps nothing with a packet: the window under which the packet just acknowledged was sent, by which the direction is
 *   judged, is looked up by time, in a history that has an entry each 32nd of a smoothed RTT.
 * - The packets of an acknowledgement move the window at once, beyond its target by the step of one packet at most.
 */
#ifndef PACELINE_COPA_H
#define PACELINE_COPA_H

#include "extreme.h"
#include "window.h"

#define COPA_SHIFT 16
/* One packet. */
#define COPA_ONE (1ull << COPA_SHIFT)
/* The initial window (RFC 6928) and the smallest one (the authors' release, genericCC), in packets. */
#define COPA_INITIAL (10 * COPA_ONE)
#define COPA_MIN (2 * COPA_ONE)
/* The largest window that does not overflow below. */
#define COPA_MAX (1ull << 36)
/* 1/delta: default (NSDI 2018, section 2) and largest; how much of it shows a competitor (copa/mode.rs, PROOF). */
#define COPA_INVERSE (2 * COPA_ONE)
#define COPA_INVERSE_MAX (1000 * COPA_ONE)
#define COPA_PROOF (8 * COPA_INVERSE)
/* RTTs in one direction before v doubles (section 2.2). */
#define COPA_PERSISTENCE 3
/* The queue is nearly empty where less than a tenth of its swing is left (section 3.3); it stands where a half or, proven, a fifth is. */
#define COPA_EMPTY 10
#define COPA_STANDING 2
#define COPA_STANDING_IF_PROVEN 5
/* RTTs over which the mode looks back (section 3.3), and of growth that are made up for. */
#define COPA_MODE_RTTS 5
#define COPA_MADE_UP 5
/* copa/mode.rs: PROVEN, UNDOUBTED, SETTLING, AFTER_DRAIN, and the window of RTTmin (section 2.1); copa.rs: STALE. */
#define COPA_SECOND 1000000ull
#define COPA_PROVEN (10 * COPA_SECOND)
#define COPA_UNDOUBTED (30 * COPA_SECOND)
#define COPA_SETTLING (10 * COPA_SECOND)
#define COPA_AFTER_DRAIN (3 * COPA_SECOND)
#define COPA_MIN_WINDOW (10 * COPA_SECOND)
#define COPA_STALE (10 * COPA_SECOND)
/* copa/outage.rs: SILENCE. */
#define COPA_SILENCE COPA_SECOND
/* copa.rs: LEAST_CWND; copa/delays.rs: NEAR and STANDS. */
#define COPA_LEAST (COPA_ONE / 16)
#define COPA_NEAR 256
#define COPA_STANDS 20
/* ceiling.rs: PACKETS, ROUND_TRIPS, LEAST_PACKETS, LOSSES, FIRST_PACKETS, MANY, TOLERATED, DOUBT, 1/(1 - MOST_LOST), 1/RISES, 1/DOUBLES, FIRST_STEP and LEAST_STEP. */
#define COPA_CYCLE_PACKETS 40
#define COPA_CYCLE_ROUND_TRIPS 20
#define COPA_CYCLE_LEAST_PACKETS 8
#define COPA_CYCLE_LOSSES 4
#define COPA_CYCLE_FIRST_PACKETS 10
#define COPA_CYCLES 64
#define COPA_CYCLE_MOST (1u << 24)
#define COPA_TOLERATED 20
#define COPA_TOLERATED_IN_QUEUES 50
#define COPA_DOUBT (10 * 19)
#define COPA_DOUBT_IN_QUEUES 49
#define COPA_LEAST_KEPT 4
#define COPA_RISES 50
#define COPA_DOUBLES 100
#define COPA_FIRST_STEP 32
#define COPA_LEAST_STEP (COPA_ONE / 16)

/* Entries of the history, a power of two: two RTTs, as a queue may double the RTT in one. */
#define COPA_HISTORY 64
#define COPA_HISTORY_PER_RTT 32

enum copa_queue { COPA_EMPTIED, COPA_SWUNG, COPA_STOOD };
enum copa_direction { COPA_NONE, COPA_DOWN, COPA_UP };

struct copa {
	u64 cwnd;
	u64 velocity;
	u64 inverse;
	/* Until a drain ends the window is the smallest; the window and RTTstanding before it, when its smallest RTT was seen. */
	u64 drain_until;
	u64 drain_cwnd;
	u64 drain_seen;
	u32 drain_standing;
	u32 drain_lowest;
	/* When the epoch of v ends. */
	u64 epoch_end;
	/* When 1/delta was last moved, when it last answered a loss, and when that showed a competitor; 0: never. */
	u64 last_change;
	u64 last_cut;
	u64 proof;
	/* No queue is taken for a competitor's before. */
	u64 settles;
	u64 rests;
	/* What heavy loss says of the largest window, and how far it rises next; 0: nothing. The same before the last such loss. */
	u64 ceiling;
	u64 ceiling_step;
	u64 ceiling_before;
	u64 ceiling_step_before;
	/* Packets and losses of this cycle. */
	u64 cycle_since;
	u32 cycle_packets;
	u32 cycle_lost;
	/* Cycles whose packets are counted, this one left out. */
	u32 cycles;
	/* When the RTT was last near its smallest. */
	u64 emptied;
	u64 last_ack;
	/* Since when nothing has arrived; when the last outage ended, until something that was sent later arrives, or 0. */
	u64 waits;
	u64 outage_end;
	/* The window before the last timeout or heavy loss, for undo; 0: none. */
	u64 before;
	/* Eighths of a microsecond. */
	u32 srtt;
	u32 latest;
	u8 steady;
	u8 competitive;
	u8 draining;
	u8 direction;
	/* Heavy loss lowered the ceiling, and no cycle since has been clean. */
	u8 lowered;
	u32 same;
	/* From here on nothing has to be zero but the counts. */
	struct extreme min;
	struct extreme standing;
	struct extreme near;
	struct extreme most;
	/* The windows of late, and from when on they were; the newest is at history_last, and this many are known. */
	struct {
		u64 since;
		u64 cwnd;
	} history[COPA_HISTORY];
	u32 history_last;
	u32 history_count;
};

/* What an acknowledgement shows. */
struct copa_ack {
	/* Microseconds. */
	u64 now;
	/* Negative where it gave none. */
	s32 rtt;
	/* Packets. */
	u32 delivered;
	/* The flow used its window, so that it may grow. */
	u8 used;
};

arithmetic u64 copa_smaller(u64 a, u64 b)
{
	return a < b ? a : b;
}

arithmetic u64 copa_larger(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* The largest window, and the smallest one. */
arithmetic u64 copa_ceiling(const struct copa *c)
{
	return c->ceiling ? c->ceiling : COPA_MAX;
}

arithmetic u64 copa_least(const struct copa *c)
{
	return copa_smaller(COPA_MIN, copa_ceiling(c));
}

arithmetic u32 copa_queueing(const struct copa *c)
{
	u32 standing = extreme_of(&c->standing), min = extreme_of(&c->min);

	return standing > min ? standing - min : 0;
}

/* Forgets the direction; the next epoch ends an RTT from now. */
arithmetic void copa_restart_velocity(struct copa *c, u64 now)
{
	c->velocity = COPA_ONE;
	c->direction = COPA_NONE;
	c->same = 0;
	c->epoch_end = now + (c->srtt >> 3);
}

/* Finds the path again from at most the initial window; mode and ceiling stay. */
arithmetic void copa_restart(struct copa *c)
{
	c->cwnd = copa_smaller(c->cwnd, COPA_INITIAL);
	c->steady = 0;
	c->draining = 0;
	c->emptied = 0;
	c->srtt = 0;
	c->latest = 0;
	c->min.count = 0;
	c->standing.count = 0;
	c->near.count = 0;
	c->most.count = 0;
	c->history_count = 0;
	copa_restart_velocity(c, 0);
}

arithmetic void copa_forget_ceiling(struct copa *c)
{
	c->ceiling = 0;
	c->lowered = 0;
	c->cycle_since = 0;
	c->cycles = 0;
	c->cycle_packets = 0;
	c->cycle_lost = 0;
}

/* A connection begins; the memory was zero. */
arithmetic void copa_reset(struct copa *c)
{
	c->cwnd = COPA_INITIAL;
	c->inverse = COPA_INVERSE;
	copa_restart(c);
}

/* It is in Competitive mode, and no loss has shown a competitor for long: it may mistake like flows for one. */
arithmetic int copa_doubtful(const struct copa *c, u64 now)
{
	return c->competitive && (!c->proof || now - c->proof >= COPA_UNDOUBTED);
}

arithmetic void copa_measure(struct copa *c, u64 now, u32 rtt)
{
	u32 window, age = 0;

	c->latest = rtt;
	/* RFC 6298; the paper is silent. */
	c->srtt = c->srtt ? c->srtt - (c->srtt >> 3) + rtt : rtt << 3;
	/* While it is in doubt the smallest RTT does not age: a drain renews it. */
	if (c->draining || copa_doubtful(c, now))
		age = extreme_age(&c->min, now);
	extreme_update(&c->min, 0, now, rtt, larger(COPA_MIN_WINDOW, age));
	if (rtt - smaller(rtt, extreme_of(&c->min)) <= extreme_of(&c->min) / COPA_NEAR)
		c->emptied = now;
	window = smaller(c->srtt >> 4, COPA_MIN_WINDOW);
	extreme_update(&c->standing, 0, now, rtt, window);
	window = smaller((u32)((u64)c->srtt * COPA_MODE_RTTS >> 3), COPA_MIN_WINDOW);
	extreme_update(&c->near, 0, now, rtt, window);
	extreme_update(&c->most, 1, now, rtt, window);
}

/* What the queue did in the last 5 RTT. */
arithmetic enum copa_queue copa_queue_of(const struct copa *c, u64 now)
{
	u64 min = extreme_of(&c->min), left = extreme_of(&c->near) - min, swing = extreme_of(&c->most) - min;
	/* A packet counts as none, but not a quarter of the RTT. */
	u64 packet = copa_smaller(((u64)extreme_of(&c->standing) << COPA_SHIFT) / copa_larger(c->cwnd, 1), min / 4);
	u64 part = c->proof && now - c->proof < COPA_PROVEN ? COPA_STANDING_IF_PROVEN : COPA_STANDING;

	if (!swing || left * COPA_EMPTY < swing || left < packet)
		return COPA_EMPTIED;
	return left * part < swing ? COPA_SWUNG : COPA_STOOD;
}

/* Adds 1 to 1/delta each RTT, as Reno adds a packet. */
arithmetic void copa_compete(struct copa *c, u64 now)
{
	u64 waited = now - c->last_change, rtts;

	if (waited <= c->latest)
		return;
	rtts = copa_smaller(copa_larger(waited / larger(c->latest, 1), 1), COPA_MADE_UP);
	c->inverse = copa_smaller(c->inverse + rtts * COPA_ONE, COPA_INVERSE_MAX);
	c->last_change = now;
}

arithmetic void copa_switch_mode(struct copa *c, u64 now)
{
	const enum copa_queue queue = copa_queue_of(c, now);
	const int before = c->competitive;

	if (!c->settles)
		c->settles = now + COPA_SETTLING;
	if (queue == COPA_EMPTIED)
		c->competitive = 0;
	else if (queue == COPA_STOOD && now >= c->settles && now >= c->rests)
		c->competitive = 1;
	if (!c->competitive)
		c->inverse = COPA_INVERSE;
	else if (!before || !c->last_change)
		c->last_change = now;
	else if (queue == COPA_STOOD)
		copa_compete(c, now);
}

/* Begins and ends drains; true while the window is held for one. */
arithmetic int copa_drains(struct copa *c, u64 now)
{
	if (c->draining) {
		if (c->latest <= c->drain_lowest) {
			c->drain_seen = now;
			c->drain_lowest = c->latest;
		}
		if (now < c->drain_until)
			return 1;
		c->draining = 0;
		c->min.count = 0;
		extreme_update(&c->min, 0, c->drain_seen, c->drain_lowest, COPA_MIN_WINDOW);
		/* The rate from before the drain, without the queue. */
		c->cwnd = copa_larger(c->drain_cwnd * c->drain_lowest / larger(c->drain_standing, 1), copa_least(c));
		copa_restart_velocity(c, now);
		c->competitive = 0;
		c->inverse = COPA_INVERSE;
		c->rests = now + COPA_AFTER_DRAIN;
	} else if (c->steady && copa_doubtful(c, now) && extreme_age(&c->min, now) > COPA_MIN_WINDOW) {
		c->draining = 1;
		c->drain_until = now + c->latest + extreme_of(&c->min);
		c->drain_cwnd = c->cwnd;
		c->drain_standing = extreme_of(&c->standing);
		c->drain_seen = now;
		c->drain_lowest = c->latest;
		c->cwnd = copa_smaller(c->cwnd, COPA_MIN);
	}
	return c->draining;
}

/* Notes the window after it has moved. */
arithmetic void copa_note(struct copa *c, u64 now)
{
	u32 last = c->history_last % COPA_HISTORY;

	if (c->history_count && now - c->history[last].since < (c->srtt >> 3) / COPA_HISTORY_PER_RTT)
		return;
	last = (last + 1) % COPA_HISTORY;
	c->history[last].since = now;
	c->history[last].cwnd = c->cwnd;
	c->history_last = last;
	c->history_count = smaller(c->history_count + 1, COPA_HISTORY);
}

/* The window at `time`, or the oldest that is known. */
arithmetic u64 copa_window_at(const struct copa *c, u64 time)
{
	u64 cwnd = c->cwnd;
	u32 back;

	for (back = 0; back < COPA_HISTORY && back < c->history_count; back++) {
		u32 at = (c->history_last - back) % COPA_HISTORY;

		cwnd = c->history[at].cwnd;
		if (c->history[at].since <= time)
			break;
	}
	return cwnd;
}

arithmetic void copa_step_velocity(struct copa *c, u64 now, int up)
{
	if (now >= c->epoch_end) {
		u8 direction = c->cwnd > copa_window_at(c, now - c->latest) ? COPA_UP : COPA_DOWN;

		if (c->direction != direction) {
			c->velocity = COPA_ONE;
			c->same = 0;
		} else if (++c->same >= COPA_PERSISTENCE) {
			c->velocity *= 2;
		}
		c->direction = direction;
		c->epoch_end = now + (c->srtt >> 3);
	}
	/* What it was earned in has turned. */
	if (c->velocity > COPA_ONE && c->direction != (up ? COPA_UP : COPA_DOWN)) {
		c->velocity = COPA_ONE;
		c->same = 0;
	}
	c->velocity = copa_larger(copa_smaller(c->velocity, (c->cwnd << COPA_SHIFT) / c->inverse), COPA_ONE);
}

/* Moves the window for the packets of an acknowledgement. */
arithmetic void copa_move(struct copa *c, const struct copa_ack *ack)
{
	u32 queueing = copa_queueing(c);
	/* At which the rate is 1/(delta d_q). */
	u64 target = queueing ? extreme_of(&c->standing) * c->inverse / queueing : COPA_MAX;
	u64 step, change, limit;
	int up = c->cwnd <= target;

	if (!c->steady) {
		if (!up) {
			c->steady = 1;
			copa_restart_velocity(c, ack->now);
		} else if (ack->used) {
			limit = copa_larger(target, c->cwnd) + COPA_ONE;
			c->cwnd = copa_smaller(c->cwnd + ack->delivered * COPA_ONE, limit);
		}
		return;
	}
	copa_step_velocity(c, ack->now, up);
	/* v / (delta cwnd) a packet; v / delta is not above the window. */
	step = ((c->velocity * c->inverse >> COPA_SHIFT) << COPA_SHIFT) / copa_larger(c->cwnd, 1);
	change = step * ack->delivered;
	if (!up) {
		limit = copa_smaller(target, c->cwnd - copa_smaller(step, c->cwnd));
		c->cwnd = copa_larger(c->cwnd > change + limit ? c->cwnd - change : limit, copa_least(c));
	} else if (ack->used) {
		c->cwnd = copa_smaller(c->cwnd + change, copa_larger(target, c->cwnd) + step);
	}
}

arithmetic u64 copa_first_step(u64 ceiling)
{
	return copa_larger(ceiling / COPA_FIRST_STEP, COPA_LEAST_STEP);
}

arithmetic void copa_begin_cycles(struct copa *c)
{
	c->cycles = 0;
	c->cycle_packets = 0;
	c->cycle_lost = 0;
}

/* Packets of a cycle at the least. */
arithmetic u64 copa_enough(const struct copa *c)
{
	u64 packets = COPA_CYCLE_PACKETS;

	if (!c->steady)
		return COPA_CYCLE_FIRST_PACKETS;
	if (c->ceiling)
		packets = copa_smaller(c->ceiling * COPA_CYCLE_ROUND_TRIPS >> COPA_SHIFT, packets);
	return copa_larger(packets, COPA_CYCLE_LEAST_PACKETS);
}

/* A cycle had no more losses than are tolerated: the ceiling may rise. */
arithmetic void copa_rise(struct copa *c, u64 packets, u64 lost)
{
	const int rises = COPA_RISES * lost <= packets, doubles = COPA_DOUBLES * lost <= packets;

	c->lowered = 0;
	c->before = 0;
	if (c->ceiling && !doubles)
		c->ceiling_step = copa_first_step(c->ceiling);
	if (rises) {
		copa_begin_cycles(c);
		if (c->ceiling) {
			c->ceiling = copa_smaller(c->ceiling + c->ceiling_step, COPA_MAX);
			c->ceiling_step = copa_smaller(2 * c->ceiling_step, COPA_MAX);
		}
	} else if (++c->cycles >= COPA_CYCLES) {
		c->cycles = COPA_CYCLES / 2;
		c->cycle_packets /= 2;
		c->cycle_lost /= 2;
	}
}

/*
 * Counts packets and losses. Heavy loss says what the delay does not: no more is kept of the window than arrived, or a quarter,
 * and that is its ceiling, which rises by steps that double while nearly nothing is lost.
 */
arithmetic void copa_count(struct copa *c, u64 now, u32 delivered, u32 missing)
{
	const int queue = c->steady && now - c->emptied > COPA_STANDS * (u64)(c->srtt >> 3) &&
			  !(c->proof && now - c->proof < COPA_PROVEN);
	const u64 tolerated = queue ? COPA_TOLERATED_IN_QUEUES : COPA_TOLERATED;
	const u64 doubt = queue ? COPA_DOUBT_IN_QUEUES : COPA_DOUBT;
	const u64 span = (c->steady ? 2 : 1) * (u64)c->latest;
	u64 packets, lost, excess, kept;

	c->cycle_packets = copa_smaller((u64)c->cycle_packets + delivered + missing, COPA_CYCLE_MOST);
	c->cycle_lost = copa_smaller((u64)c->cycle_lost + missing, COPA_CYCLE_MOST);
	packets = c->cycle_packets;
	lost = c->cycle_lost;
	if (now <= c->cycle_since + span || (packets < copa_enough(c) && lost < COPA_CYCLE_LOSSES))
		return;
	c->cycle_since = now;
	excess = copa_larger(tolerated * lost, packets) - packets;
	if (excess * excess <= doubt * packets) {
		copa_rise(c, packets, lost);
		return;
	}
	copa_begin_cycles(c);
	c->before = c->cwnd;
	c->lowered = 1;
	c->ceiling_before = c->ceiling;
	c->ceiling_step_before = c->ceiling_step;
	kept = copa_larger(c->cwnd * (packets - lost) / packets, c->cwnd / COPA_LEAST_KEPT);
	if (!c->steady || queue)
		kept = copa_smaller(kept, c->cwnd / 2);
	c->steady = 1;
	copa_restart_velocity(c, now);
	c->cwnd = copa_larger(kept, COPA_LEAST);
	c->ceiling = c->cwnd;
	c->ceiling_step = copa_first_step(c->cwnd);
}

/* Packets were lost. */
arithmetic void copa_on_loss(struct copa *c, u64 now, u32 lost)
{
	c->rests = copa_larger(now, 1);
	if (c->competitive && now > c->last_cut + c->latest) {
		if (c->inverse >= COPA_PROOF)
			c->proof = now;
		c->inverse = copa_larger(c->inverse / 2, COPA_INVERSE);
		c->last_cut = now;
		c->last_change = now;
	}
	/* copa/outage.rs: a path that is dark says nothing of how much it carries. */
	copa_count(c, now, 0, c->outage_end ? 0 : lost);
}

/* What it says was sent before an outage ended (copa/outage.rs): it waited for the path, not in a queue. */
arithmetic int copa_delayed(struct copa *c, const struct copa_ack *ack)
{
	u64 silence = c->waits ? ack->now - c->waits : 0;
	int known = extreme_known(&c->min);

	/* Before the first RTT that is believed once, as a long path looks like an outage. */
	if (known ? silence > extreme_of(&c->min) + COPA_SILENCE : !c->outage_end && silence > COPA_SILENCE) {
		copa_restart(c);
		c->outage_end = ack->now;
	}
	c->waits = ack->now;
	if (c->outage_end && ack->rtt >= 0 && ack->now - (u32)ack->rtt >= c->outage_end)
		c->outage_end = 0;
	return c->outage_end != 0;
}

/* An acknowledgement has arrived; its losses come first. */
arithmetic void copa_on_ack(struct copa *c, const struct copa_ack *ack)
{
	c->last_ack = ack->now;
	if (copa_delayed(c, ack))
		return;
	if (ack->rtt >= 0)
		copa_measure(c, ack->now, larger((u32)ack->rtt, 1));
	if (!extreme_known(&c->min) || copa_drains(c, ack->now))
		return;
	copa_switch_mode(c, ack->now);
	if (ack->delivered)
		copa_move(c, ack);
	c->cwnd = copa_smaller(c->cwnd, copa_ceiling(c));
	copa_count(c, ack->now, ack->delivered, 0);
	copa_note(c, ack->now);
}

/* The retransmission timer has fired for the `count`th time in a row: the second says that nothing in flight arrived. */
arithmetic void copa_on_timeout(struct copa *c, u64 now, u32 count)
{
	u64 cwnd;

	/* One packet: where windows are that small, losses are found by timeouts alone. Of several in a row the first. */
	if (count <= 1)
		copa_count(c, now, 0, 1);
	cwnd = c->draining ? c->drain_cwnd : c->cwnd;
	c->draining = 0;
	if (count <= 1)
		c->before = cwnd;
	else
		c->steady = 0;
	c->cwnd = copa_smaller(cwnd, COPA_MIN);
	c->waits = now;
	copa_restart_velocity(c, now);
}

/* The last repair was needless. */
arithmetic void copa_undo(struct copa *c)
{
	if (c->lowered) {
		c->ceiling = c->ceiling_before;
		c->ceiling_step = c->ceiling_step_before;
		c->lowered = 0;
	}
	c->cycle_lost = 0;
	c->cwnd = copa_larger(c->cwnd, c->before);
	c->before = 0;
}

/* The flow sends again after a silence. */
arithmetic void copa_after_idle(struct copa *c, u64 now)
{
	c->waits = now;
	if (c->last_ack && now - c->last_ack > COPA_STALE) {
		copa_forget_ceiling(c);
		copa_restart(c);
	}
}

/* Packets that may be in flight. */
arithmetic u32 copa_window(const struct copa *c)
{
	return (u32)(c->cwnd >> COPA_SHIFT);
}

/*
 * Bytes a second: twice the window each RTTstanding, so that pacing smooths and the window limits; the window below a ceiling. 0 before
 * the first RTT.
 */
arithmetic u64 copa_pacing(const struct copa *c, u32 mss)
{
	u64 times = copa_ceiling(c) < 2 * c->cwnd ? 1 : 2;
	u64 bytes = times * c->cwnd * mss >> COPA_SHIFT, standing = extreme_of(&c->standing);

	return standing ? copa_larger(bytes * 1000000 / standing, 1) : 0;
}

#endif
