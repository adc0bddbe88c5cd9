/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* When a record counts, and what losses of the medium leave, with numbers worked by hand. Ends with 0 when all holds; says what does not. */
#include <string.h>

#include "path_record.h"

/* The private area of a socket, beside CUBIC. */
_Static_assert(sizeof(struct cubic) + sizeof(struct medium) <= 104, "it fits into the socket");
_Static_assert(sizeof(struct pl_telemetry) == 64, "as user space writes it");

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
	r.avail_pkts = 30;
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
	/* G5: an empty queue explains 10 ms, one of 6 packets 7272 us more. */
	r = record(LOSS_MEDIUM, 60);
	f = flow();
	f.srtt_us = 30 * MS;
	CHECK(decide(r, f) == LOSS_MEDIUM);
	f.srtt_us++;
	CHECK(decide(r, f) == LOSS_CONGESTION);
	r.avail_pkts = 54;
	f.srtt_us = 37272;
	CHECK(decide(r, f) == LOSS_MEDIUM);
	f.srtt_us++;
	CHECK(decide(r, f) == LOSS_CONGESTION);
	r.limit_pkts = 0;
	CHECK(decide(r, f) == LOSS_MEDIUM);
}

static void one_of_many_in_a_row_is_congestion(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60), other = record(LOSS_UNKNOWN, 60);
	struct telemetry_flow f = flow();
	struct streak s = { 0 };
	u32 at;

	for (at = 1; at <= 387; at++) {
		CHECK(telemetry_decide(&s, &r, &f) == (at % 129 ? LOSS_MEDIUM : LOSS_CONGESTION));
		f.now_us += 80 * MS;
	}
	for (at = 0; at < 128; at++)
		CHECK(telemetry_decide(&s, &r, &f) == LOSS_MEDIUM);
	/* Four RTTs are in a row, more are not. */
	f.now_us += 80 * MS;
	CHECK(telemetry_decide(&s, &r, &f) == LOSS_CONGESTION);
	for (at = 0; at < 128; at++)
		telemetry_decide(&s, &r, &f);
	f.now_us += 80 * MS + 1;
	CHECK(telemetry_decide(&s, &r, &f) == LOSS_MEDIUM && s.length == 1);
	/* Another cause ends the row. */
	for (at = 0; at < 127; at++)
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

	/* The cap is 2 (33 + 30) packets, of L1G 49 and 30. */
	CHECK(left_of(MEDIUM_KEEP, 1, r, f) == 2 && left_of(MEDIUM_KEEP, 10, r, f) == 10);
	CHECK(left_of(MEDIUM_KEEP, 126, r, f) == 126 && left_of(MEDIUM_KEEP, 127, r, f) == 126);
	CHECK(left_of(MEDIUM_KEEP, 200, r, f) == 190 && left_of(MEDIUM_GROW, 200, r, f) == 190);
	CHECK(left_of(MEDIUM_CUT, 100, r, f) == 95 && left_of(MEDIUM_CUT, 2, r, f) == 2 && left_of(MEDIUM_CUT, 1, r, f) == 2);
	/* A quarter more where there is room for it and four packets. */
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 12 && left_of(MEDIUM_GROW, 2, r, f) == 3);
	CHECK(left_of(MEDIUM_GROW, 60, r, f) == 75 && left_of(MEDIUM_GROW, 64, r, f) == 79 && left_of(MEDIUM_GROW, 79, r, f) == 79);
	CHECK(left_of(MEDIUM_GROW, 100, r, f) == 95);
	/* Not where the application limits the flow. */
	f.limited = 0;
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 10);
	f.limited = 1;
	/* Not where round trips show a quarter of the queue. */
	f.srtt_us = 20000 + 36363 / 4;
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 12);
	f.srtt_us++;
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 10);
	f.srtt_us = 20000;
	/* Six flows: five packets of room for each. */
	r.flows = 6;
	CHECK(left_of(MEDIUM_GROW, 7, r, f) == 8 && left_of(MEDIUM_GROW, 8, r, f) == 8);
	r.flows = 0;
	CHECK(left_of(MEDIUM_GROW, 10, r, f) == 12);
	/* What is not known does not count as room. */
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
		/* W_max is the window, without fast convergence, and the curve begins again. */
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

