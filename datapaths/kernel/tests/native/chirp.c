/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The arithmetic of chirps, compiled natively. Ends with 0 when all holds; says what does not. */
#include "check.h"

#include "../../src/bpf/chirp_adaptive.h"
#include "../../src/bpf/chirp_load.h"

#define US 1000ull
#define MS 1000000ull

/* The gaps of the paper: 105 us divides without remainder. */
static void gaps_of_the_paper(void)
{
	static const struct {
		unsigned int packets;
		enum chirp_divisor divisor;
		__u64 step, last, length;
	} table[] = {
		{ 5, CHIRP_BY_PACKETS, 42000, 84000, 588000 },	   { 5, CHIRP_BY_GAPS, 52500, 52500, 525000 },
		{ 8, CHIRP_BY_PACKETS, 26250, 52500, 918750 },	   { 8, CHIRP_BY_GAPS, 30000, 30000, 840000 },
		{ 16, CHIRP_BY_PACKETS, 13125, 26250, 1771875 }, { 16, CHIRP_BY_GAPS, 14000, 14000, 1680000 },
	};
	struct chirp_plan plan;
	unsigned int at;

	for (at = 0; at < sizeof(table) / sizeof(table[0]); at++) {
		chirp_plan(&plan, table[at].packets, 105 * US, 2 * CHIRP_RATIO, table[at].divisor);
		CHECK(plan.step == table[at].step);
		CHECK(chirp_gap(&plan, 0) == 210 * US);
		CHECK(chirp_gap(&plan, table[at].packets - 2) == table[at].last);
		CHECK(chirp_length(&plan) == table[at].length);
	}
	/* A step is rounded up; no gap falls below zero; lengths of chirps have bounds. */
	chirp_plan(&plan, 16, 1000, 2 * CHIRP_RATIO, CHIRP_BY_GAPS);
	CHECK(plan.step == 134);
	CHECK(chirp_gap(&plan, 63) == 0);
	chirp_plan(&plan, 1000, 0, 0, CHIRP_BY_GAPS);
	CHECK(plan.packets == CHIRP_LONGEST && chirp_length(&plan) == 0);
	chirp_plan(&plan, 0, 10, 0, CHIRP_BY_PACKETS);
	CHECK(plan.packets == 2 && chirp_length(&plan) == 10);
}

static struct chirp_plan about_120(enum chirp_divisor divisor)
{
	struct chirp_plan plan;

	chirp_plan(&plan, 16, 120 * US, 2 * CHIRP_RATIO, divisor);
	return plan;
}

/* What the two forms answer for these delays, in microseconds. */
static void both(enum chirp_divisor divisor, const long long *delays, unsigned int *last, unsigned int *first)
{
	struct chirp_onset by_last = { 0 }, by_first = { 0 };
	struct chirp_plan plan = about_120(divisor);
	unsigned int at;

	for (at = 0; at < 16; at++) {
		__u64 gap = at ? chirp_gap(&plan, at - 1) : 0;

		chirp_last_push(&by_last, gap, delays[at] * 1000);
		chirp_first_push(&by_first, 16, gap, delays[at] * 1000);
	}
	*last = chirp_last_gap(&by_last) / 1000;
	*first = chirp_first_gap(&by_first, 16) / 1000;
}

static void vectors(void)
{
	static const struct {
		enum chirp_divisor divisor;
		int link;
		unsigned int last, first;
	} idle[] = {
		{ CHIRP_BY_PACKETS, 60, 60, 45 },     { CHIRP_BY_PACKETS, 80, 90, 75 },	    { CHIRP_BY_PACKETS, 120, 120, 105 },
		{ CHIRP_BY_PACKETS, 180, 180, 165 }, { CHIRP_BY_PACKETS, 240, 240, 225 }, { CHIRP_BY_PACKETS, 300, 240, 240 },
		{ CHIRP_BY_GAPS, 60, 64, 48 },	      { CHIRP_BY_GAPS, 120, 128, 112 },
	};
	static const long long flat[16] = { 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70 };
	static const long long rising[16] = { 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150 };
	static const long long burst[16] = { 0, 0, 30, 60, 80, 70, 60, 55, 10, 0, 0, 0, 20, 60, 120, 200 };
	static const long long bump[16] = { 0, 0, 30, 10, 0, 0, 0, 0, 0, 0, 0, 0, 20, 60, 120, 200 };
	unsigned int at, packet, last, first;
	struct chirp_onset none = { 0 };

	for (at = 0; at < sizeof(idle) / sizeof(idle[0]); at++) {
		struct chirp_plan plan = about_120(idle[at].divisor);
		long long delays[16] = { 0 };

		for (packet = 1; packet < 16; packet++) {
			delays[packet] = delays[packet - 1] + idle[at].link - (long long)(chirp_gap(&plan, packet - 1) / 1000);
			if (delays[packet] < 0)
				delays[packet] = 0;
		}
		both(idle[at].divisor, delays, &last, &first);
		CHECK(last == idle[at].last);
		CHECK(first == idle[at].first);
	}
	both(CHIRP_BY_PACKETS, flat, &last, &first);
	CHECK(last == 30 && first == 30);
	both(CHIRP_BY_GAPS, flat, &last, &first);
	CHECK(last == 16 && first == 16);
	both(CHIRP_BY_PACKETS, rising, &last, &first);
	CHECK(last == 240 && first == 240);
	both(CHIRP_BY_PACKETS, burst, &last, &first);
	CHECK(last == 117 && first == 102);
	both(CHIRP_BY_PACKETS, bump, &last, &first);
	CHECK(last == 90 && first == 75);
	CHECK(chirp_last_gap(&none) == 0);
	CHECK(chirp_first_gap(&none, 16) == 0);
}

