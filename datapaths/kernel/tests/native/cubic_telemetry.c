/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What CUBIC makes of records of the path, with numbers worked by hand. Ends with 0 when all holds; says what does not. */
#include <string.h>

#include "check.h"

#include "../../src/bpf/cubic_medium.h"
#include "../../src/bpf/eq1.h"

#define HZ 1000u
#define MS 1000u

/* The private area of a socket, beside CUBIC. */
_Static_assert(sizeof(struct cubic) + sizeof(struct medium) <= 104, "it fits into the socket");
_Static_assert(sizeof(struct cubic) + sizeof(struct eq1) <= 104, "it fits into the socket");
_Static_assert(sizeof(struct pl_telemetry) == 64, "as user space writes it");

/* 20 Mbit/s, 20 ms, 60 packets, of which `room` are free: 1650 packets/s, 33 a round trip. */
static struct pl_telemetry record(u32 verdict, u32 room)
{
	return (struct pl_telemetry){
		.rseq = 5, .rseq_again = 5, .stamp_ns = 1000000000, .fresh_ns = 100000000, .verdict = verdict, .avail_pkts = room,
		.limit_pkts = 60, .rate_pps = 1650, .flows = 1, .drain_us = 36363, .reports = 3,
	};
}

/* Ten milliseconds later, and no queue; the window limits the flow. */
static struct telemetry_flow flow(void)
{
	return (struct telemetry_flow){
		.now_ns = 1010000000, .now_us = 1010000, .srtt_us = 20 * MS, .min_rtt_us = 20 * MS, .delivered = 33,
		.interval_us = 20 * MS, .limited = 1,
	};
}

static void records_count_while_they_are_fresh(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60), none = { 0 };

	CHECK(telemetry_fresh(&r, 1000000000) && telemetry_fresh(&r, 1099999999));
	CHECK(!telemetry_fresh(&r, 1100000000) && !telemetry_fresh(&r, 999999999));
	CHECK(!telemetry_fresh(&none, 0) && !telemetry_fresh(&none, 1000000000));
	/* Half a second at most. */
	r.fresh_ns = ~0ull;
	CHECK(telemetry_fresh(&r, 1499999999) && !telemetry_fresh(&r, 1500000000));
	r.rseq_again = 4;
	CHECK(!telemetry_fresh(&r, 1000000000));
}

static enum loss_cause decide(struct pl_telemetry r, struct telemetry_flow f)
{
	struct streak s = { 0 };

	return telemetry_decide(&s, &r, &f);
}

static void verdicts_and_guards(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60);
	struct telemetry_flow f = flow();

	CHECK(decide(r, f) == LOSS_MEDIUM);
	CHECK(decide(record(LOSS_CONGESTION, 60), f) == LOSS_CONGESTION);
	CHECK(decide(record(LOSS_UNKNOWN, 60), f) == LOSS_UNKNOWN && decide(record(3, 60), f) == LOSS_UNKNOWN);
	r.reports = 2;
	CHECK(decide(r, f) == LOSS_UNKNOWN);
	r = record(LOSS_MEDIUM, 60);
	f.now_ns += 100000000;
	CHECK(decide(r, f) == LOSS_UNKNOWN);
	/* G1: the queue of 36 ms stands full; 50 ms where it is not known. */
	f = flow();
	f.srtt_us = 56363;
	CHECK(decide(r, f) == LOSS_MEDIUM);
	f.srtt_us++;
	CHECK(decide(r, f) == LOSS_CONGESTION);
	r.drain_us = 0;
	CHECK(decide(r, f) == LOSS_MEDIUM);
	f.srtt_us = 70001;
	CHECK(decide(r, f) == LOSS_CONGESTION);
	f.min_rtt_us = 0;
	CHECK(decide(r, f) == LOSS_MEDIUM);
	/* Nothing wraps around. */
	f.min_rtt_us = 4000000000u;
	r.drain_us = 4000000000u;
	CHECK(decide(r, f) == LOSS_MEDIUM);
	/* G2. */
	f = flow();
	f.timeouts = 1;
	CHECK(decide(r, f) == LOSS_CONGESTION);
}

