/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CUBIC that reads records, at random events: without a record that counts it is CUBIC, bit by bit, and with any nothing is out of
 * bounds. Ends with 0 when all holds; says what does not.
 */
#include <string.h>

#include "path_record.h"

#include "../../src/bpf/eq1.h"

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
		m.streak.length = below(160);
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
	without_a_record_it_is_cubic();
	nothing_is_out_of_bounds();
	return failures != 0;
}