/* How a chirp of 16 packets about 120 us comes back from a link of 120 us. */
struct way {
	/* Packets for an acknowledgement, the newest of which is known. */
	unsigned int shared;
	/* A packet that comes after two later ones, one that is lost, one that leaves late; 0 for none. */
	unsigned int late, lost, held_up;
	/* What the hosts add to the delay of every second packet, and what the reading allows for. */
	unsigned int noise, slack;
};

static __u64 read_by(struct way way)
{
	struct chirp_plan plan = about_120(CHIRP_BY_GAPS);
	__u64 sent[16], arrived[16], now = MS, link = 0;
	unsigned int order[16], at, packet;
	struct chirp_train train;

	chirp_train_begin(&train, CHIRP_OF_GAPS, 16);
	train.plan = plan;
	train.onset.slack = way.slack;
	for (at = 0; at < 16; at++) {
		sent[at] = now + (at && way.held_up == at ? chirp_gap(&plan, at - 1) / 2 : 0);
		link = chirp_max(link, sent[at]) + 120 * US;
		arrived[at] = link + 15 * MS + (at % 2 ? 0 : way.noise);
		now += chirp_gap(&plan, at);
		order[at] = at;
	}
	if (way.late) {
		order[way.late] = way.late + 1;
		order[way.late + 1] = way.late + 2;
		order[way.late + 2] = way.late;
	}
	for (at = 0; at < 16; at++) {
		packet = order[at];
		if (way.lost && packet == way.lost)
			train.spoilt = 1;
		else if (packet % way.shared == way.shared - 1)
			chirp_train_push(&train, packet, sent[packet], arrived[packet]);
	}
	return chirp_read(&train);
}

static void trains(void)
{
	struct chirp_train burst;
	unsigned int at;

	/* A step is 8 us: the truth lies within half of it. */
	CHECK(read_by((struct way){ .shared = 1 }) == 120 * US);
	CHECK(read_by((struct way){ .shared = 2 }) > 96 * US && read_by((struct way){ .shared = 2 }) < 144 * US);
	CHECK(read_by((struct way){ .shared = 8 }) == CHIRP_UNSEEN);
	CHECK(read_by((struct way){ .shared = 1, .late = 6 }) > 108 * US);
	CHECK(read_by((struct way){ .shared = 1, .late = 6 }) < 132 * US);
	CHECK(read_by((struct way){ .shared = 1, .lost = 4 }) == CHIRP_UNSEEN);
	CHECK(read_by((struct way){ .shared = 1, .held_up = 6 }) == CHIRP_RAGGED);
	/* Noise of 7 us makes the delay rise a packet earlier; who allows for it finds the link within a step. */
	CHECK(read_by((struct way){ .shared = 1, .noise = 7 * US }) >= 136 * US);
	CHECK(read_by((struct way){ .shared = 1, .noise = 7 * US, .slack = 8 * US }) >= 112 * US);
	CHECK(read_by((struct way){ .shared = 1, .noise = 7 * US, .slack = 8 * US }) <= 128 * US);
	/* A burst shows how far apart its packets arrived; one packet nothing. */
	chirp_train_begin(&burst, CHIRP_OF_NO_GAPS, 5);
	for (at = 0; at < 5; at++) {
		CHECK(chirp_read_burst(&burst) == (at > 1 ? 120 * US : CHIRP_UNSEEN));
		chirp_train_push(&burst, at, MS + at, 15 * MS + at * 120 * US);
	}
	CHECK(chirp_read_burst(&burst) == 120 * US);
}

