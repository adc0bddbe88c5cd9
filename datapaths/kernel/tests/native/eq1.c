/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Equation (1), with numbers worked by hand. Ends with 0 when all holds; says what does not. */
#include "path_record.h"

#include "../../src/bpf/eq1.h"

_Static_assert(sizeof(struct cubic) + sizeof(struct eq1) <= 104, "it fits into the socket");

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
	r = record(LOSS_UNKNOWN, 12);
	r.drain_us = 0;
	CHECK(opened(1, r, 33) == 0);
	/* 29 ms of a queue in round trips of 20 ms: slow start. */
	CHECK(opened(1, record(LOSS_UNKNOWN, 12), 33) == 33);
	r = record(LOSS_UNKNOWN, 20);
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

	full.drain_us = 0;
	eq1_reset(&e, 1);
	for (at = 0; at < 100; at++, ack.now += 10)
		eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	/* Within a round trip neither window nor curve. */
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
	/* A gap in the records ends the round trip: what it may grow by is found again. */
	eq1_reset(&e, 1);
	w = (struct window){ .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
	room.avail_pkts = 20;
	ack.snd_nxt = 200;
	eq1_grow(&e, &c, &w, &room, &f, &ack, 1000);
	at = w.cwnd;
	eq1_grow(&e, &c, &w, &room, &f, &ack, 1000);
	CHECK(at == 28 && w.cwnd == 28);
	eq1_grow(&e, &c, &w, &none, &f, &ack, 1);
	eq1_grow(&e, &c, &w, &room, &f, &ack, 1000);
	CHECK(w.cwnd == 37);
	/* After a timeout a full queue is forgotten. */
	eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	CHECK(e.filled);
	eq1_timeout(&e, &c, 0, 0);
	w = (struct window){ .cwnd = 1, .ssthresh = 20, .clamp = ~0u };
	eq1_grow(&e, &c, &w, &none, &f, &ack, 2);
	CHECK(w.cwnd == 3 && w.ssthresh == 20);
}

static void round_trips_without_room_cost_five_percent(void)
{
	struct pl_telemetry full = record(LOSS_UNKNOWN, 12), room = record(LOSS_UNKNOWN, 60);
	struct window w = { .cwnd = 80, .ssthresh = 80, .clamp = ~0u };
	struct cubic_ack ack = { .now = 1000, .hz = HZ, .snd_una = 1, .snd_nxt = 100 };
	const u32 kept[] = { 80, 76, 72, 68, 68, 68 };
	struct telemetry_flow f = flow();
	struct cubic c = { .last_max = 100, .origin = 100, .epoch_start = 900, .delay_min = 20 * MS };
	struct eq1 e;
	u32 at;

	full.drain_us = 0;
	eq1_reset(&e, 1);
	/* 80, 76, 72.2, 68.59, and not further. */
	for (at = 0; at < 6; at++, ack.snd_una += 100, ack.snd_nxt += 100) {
		eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
		eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
		CHECK(w.cwnd == kept[at] && w.ssthresh == w.cwnd);
		CHECK(!at || (!c.epoch_start && c.last_max == kept[at > 3 ? 2 : at - 1]));
	}
	/* With room it grows again, and then gives way again; so it does after losses. */
	eq1_grow(&e, &c, &w, &room, &f, &ack, 10);
	CHECK(c.epoch_start && !e.full);
	for (at = 0; at < 2; at++, ack.snd_una += 100, ack.snd_nxt += 100)
		eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	CHECK(w.cwnd == 65);
	w.cwnd = w.ssthresh = eq1_reduce(&e, &c, 60);
	for (at = 0; at < 2; at++, ack.snd_una += 100, ack.snd_nxt += 100)
		eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	CHECK(w.cwnd == 39);
	/* Slow start ends there. */
	eq1_reset(&e, 1);
	w = (struct window){ .cwnd = 20, .ssthresh = SSTHRESH_INFINITE, .clamp = ~0u };
	eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	CHECK(w.ssthresh == SSTHRESH_INFINITE);
	ack.snd_una += 100;
	eq1_grow(&e, &c, &w, &full, &f, &ack, 10);
	CHECK(w.cwnd == 20 && w.ssthresh == 20);
}

int main(void)
{
	equation_one();
	round_trips_without_room_cost_five_percent();
	without_room_nothing_moves();
	return failures != 0;
}
