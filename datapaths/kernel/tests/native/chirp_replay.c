/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Chirping fed with what a controller saw, line by line from the standard input; answers each acknowledgement by what it has found,
 * for a comparison. The first word of a line says what it is:
 *
 *   ours | branch                                 begins
 *   s NUMBER KIND PACKETS                         the first packet of a train leaves: ours says how it would plan it
 *   a NOW SRTT MIN_RTT IN_FLIGHT RTT MARKED ACKED an acknowledgement, followed by its packets
 *   p NUMBER INDEX SENT ARRIVED KNOWN SPOILT MARK one of its packets
 *   e                                             the acknowledgement ends: the answer is GAP LOAD SCATTER STAGE
 *   l GAPS GAP... DELAY...                        a chirp: the answer is both gaps of it, 0 where there is none
 *   g PACKETS GAP GEOMETRY DIVISOR                a plan: the answer is FIRST STEP LENGTH
 */
#include <stdio.h>
#include <string.h>

#include "../../src/bpf/chirp_adaptive.h"
#include "../../src/bpf/chirp_load.h"

#define TRAINS 1024

static struct chirp_train trains[TRAINS];
static unsigned char begun[TRAINS];

struct ack {
	unsigned long long now, srtt, min_rtt, in_flight, rtt, marked, acked;
};

static int take(unsigned long long *value)
{
	return scanf("%llu", value) == 1;
}

static int chirp(void)
{
	struct chirp_onset by_last = { 0 }, by_first = { 0 };
	unsigned long long count, at, gaps[64] = { 0 }, first = 0, last = 0;
	long long delay;

	if (!take(&count) || count > 63)
		return 0;
	for (at = 1; at <= count; at++) {
		if (!take(&gaps[at]))
			return 0;
	}
	for (at = 0; at <= count; at++) {
		if (scanf("%lld", &delay) != 1)
			return 0;
		chirp_last_push(&by_last, gaps[at], delay);
		chirp_first_push(&by_first, count + 1, gaps[at], delay);
	}
	last = chirp_last_gap(&by_last);
	first = chirp_first_gap(&by_first, count + 1);
	printf("%llu %llu\n", last, first);
	return 1;
}

static int plan(void)
{
	unsigned long long packets, gap, geometry, divisor;
	struct chirp_plan plan;

	if (!take(&packets) || !take(&gap) || !take(&geometry) || !take(&divisor))
		return 0;
	chirp_plan(&plan, packets, gap, geometry, divisor);
	printf("%llu %llu %llu\n", (unsigned long long)plan.first, (unsigned long long)plan.step,
	       (unsigned long long)chirp_length(&plan));
	return 1;
}

int main(void)
{
	static struct chirp_adaptive ours;
	static struct chirp_load branch;
	unsigned long long number, kind, packets, index, sent, arrived, known, spoilt, mark;
	unsigned int oldest = 0;
	struct ack ack = { 0 };
	int is_ours = 1, back = 0;
	char word[16];

	while (scanf("%15s", word) == 1) {
		if (!strcmp(word, "ours") || !strcmp(word, "branch")) {
			is_ours = word[0] == 'o';
			adaptive_init(&ours);
			load_init(&branch);
			memset(begun, 0, sizeof(begun));
			oldest = 0;
		} else if (!strcmp(word, "s")) {
			if (!take(&number) || !take(&kind) || !take(&packets))
				return 2;
			number %= TRAINS;
			if (is_ours) {
				chirp_train_begin(&trains[number], kind, packets);
				ours.bursts = 0;
			} else {
				load_place(&branch, &trains[number]);
				branch.next++;
			}
			begun[number] = 1;
		} else if (!strcmp(word, "a")) {
			if (!take(&ack.now) || !take(&ack.srtt) || !take(&ack.min_rtt) || !take(&ack.in_flight) ||
			    !take(&ack.rtt) || !take(&ack.marked) || !take(&ack.acked))
				return 2;
			ours.srtt = branch.srtt = ack.srtt;
			ours.min_rtt = branch.min_rtt = ack.min_rtt;
			ours.in_flight = branch.in_flight = ack.in_flight;
			ours.marks |= ack.marked > 0;
			if (branch.next == 1)
				load_open(&branch);
			load_clock(&branch, ack.now, ack.acked);
			adaptive_shared(&ours, ack.acked);
			back = 0;
		} else if (!strcmp(word, "p")) {
			if (!take(&number) || !take(&index) || !take(&sent) || !take(&arrived) || !take(&known) || !take(&spoilt) ||
			    !take(&mark))
				return 2;
			number %= TRAINS;
			if (is_ours && ours.stage == CHIRP_CHIRPING)
				adaptive_marked(&ours, mark);
			if (!begun[number])
				continue;
			struct chirp_train *train = &trains[number];

			train->marked += mark;
			train->spoilt |= spoilt;
			train->acked++;
			if (!is_ours)
				load_acked(&branch, train, index, sent, arrived, 0);
			else if (known)
				chirp_train_push(train, index, sent, arrived);
			if (train->acked < train->plan.packets)
				continue;
			if (is_ours) {
				for (; oldest != (number + 1) % TRAINS; oldest = (oldest + 1) % TRAINS)
					begun[oldest] = 0;
				if (ours.stage == CHIRP_CHIRPING)
					adaptive_returned(&ours, train);
			} else if (branch.chirping) {
				begun[number] = 0;
				load_returned(&branch, train, 0);
				load_end(&branch);
			}
		} else if (!strcmp(word, "e")) {
			if (is_ours) {
				adaptive_after_ack(&ours, ack.acked, ack.rtt, 0);
				printf("%llu %llu %llu %u\n", (unsigned long long)adaptive_found(&ours),
				       (unsigned long long)ours.load, (unsigned long long)ours.scatter, ours.stage);
			} else {
				printf("%llu %llu %u %u\n", (unsigned long long)branch.gap, (unsigned long long)branch.load,
				       branch.analysed, branch.chirping ? CHIRP_CHIRPING : CHIRP_OVER);
			}
		} else if (!strcmp(word, "l") ? !chirp() : !strcmp(word, "g") ? !plan() : 1) {
			return 2;
		}
	}
	return back;
}