/* Ours over an idle link of 100 Mbit/s and 15 ms: a burst, and chirps that find 120 us, until it ends. */
static void ours_alone(void)
{
	struct chirp_train train;
	struct chirp_adaptive a;
	unsigned int chirps = 0;

	adaptive_init(&a);
	CHECK(adaptive_found(&a) == 200 * US);
	a.srtt = a.min_rtt = 15 * MS;
	CHECK(adaptive_found(&a) == 15 * MS / 64);
	CHECK(adaptive_size(&a) == 5);
	adaptive_place(&a, &train, 3);
	CHECK(train.kind == CHIRP_OF_NO_GAPS && train.plan.packets == 3);
	adaptive_place(&a, &train, 100);
	chirp_train_push(&train, 0, MS, 16 * MS);
	chirp_train_push(&train, 4, MS, 16 * MS + 480 * US);
	adaptive_returned(&a, &train);
	CHECK(a.gap == 120 * US && a.capacity == 120 * US);
	/* From 10 packets: as many as the gain of 2 says. */
	CHECK(a.load == 15 * CHIRP_ONE);
	a.bursts = 0;
	a.in_flight = 11;
	CHECK(adaptive_holds(&a));
	a.in_flight = 10;
	CHECK(!adaptive_holds(&a));
	adaptive_place(&a, &train, 4);
	CHECK(train.kind == CHIRP_OF_THE_REST && train.plan.packets == 4);
	while (a.stage == CHIRP_CHIRPING && chirps < 1000) {
		__u64 now = MS, link = 0;
		unsigned int at, size;

		adaptive_place(&a, &train, 100);
		size = train.plan.packets;
		/* The guard keeps the mean rate: at least half of what was found. */
		CHECK(chirp_length(&train.plan) + adaptive_guard(&a, &train) <= 2 * 122 * US * size);
		for (at = 0; at < size; at++) {
			link = chirp_max(link, now) + 120 * US;
			chirp_train_push(&train, at, now, link + 15 * MS);
			now += chirp_gap(&train.plan, at);
		}
		adaptive_returned(&a, &train);
		a.in_flight = a.load >> CHIRP_SHIFT;
		adaptive_after_ack(&a, size, 15 * MS, 0);
		chirps++;
	}
	/* 125 packets fill 15 ms; it leaves 80 to 100 % of them, paced for a round trip, and then what is in flight. */
	CHECK(a.stage == CHIRP_TRANSITION && a.left >= 100 && a.left <= 130);
	CHECK(a.pace == (15 * MS << CHIRP_SHIFT) / chirp_max(a.load, adaptive_filling(&a, a.gap) / 100 * 95));
	a.in_flight = 120;
	CHECK(adaptive_after_ack(&a, a.left, 15 * MS, 130) == 0);
	CHECK(adaptive_after_ack(&a, 1, 16 * MS, 130) >> CHIRP_SHIFT == 112);
	CHECK(a.stage == CHIRP_OVER);
	/* Where the application has less, the window counts. */
	a.stage = CHIRP_TRANSITION;
	a.left = 0;
	a.in_flight = 20;
	CHECK(adaptive_after_ack(&a, 1, 15 * MS, 130) >> CHIRP_SHIFT == 130);
	/* A silence of a timeout leaves the window standing, which leaves over a round trip. */
	CHECK(!adaptive_restarts(&a, 214 * MS, 215 * MS, 100 * CHIRP_ONE));
	CHECK(adaptive_restarts(&a, 215 * MS, 215 * MS, 100 * CHIRP_ONE) == 100 * CHIRP_ONE);
	CHECK(a.stage == CHIRP_RESUMING && a.pace == 150 * US && a.left == 100);
	CHECK(!adaptive_after_ack(&a, 99, 15 * MS, 100) && a.stage == CHIRP_RESUMING);
	CHECK(!adaptive_after_ack(&a, 1, 15 * MS, 100) && a.stage == CHIRP_OVER);
	/* Half of it after five minutes, and an initial window at last. */
	CHECK(adaptive_restarts(&a, 300000 * MS, 215 * MS, 100 * CHIRP_ONE) == 50 * CHIRP_ONE);
	CHECK(adaptive_restarts(&a, 86400000 * MS, 215 * MS, 100 * CHIRP_ONE) == 10 * CHIRP_ONE);
	CHECK(adaptive_restarts(&a, 86400000 * MS, 215 * MS, 7 * CHIRP_ONE) == 7 * CHIRP_ONE);
	/* The same of the load while it chirps. */
	a.stage = CHIRP_CHIRPING;
	a.load = 60 * CHIRP_ONE;
	CHECK(!adaptive_restarts(&a, 299999 * MS, 215 * MS, CHIRP_ONE) && a.load == 60 * CHIRP_ONE);
	CHECK(!adaptive_restarts(&a, 300000 * MS, 215 * MS, CHIRP_ONE) && a.load == 30 * CHIRP_ONE);
}