static void one_of_many_in_a_row_is_congestion(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60), other = record(LOSS_UNKNOWN, 60);
	struct telemetry_flow f = flow();
	struct streak s = { 0 };
	u32 at;

	for (at = 1; at <= 99; at++) {
		CHECK(telemetry_decide(&s, &r, &f) == (at % 33 ? LOSS_MEDIUM : LOSS_CONGESTION));
		f.now_us += 80 * MS;
	}
	for (at = 0; at < 32; at++)
		CHECK(telemetry_decide(&s, &r, &f) == LOSS_MEDIUM);
	/* Four RTTs are in a row, more are not. */
	f.now_us += 80 * MS;
	CHECK(telemetry_decide(&s, &r, &f) == LOSS_CONGESTION);
	for (at = 0; at < 32; at++)
		telemetry_decide(&s, &r, &f);
	f.now_us += 80 * MS + 1;
	CHECK(telemetry_decide(&s, &r, &f) == LOSS_MEDIUM && s.length == 1);
	/* Another cause ends the row. */
	for (at = 0; at < 31; at++)
		telemetry_decide(&s, &r, &f);
	CHECK(telemetry_decide(&s, &other, &f) == LOSS_UNKNOWN && s.length == 0);
	CHECK(telemetry_decide(&s, &r, &f) == LOSS_MEDIUM && s.length == 1);
}

/* What one loss of the medium leaves of a window out of slow start. */
static u32 left_of(enum medium_mode mode, u32 cwnd, struct pl_telemetry r, struct telemetry_flow f)
{
	struct window w = { .cwnd = cwnd, .ssthresh = 2, .clamp = ~0u };
	struct cubic c = { 0 };
	struct medium m;

	medium_reset(&m, mode, f.now_us, 0);
	return medium_ssthresh(&m, &c, &w, &r, &f, 0);
}

static void windows_after_a_loss(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 30);
	struct telemetry_flow f = flow();

	/* The cap is 2 (33 + 30) packets. */
	CHECK(left_of(MEDIUM_KEEP, 1, r, f) == 2 && left_of(MEDIUM_KEEP, 10, r, f) == 10);
	CHECK(left_of(MEDIUM_KEEP, 126, r, f) == 126 && left_of(MEDIUM_KEEP, 127, r, f) == 126);
	CHECK(left_of(MEDIUM_KEEP, 200, r, f) == 190 && left_of(MEDIUM_GROW, 200, r, f) == 190);
	CHECK(left_of(MEDIUM_CUT, 100, r, f) == 95 && left_of(MEDIUM_CUT, 2, r, f) == 2 && left_of(MEDIUM_CUT, 1, r, f) == 2);
	/* A quarter more where there is room for it and four packets. */
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 12 && left_of(MEDIUM_GROW, 2, r, f) == 3);
	CHECK(left_of(MEDIUM_GROW, 104, r, f) == 126 && left_of(MEDIUM_GROW, 108, r, f) == 108);
	/* Not where the application limits the flow. */
	f.limited = 0;
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 10);
	f.limited = 1;
	/* Six flows: five packets of room for each. */
	r.flows = 6;
	CHECK(left_of(MEDIUM_GROW, 7, r, f) == 8 && left_of(MEDIUM_GROW, 8, r, f) == 8);
	r.flows = 0;
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 12);
	/* What is not known is no room. */
	r = record(LOSS_MEDIUM, TELEMETRY_UNKNOWN);
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 10 && left_of(MEDIUM_KEEP, 100, r, f) == 95);
	/* No cap below the initial window, and none without a rate. */
	f.delivered = 1;
	CHECK(left_of(MEDIUM_KEEP, 10, r, f) == 10 && left_of(MEDIUM_KEEP, 11, r, f) == 10);
	f.interval_us = 0;
	CHECK(left_of(MEDIUM_KEEP, 100, r, f) == 100);
	/* Of other causes: CUBIC's. */
	CHECK(left_of(MEDIUM_KEEP, 100, record(LOSS_UNKNOWN, 30), f) == 70);
	CHECK(left_of(MEDIUM_CUT, 100, record(LOSS_CONGESTION, 30), f) == 70);
}