/* Linux counts from nothing after each loss. Acknowledgements between spared losses add up nevertheless, those before congestion do not. */
static void growth_by_a_packet_goes_on(void)
{
	struct pl_telemetry r = record(LOSS_MEDIUM, 60), unknown = { 0 };
	struct cubic_ack ack = { .now = 1010, .hz = HZ, .snd_una = 100, .snd_nxt = 200 };
	struct window w = { .cwnd = 10, .ssthresh = 10, .clamp = ~0u };
	struct telemetry_flow f = flow();
	struct cubic c = { 0 };
	struct medium m;
	u32 losses;

	medium_reset(&m, MEDIUM_KEEP, f.now_us, 0);
	for (losses = 0; losses < 200 && w.cwnd < 11; losses++) {
		m.streak.length = 0;
		w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
		w.cwnd_cnt = 0;
		medium_resume(&m, &w);
		medium_grow_capped(&m, &c, &w, &ack, 1, ~0u);
	}
	CHECK(w.cwnd == 11 && losses > 10 && losses < 200);
	m.count = 5;
	w.ssthresh = medium_ssthresh(&m, &c, &w, &unknown, &f, 0);
	medium_resume(&m, &w);
	CHECK(m.count == 0 && w.cwnd_cnt == 0);
	/* L2: a packet acknowledged is a part of one, of which a loss takes a twentieth, as of the window. */
	medium_reset(&m, MEDIUM_CUT, f.now_us, 0);
	w = (struct window){ .cwnd = 10, .ssthresh = 10, .clamp = ~0u };
	w.cwnd = w.ssthresh = medium_ssthresh(&m, &c, &w, &r, &f, 0);
	CHECK(w.cwnd == 9 && m.rest == 32768);
	ack.now += 100;
	medium_grow_capped(&m, &c, &w, &ack, 1, ~0u);
	CHECK(w.cwnd == 9 && w.cwnd_cnt == 0 && m.rest == 32768 + 65536 / c.cnt);
	for (losses = 0; losses < 200 && w.cwnd < 10; losses++)
		medium_grow_capped(&m, &c, &w, &ack, 1, ~0u);
	CHECK(w.cwnd == 10 && losses < c.cnt);
	w.ssthresh = medium_ssthresh(&m, &c, &w, &unknown, &f, 0);
	CHECK(m.rest == 0);
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
	u32 cap, at;

	/* 33 in the smallest RTT, 39 in a round trip; room for 2. */
	f.srtt_us = 24 * MS;
	medium_reset(&m, MEDIUM_GROW, f.now_us, 100);
	CHECK(medium_cap(&m, &r, &f) == 51);
	medium_reset(&m, MEDIUM_KEEP, f.now_us, 100);
	cap = medium_cap(&m, &r, &f);
	CHECK(cap == 70);
	r.avail_pkts = TELEMETRY_UNKNOWN - 1;
	CHECK(medium_cap(&m, &r, &f) == 144);
	CHECK(!medium_is_capped(&m, &w, &f));
	m.streak.length = 1;
	CHECK(medium_is_capped(&m, &w, &f));
	f.now_us += 96 * MS + 1;
	CHECK(!medium_is_capped(&m, &w, &f));
	/* The largest delivery rate since the losses before the last. */
	medium_measure(&m, &f);
	f.delivered /= 2;
	CHECK(medium_cap(&m, &r, &f) == 2 * (32 + 39));
	medium_begin_span(&m);
	CHECK(medium_cap(&m, &r, &f) == 2 * (32 + 39));
	medium_begin_span(&m);
	CHECK(medium_cap(&m, &r, &f) < 80);
	f.delivered *= 2;
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
	/* A round trip that ended long ago, as sequence numbers that wrap around have it. */
	w.cwnd = 80;
	m.round_end = ack.snd_nxt + (1u << 30);
	medium_grow_capped(&m, &c, &w, &ack, 1, cap);
	CHECK(w.cwnd == 76 && m.round_end == ack.snd_nxt);
	/* Slow start is not capped. */
	f = flow();
	CHECK(medium_is_capped(&m, &w, &f));
	w.ssthresh = w.cwnd + 1;
	CHECK(!medium_is_capped(&m, &w, &f));
}