static void ours_gives_up(void)
{
	struct chirp_adaptive a;
	struct chirp_train train;
	unsigned int at;

	adaptive_init(&a);
	a.srtt = a.min_rtt = 15 * MS;
	a.bursts = 0;
	/* Marks take 0.35 of a packet, down to a shortest chirp. */
	adaptive_marked(&a, 10);
	CHECK(a.load >> 8 == (CHIRP_ONE * 65 / 10) >> 8);
	adaptive_marked(&a, 1000);
	CHECK(a.load == 5 * CHIRP_ONE);
	/* Eight ragged trains in a row: slow start. */
	for (at = 0; at < 8; at++) {
		CHECK(adaptive_after_ack(&a, 5, 15 * MS, 0) == 0);
		adaptive_place(&a, &train, 100);
		train.samples = 5;
		train.shrinking.spoilt = 1;
		adaptive_returned(&a, &train);
	}
	CHECK(adaptive_after_ack(&a, 5, 15 * MS, 0) == a.load && a.stage == CHIRP_SLOW);
	/* A standing queue of 30 ms: what fits without it. */
	adaptive_init(&a);
	a.min_rtt = 30 * MS;
	a.srtt = 60 * MS;
	CHECK((adaptive_after_ack(&a, 1, 60 * MS, 0) + CHIRP_ONE / 1000) >> CHIRP_SHIFT == 5);
	/* Shared acknowledgements make chirps longer; five lone ones in a row end that. */
	adaptive_init(&a);
	adaptive_shared(&a, 1);
	CHECK(a.shared == 1);
	adaptive_shared(&a, 4);
	CHECK(adaptive_size(&a) == 16);
	for (at = 0; at < 5; at++) {
		CHECK(a.shared == 4);
		adaptive_shared(&a, 1);
	}
	CHECK(a.shared == 1);
	adaptive_shared(&a, 1000);
	CHECK(adaptive_size(&a) == CHIRP_LONGEST);
}

/* The newest branch: a chirp and its guard take N times the load gap, to a nanosecond a gap. */
static void branch(void)
{
	struct chirp_load l;
	struct chirp_train train;
	unsigned int next, chirps = 0;

	load_init(&l);
	CHECK(l.gap == 120 * US && l.load == 2400 * US && l.load_window == 10);
	l.srtt = l.min_rtt = 15 * MS;
	load_open(&l);
	CHECK(l.gap == 234375 && l.load == 937500);
	for (next = 1; next < 7; next++) {
		l.next = next;
		load_place(&l, &train);
		CHECK(train.plan.packets == (next < 3 ? 5u : next < 5 ? 8u : 16u));
		CHECK(train.plan.first == 2 * l.gap);
		CHECK(chirp_length(&train.plan) + load_guard(&l, &train.plan) == train.plan.packets * l.load);
	}
	while (l.chirping && chirps < 1000) {
		__u64 now = MS, link = 0;
		unsigned int at;

		load_place(&l, &train);
		for (at = 0; at < train.plan.packets; at++) {
			link = chirp_max(link, now) + 120 * US;
			load_acked(&l, &train, at, now, link + 15 * MS - 120 * US, 0);
			now += chirp_gap(&train.plan, at);
		}
		l.in_flight = chirp_min(l.srtt / l.load, 125);
		load_returned(&l, &train, 120 * US);
		load_end(&l);
		l.next++;
		chirps++;
	}
	CHECK(!l.slow && l.gap > 100 * US && l.gap < 135 * US && l.load <= l.gap);
	CHECK(chirps > 10 && chirps < 200);
	CHECK(load_found(&l) >= 100 && load_found(&l) <= 125);
	CHECK(load_log(1) == 0 && load_log(2) == 1 && load_log(17) == 4 && load_log(0xffffffff) == 31);
	CHECK(load_averaged(1000, 2000, 1) == 1500);
}

int main(void)
{
	gaps_of_the_paper();
	vectors();
	trains();
	ours_alone();
	ours_gives_up();
	branch();
	return failures != 0;
}