static void l2_keeps_parts_of_packets(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60);
	struct window w = { .cwnd = 10, .ssthresh = 2, .clamp = ~0u };
	/* 10, 9.5, 9.025, 8.57, 8.15, 7.74, 7.35, 6.98, 6.63, 6.30, 5.99. */
	const u32 left[] = { 9, 9, 8, 8, 7, 7, 6, 6, 6, 5 };
	struct telemetry_flow f = flow();
	struct cubic c = { .last_max = 100, .epoch_start = 7 };
	struct medium m;
	u32 at;

	medium_reset(&m, MEDIUM_CUT, f.now_us, 0);
	for (at = 0; at < 10; at++) {
		u32 before = w.cwnd;

		w.cwnd = medium_ssthresh(&m, &c, &w, &r, &f, 0);
		CHECK(w.cwnd == left[at]);
		/* W_max is the window, without fast convergence, and the curve begins anew. */
		CHECK(c.last_max == before && c.epoch_start == 0);
	}
	for (at = 0; at < 20; at++)
		w.cwnd = medium_ssthresh(&m, &c, &w, &r, &f, 0);
	CHECK(w.cwnd == 2);
}

static void the_curve_stays(void)
{
	enum medium_mode modes[] = { MEDIUM_KEEP, MEDIUM_GROW };
	struct pl_telemetry r = record(LOSS_MEDIUM, 60);
	struct telemetry_flow f = flow();
	u32 at;

	for (at = 0; at < 2; at++) {
		struct window w = { .cwnd = 50, .ssthresh = 40, .clamp = ~0u };
		struct cubic c = { .last_max = 100, .epoch_start = 7, .k = 9, .origin = 100, .delay_min = 3 }, before = c;
		struct medium m;

		medium_reset(&m, modes[at], f.now_us, 0);
		medium_ssthresh(&m, &c, &w, &r, &f, 0);
		CHECK(!memcmp(&c, &before, sizeof(c)));
		m.asked = 0;
		/* A mark is congestion. */
		CHECK(medium_ssthresh(&m, &c, &w, &r, &f, 1) == 35 && c.epoch_start == 0 && c.last_max == 50 * 1741 / 2048);
	}
}

/* Slow start: L1 leaves it, L1G goes on with it, after any number of losses. */
static void slow_start_goes_on(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60), full = record(LOSS_CONGESTION, 0);
	struct window w = { .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
	struct telemetry_flow f = flow();
	struct cubic c = { 0 };
	struct medium m;
	u32 at;

	medium_reset(&m, MEDIUM_KEEP, f.now_us, 0);
	w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
	medium_resume(&m, &w);
	CHECK(w.cwnd == 20 && w.ssthresh == 20);
	medium_reset(&m, MEDIUM_GROW, f.now_us, 0);
	w.ssthresh = SSTHRESH_INFINITE;
	for (at = 0; at < 3; at++)
		w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
	CHECK(w.cwnd == 38);
	medium_resume(&m, &w);
	CHECK(w.cwnd == 38 && w.ssthresh == SSTHRESH_INFINITE);
	/* A finite threshold is not passed. */
	w = (struct window){ .cwnd = 20, .ssthresh = 22, .clamp = ~0u };
	w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
	CHECK(w.cwnd == 22);
	/* Congestion ends it. */
	w = (struct window){ .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
	w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
	w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &full, &f, 0);
	medium_resume(&m, &w);
	CHECK(w.cwnd == 17 && w.ssthresh == 17);
}

/* A timeout as Linux has it: ssthresh unless losses are being repaired, the window, the state. */
static void time_out(struct medium *m, struct cubic *c, struct window *w, const struct pl_telemetry *r,
		     const struct telemetry_flow *f, int repairing)
{
	if (!repairing)
		w->ssthresh = medium_ssthresh(m, c, w, r, f, 0);
	w->cwnd = 1;
	medium_timeout(m, c, w, r, f, f->now_us, 0);
}