/* For this long the RTT is `path` ms, and a packet more a ms of flights above `fits`; flights go up and down between two. */
static void fly(struct path_rtt *p, struct telemetry_flow *f, u32 *least_us, u32 ms, u32 least, u32 most, u32 room, u32 path, u32 fits)
{
	struct pl_telemetry r = record(LOSS_UNKNOWN, room);
	static u8 seen;
	u32 at;

	for (at = 0; at < ms; at += 10) {
		u32 flight = least + at / 10 % (most - least + 1), rtt = (path + (flight > fits ? flight - fits : 0)) * MS;

		f->now_us += 10 * MS;
		f->now_ns += 10 * MS * 1000ull;
		r.stamp_ns = f->now_ns;
		*least_us = smaller(*least_us, rtt);
		f->min_rtt_us = *least_us;
		if (!path_rtt_is_usual(p, f->min_rtt_us, rtt))
			path_rtt_take_longer(p, &r, f, rtt, flight, &seen);
	}
}

static void a_longer_route_is_the_path_after_ten_seconds(void)
{
	struct telemetry_flow f = flow();
	struct path_rtt p;
	u32 least = ~0u;

	path_rtt_reset(&p);
	fly(&p, &f, &least, 2000, 10, 20, 60, 20, 100);
	fly(&p, &f, &least, 10000, 10, 20, 60, 100, 100);
	CHECK(path_rtt_smallest(&p, least) == 20 * MS);
	fly(&p, &f, &least, 20, 10, 20, 60, 100, 100);
	CHECK(path_rtt_smallest(&p, least) == 100 * MS);
	fly(&p, &f, &least, 10, 10, 20, 60, 50, 100);
	CHECK(path_rtt_smallest(&p, least) == 50 * MS);
	fly(&p, &f, &least, 11000, 10, 20, 56, 150, 100);
	CHECK(path_rtt_smallest(&p, least) == 150 * MS);
	/* Not a queue of a hop that says so, nor one of a hop that does not, nor what shows nothing. */
	path_rtt_reset(&p);
	least = ~0u;
	fly(&p, &f, &least, 100, 10, 20, 60, 20, 20);
	fly(&p, &f, &least, 60000, 40, 60, 55, 100, 100);
	fly(&p, &f, &least, 60000, 40, 60, 60, 20, 20);
	fly(&p, &f, &least, 60000, 60, 62, 60, 100, 100);
	CHECK(path_rtt_smallest(&p, least) == 20 * MS);
	/* A round trip between the routes is of neither. */
	path_rtt_reset(&p);
	least = ~0u;
	fly(&p, &f, &least, 100, 10, 20, 60, 20, 100);
	fly(&p, &f, &least, 10, 10, 20, 60, 60, 100);
	fly(&p, &f, &least, 11500, 10, 20, 60, 100, 100);
	CHECK(path_rtt_smallest(&p, least) == 100 * MS);
}

int main(void)
{
	a_longer_route_is_the_path_after_ten_seconds();
	records_count_while_they_are_fresh();
	verdicts_and_guards();
	one_of_many_in_a_row_is_congestion();
	windows_after_a_loss();
	l2_keeps_parts_of_packets();
	the_curve_stays();
	slow_start_goes_on();
	growth_by_a_packet_goes_on();
	timeouts();
	the_cap_is_for_windows_that_were_spared();
	return failures != 0;
}