static void timeouts(void)
{
	const struct { enum medium_mode mode; u32 ssthresh, cwnd; } answers[] = {
		{ MEDIUM_KEEP, 40, 1 }, { MEDIUM_CUT, 38, 1 }, { MEDIUM_GROW, 40, 10 },
	};
	const struct cubic before = { .last_max = 100, .epoch_start = 7, .delay_min = 20 * MS };
	struct pl_telemetry r = record(LOSS_MEDIUM, 60), unknown = { 0 };
	u32 at;

	for (at = 0; at < 3; at++) {
		struct window w = { .cwnd = 40, .ssthresh = 30, .clamp = ~0u };
		struct telemetry_flow f = flow();
		struct cubic c = before;
		struct medium m;

		medium_reset(&m, answers[at].mode, f.now_us, 0);
		time_out(&m, &c, &w, &r, &f, 0);
		CHECK(w.ssthresh == answers[at].ssthresh && w.cwnd == answers[at].cwnd && c.delay_min == 20 * MS);
		/* G2: a second in a row is as if the first had not been spared. */
		f.timeouts = 1;
		time_out(&m, &c, &w, &r, &f, 1);
		CHECK(w.ssthresh == 28 && w.cwnd == 1 && c.delay_min == 0 && c.last_max == 0);
		/* A third changes nothing more. */
		time_out(&m, &c, &w, &r, &f, 1);
		CHECK(w.ssthresh == 28 && w.cwnd == 1);

		/* During the repair of spared losses: of the same. */
		c = before;
		f = flow();
		w = (struct window){ .cwnd = 6, .ssthresh = 6, .clamp = ~0u };
		w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
		m.asked = 0;
		time_out(&m, &c, &w, &r, &f, 1);
		CHECK(w.cwnd == (answers[at].mode == MEDIUM_GROW ? 6 : 1) && w.ssthresh >= 5 && c.delay_min == 20 * MS);
		/* And without a record CUBIC's. */
		w = (struct window){ .cwnd = 40, .ssthresh = 30, .clamp = ~0u };
		time_out(&m, &c, &w, &unknown, &f, 0);
		CHECK(w.ssthresh == 28 && w.cwnd == 1 && c.delay_min == 0);
	}
}

static void the_cap_is_for_windows_that_were_spared(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 2);
	struct window w = { .cwnd = 80, .ssthresh = 80, .clamp = ~0u };
	struct cubic_ack ack = { .now = 1010, .hz = HZ, .snd_una = 100, .snd_nxt = 200 };
	struct telemetry_flow f = flow();
	struct cubic c = { 0 };
	struct medium m;
	u32 cap = medium_cap(&r, &f), at;

	CHECK(cap == 70);
	medium_reset(&m, MEDIUM_KEEP, f.now_us, 100);
	CHECK(!medium_is_capped(&m, &w, &f));
	m.streak.length = 1;
	CHECK(medium_is_capped(&m, &w, &f));
	f.now_us += 80 * MS + 1;
	CHECK(!medium_is_capped(&m, &w, &f));
	/* A twentieth in a round trip. */
	medium_grow_capped(&m, &c, &w, &ack, 1, cap);
	CHECK(w.cwnd == 76 && w.ssthresh == 76);
	ack.snd_una = 199;
	medium_grow_capped(&m, &c, &w, &ack, 1, cap);
	CHECK(w.cwnd == 76);
	ack.snd_una = 200;
	ack.snd_nxt = 300;
	medium_grow_capped(&m, &c, &w, &ack, 1, cap);
	CHECK(w.cwnd == 72);
	ack.snd_una = 300;
	medium_grow_capped(&m, &c, &w, &ack, 1, cap);
	CHECK(w.cwnd == 70);
	for (at = 0; at < 100; at++)
		medium_grow_capped(&m, &c, &w, &ack, 20, cap);
	CHECK(w.cwnd == 70);
	medium_grow_capped(&m, &c, &w, &ack, 20, ~0u);
	CHECK(w.cwnd > 70);
}

/* What a round trip of acknowledgements, packet by packet, adds to a window of `cwnd`. */
static u32 opened(u8 inc, struct pl_telemetry r, u32 cwnd)
{
	struct window w = { .cwnd = cwnd, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
	struct telemetry_flow f = flow();
	struct cubic c = { 0 };
	struct eq1 e;
	u32 at;

	eq1_reset(&e, inc);
	for (at = 1; at <= cwnd; at++) {
		const struct cubic_ack ack = { .now = 1010, .hz = HZ, .snd_una = at, .snd_nxt = cwnd + at };

		eq1_grow(&e, &c, &w, &r, &f, &ack, 1);
	}
	return w.cwnd - cwnd;
}

static void equation_one(void)
{
	struct pl_telemetry r = record(LOSS_UNKNOWN, 60);
	u8 inc;

	/* Room 48 (60 less 12), 30 arrive in a round trip: a packet for each at most. */
	r.rate_pps = 1500;
	CHECK(opened(1, r, 30) == 30);
	/* 33 arrive, room 8: 8 in all, of which rounding leaves a rest. */
	r = record(LOSS_UNKNOWN, 20);
	CHECK(opened(1, r, 33) == 7 && opened(1, r, 34) == 8 && opened(3, r, 33) == 8);
	CHECK(opened(1, record(LOSS_UNKNOWN, 12), 33) == 0);
	/* An idle hop: the increment, or the round trip's share. */
	r.rate_pps = 0;
	for (inc = 1; inc <= 3; inc++) {
		CHECK(opened(inc, r, 33) == 8u * inc);
		CHECK(opened(inc, record(LOSS_UNKNOWN, 60), 1) <= inc);
	}
	/* Busy from 33/2 packets a round trip on. */
	r.rate_pps = 850;
	CHECK(opened(3, r, 33) == 8);
	r.rate_pps = 700;
	CHECK(opened(3, r, 33) == 24);
	r.drain_us = 0;
	CHECK(opened(3, r, 33) == 8);
	/* Two flows of ten: 8 / (20 x 2) for each packet. */
	r = record(LOSS_UNKNOWN, 20);
	r.rate_pps = 1000;
	r.flows = 2;
	CHECK(opened(1, r, 10) == 1 && opened(1, r, 11) == 2);
	/* A hop that does not say: as many windows as flows, of ever larger windows, and the queue is empty: 16 / (20 x 2). */
	r.rate_pps = TELEMETRY_UNKNOWN;
	CHECK(opened(1, r, 10) == 1);
	r.limit_pkts = TELEMETRY_UNKNOWN;
	CHECK(opened(1, r, 10) == 3);
	/* Numbers without sense. */
	r.rate_pps = r.flows = TELEMETRY_UNKNOWN - 1;
	CHECK(opened(3, r, 100) == 0);
	r = record(LOSS_UNKNOWN, TELEMETRY_UNKNOWN - 1);
	CHECK(opened(3, r, 100) == 300);
}

static void without_room_nothing_moves(void)
{
	struct pl_telemetry full = record(LOSS_UNKNOWN, 12), room = record(LOSS_UNKNOWN, 60), none = { 0 };
	struct window w = { .cwnd = 80, .ssthresh = 80, .clamp = ~0u };
	struct cubic_ack ack = { .now = 1000, .hz = HZ, .snd_una = 1, .snd_nxt = 100 };
	struct telemetry_flow f = flow();
	struct cubic c = { .last_max = 100, .origin = 100, .epoch_start = 900, .delay_min = 20 * MS };
	struct eq1 e;
	u32 at;

	eq1_reset(&e, 1);
	for (at = 0; at < 100; at++, ack.now += 10)
		eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	/* Neither window nor curve. */
	CHECK(w.cwnd == 80 && c.epoch_start == 900 + 990);
	for (at = 0; at < 100; at++, ack.now += 10)
		eq1_grow(&e, &c, &w, &room, &f, &ack, 10);
	CHECK(w.cwnd > 80 && c.epoch_start == 900 + 990);
	/* Slow start that had filled the room ends with the last fresh record; one that had not goes on. */
	w = (struct window){ .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
	eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	CHECK(w.cwnd == 20 && w.ssthresh == SSTHRESH_INFINITE);
	ack.snd_una = 100;
	eq1_grow(&e, &c, &w, &room, &f, &ack, 10);
	at = w.cwnd;
	eq1_grow(&e, &c, &w, &none, &f, &ack, 10);
	CHECK(at > 20 && w.cwnd == at + 10);
	eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	eq1_grow(&e, &c, &w, &none, &f, &ack, 1);
	CHECK(w.ssthresh == at + 10 && w.cwnd <= at + 11);
	/* After a timeout that is forgotten. */
	eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	eq1_timeout(&e, &c, 0, 0);
	w = (struct window){ .cwnd = 1, .ssthresh = 20, .clamp = ~0u };
	eq1_grow(&e, &c, &w, &none, &f, &ack, 2);
	CHECK(w.cwnd == 3 && w.ssthresh == 20);
}

static u64 seed = 1;

static u32 below(u32 limit)
{
	/* Knuth's MMIX. */
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(seed >> 33) % limit;
}

/* Of a record of a loss of the medium, one that does not count. */
static struct pl_telemetry useless(u64 now_ns, int for_start)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, below(60));

	r.stamp_ns = now_ns;
	switch (below(for_start ? 4 : 7)) {
	case 0:
		return (struct pl_telemetry){ 0 };
	case 1:
		r.stamp_ns -= r.fresh_ns + below(1000);
		break;
	case 2:
		r.stamp_ns++;
		break;
	case 3:
		r.rseq_again++;
		break;
	case 4:
		r.reports = below(3);
		break;
	case 5:
		r.verdict = LOSS_UNKNOWN;
		break;
	default:
		r.verdict = LOSS_CONGESTION;
	}
	return r;
}

/* One flow, by CUBIC alone and by what reads records; each has its own window. */
struct pair {
	struct cubic cubic[2];
	struct window window[2];
	struct medium medium;
	struct eq1 eq1;
};

/* Random acknowledgements, losses, marks, timeouts and silences: after each, both are equal. Answers how many losses there were. */
static u32 equal_without_records(int starts, enum medium_mode mode, u8 inc)
{
	struct telemetry_flow f = flow();
	struct cubic_ack ack = { .now = 1000, .hz = HZ, .snd_nxt = 10 };
	struct pair p;
	u32 step, losses = 0;

	memset(&p, 0, sizeof(p));
	p.window[0] = p.window[1] = (struct window){ .cwnd = 10, .ssthresh = SSTHRESH_INFINITE, .clamp = 50 + below(1000) };
	cubic_reset(&p.cubic[0], 0, 10);
	cubic_reset(&p.cubic[1], 0, 10);
	medium_reset(&p.medium, mode, 0, 0);
	eq1_reset(&p.eq1, inc);
	ack.hystart = !starts;
	for (step = 0; step < 2000; step++) {
		struct pl_telemetry r;
		u32 event = below(100), acked = 1 + below(4), ms = below(8), at;
		s32 rtt = (s32)(20 * MS + below(20 * MS));

		ack.now += ms;
		ack.now_us = f.now_us += ms * MS;
		f.now_ns += ms * 1000000;
		ack.snd_una += acked;
		ack.snd_nxt = ack.snd_una + p.window[0].cwnd;
		f.srtt_us = (u32)rtt;
		r = useless(f.now_ns, starts);
		if (event < 96) {
			for (at = 0; at < 2; at++)
				cubic_measure(&p.cubic[at], &p.window[at], &ack, rtt);
			cubic_grow(&p.cubic[0], &p.window[0], &ack, acked);
			if (starts) {
				eq1_grow(&p.eq1, &p.cubic[1], &p.window[1], &r, &f, &ack, acked);
			} else {
				medium_resume(&p.medium, &p.window[1]);
				medium_grow_capped(&p.medium, &p.cubic[1], &p.window[1], &ack, acked,
						   medium_is_capped(&p.medium, &p.window[1], &f) ? 10 : ~0u);
			}
		} else if (event < 98) {
			losses++;
			p.window[0].ssthresh = cubic_ssthresh(&p.cubic[0], p.window[0].cwnd);
			if (starts)
				p.window[1].ssthresh = cubic_ssthresh(&p.cubic[1], p.window[1].cwnd);
			else
				p.window[1].ssthresh = medium_ssthresh(&p.medium, &p.cubic[1], &p.window[1], &r, &f, below(2));
			p.medium.asked = 0;
			for (at = 0; at < 2; at++)
				p.window[at].cwnd = p.window[at].ssthresh;
		} else if (event < 99) {
			int repairing = below(2);

			f.timeouts = repairing && below(2);
			if (!repairing)
				p.window[0].ssthresh = cubic_ssthresh(&p.cubic[0], p.window[0].cwnd);
			p.window[0].cwnd = 1;
			cubic_reset(&p.cubic[0], ack.now_us, ack.snd_nxt);
			if (starts) {
				p.window[1] = p.window[0];
				eq1_timeout(&p.eq1, &p.cubic[1], ack.now_us, ack.snd_nxt);
			} else {
				time_out(&p.medium, &p.cubic[1], &p.window[1], &r, &f, repairing);
				/* The clock that CUBIC begins again with. */
				p.cubic[1].round_end = p.cubic[0].round_end;
			}
			f.timeouts = 0;
		} else {
			for (at = 0; at < 2; at++)
				cubic_after_idle(&p.cubic[at], ack.now, ack.now - below(100));
			p.cubic[1].epoch_start = p.cubic[0].epoch_start;
		}
		if (memcmp(&p.cubic[0], &p.cubic[1], sizeof(p.cubic[0])) || memcmp(&p.window[0], &p.window[1], sizeof(p.window[0]))) {
			CHECK(!"without a record it is CUBIC");
			return 0;
		}
	}
	return losses;
}

static void without_a_record_it_is_cubic(void)
{
	u32 run, losses = 0;

	for (run = 0; run < 50; run++) {
		losses += equal_without_records(0, MEDIUM_KEEP, 0);
		losses += equal_without_records(0, MEDIUM_GROW, 0);
		losses += equal_without_records(0, MEDIUM_CUT, 0);
		losses += equal_without_records(1, MEDIUM_KEEP, (u8)(1 + run % 3));
	}
	CHECK(losses > 2000);
}

/* Whatever a record says, in whatever state: no window below two packets, none that a spared loss grows by more than a quarter. */
static void nothing_is_out_of_bounds(void)
{
	u32 step;

	for (step = 0; step < 200000; step++) {
		const u32 numbers[] = { 0, 1, 2, 3, 10, 60, 65535, 0x7fffffff, TELEMETRY_UNKNOWN - 1, TELEMETRY_UNKNOWN };
		struct pl_telemetry r = record(below(5), numbers[below(10)]);
		struct window w = { .cwnd = numbers[1 + below(6)], .ssthresh = numbers[2 + below(6)], .clamp = ~0u }, before;
		struct cubic_ack ack = { .now = below(100000), .hz = HZ, .snd_una = below(1000), .snd_nxt = below(1000) };
		struct telemetry_flow f = flow();
		struct cubic c = { .last_max = below(100), .epoch_start = below(2), .delay_min = below(100000) };
		struct medium m;
		struct eq1 e;
		u32 to;

		r.limit_pkts = numbers[below(10)];
		r.rate_pps = numbers[below(10)];
		r.flows = numbers[below(10)];
		r.drain_us = numbers[below(10)];
		f.delivered = numbers[below(10)];
		f.interval_us = numbers[below(10)];
		f.min_rtt_us = numbers[below(10)];
		f.srtt_us = numbers[below(10)];
		f.timeouts = below(2);
		medium_reset(&m, (enum medium_mode)below(3), f.now_us, below(1000));
		m.streak.length = below(40);
		to = medium_ssthresh(&m, &c, &w, &r, &f, below(2));
		CHECK(to >= 2 && (to <= w.cwnd + w.cwnd / 4 || to <= w.cwnd + 1));
		eq1_reset(&e, (u8)(1 + below(3)));
		before = w;
		eq1_grow(&e, &c, &w, &r, &f, &ack, 10);
		CHECK(w.cwnd >= before.cwnd && w.cwnd <= before.cwnd + 30);
		if (failures)
			break;
	}
}

int main(void)
{
	records_count_while_they_are_fresh();
	verdicts_and_guards();
	one_of_many_in_a_row_is_congestion();
	windows_after_a_loss();
	l2_keeps_parts_of_packets();
	the_curve_stays();
	slow_start_goes_on();
	timeouts();
	the_cap_is_for_windows_that_were_spared();
	equation_one();
	without_room_nothing_moves();
	without_a_record_it_is_cubic();
	nothing_is_out_of_bounds();
	return failures != 0;
}
