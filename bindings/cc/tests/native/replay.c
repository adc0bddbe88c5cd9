/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * replay FILE: feeds events to a controller and compares all that it answers. A line is a word and numbers in the order of the structures'
 * members; behind `=` is what was answered when it was recorded. Sizes of structures are those of the header that this is compiled with.
 */
#include <paceline_cc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096

static char line[1 << 20], *at;
static unsigned long number_of_line, events;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "line %lu: %s: %s\n", number_of_line, what, why);
	exit(1);
}

/* The next word of the line. */
static char *word(void)
{
	char *begin = at;

	while (*at && *at != ' ' && *at != '\n')
		at++;
	if (*at)
		*at++ = 0;
	if (!*begin)
		fail("line", "it ends early");
	return begin;
}

static uint64_t number(void)
{
	char *end, *text = word();
	uint64_t value = strtoull(text, &end, 10);

	if (*end)
		fail(text, "it is not a number");
	return value;
}

static void equal(const char *what, uint64_t found)
{
	char text[80];
	uint64_t recorded = number();

	if (found == recorded)
		return;
	sprintf(text, "it is %llu and was %llu", (unsigned long long)found, (unsigned long long)recorded);
	fail(what, text);
}

static void done(int outcome)
{
	if (outcome)
		fail("refused", paceline_cc_error());
}

static void answers(const paceline_cc *cc)
{
	struct paceline_permit permit;

	if (strcmp(word(), "="))
		fail("line", "numbers are left over");
	permit.size = sizeof(permit);
	done(paceline_cc_permit(cc, &permit));
	equal("window", permit.window);
	equal("pacing", permit.pacing);
	equal("pace", permit.pace);
	equal("next_tick", permit.next_tick);
	equal("threshold", permit.threshold);
	equal("holds against marks", permit.flags & PACELINE_HOLDS_AGAINST_MARKS);
}

static uint32_t lost(struct paceline_lost *packets)
{
	uint32_t index, count = (uint32_t)number();

	memset(packets, 0, MOST * sizeof(*packets));
	for (index = 0; index < count && index < MOST; index++, packets++) {
		packets->seq = number();
		packets->bytes = (uint32_t)number();
		packets->sent_at = number();
		packets->tag = number();
		packets->cause = (uint32_t)number();
	}
	return count;
}

static void sent(paceline_cc *cc)
{
	struct paceline_sent sent;
	struct paceline_stamp stamp;

	memset(&sent, 0, sizeof(sent));
	sent.size = sizeof(sent);
	sent.now = number();
	sent.seq = number();
	sent.bytes = (uint32_t)number();
	sent.in_flight = number();
	sent.unsent = number();
	sent.flags = (uint32_t)number();
	done(paceline_cc_sent(cc, &sent, &stamp));
	equal("tag", stamp.tag);
	equal("note", stamp.note);
}

static void acked(paceline_cc *cc)
{
	static struct paceline_acked packets[MOST];
	struct paceline_ack ack;
	uint32_t index;

	memset(&ack, 0, sizeof(ack));
	memset(packets, 0, sizeof(packets));
	ack.size = sizeof(ack);
	ack.flags = (uint32_t)number();
	ack.now = number();
	ack.bytes = number();
	ack.rtt = number();
	ack.srtt = number();
	ack.min_rtt = number();
	ack.rate_delivered = number();
	ack.rate_interval = number();
	ack.rate_prior_delivered = number();
	ack.prior_in_flight = number();
	ack.in_flight = number();
	ack.lost_bytes = number();
	ack.ce_bytes = number();
	ack.ce_packets = (uint32_t)number();
	ack.delivered = number();
	ack.una = number();
	ack.next = number();
	ack.phase = (uint32_t)number();
	ack.packet_count = (uint32_t)number();
	ack.packet_size = sizeof(packets[0]);
	ack.packets = packets;
	for (index = 0; index < ack.packet_count && index < MOST; index++) {
		packets[index].seq = number();
		packets[index].bytes = (uint32_t)number();
		packets[index].sent_at = number();
		packets[index].tag = number();
		packets[index].flags = (uint32_t)number();
		packets[index].received_at = number();
	}
	done(paceline_cc_ack(cc, &ack));
}

static void telemetry(paceline_cc *cc)
{
	static struct paceline_hop hops[64];
	struct paceline_telemetry telemetry;
	uint32_t index, bits;

	memset(&telemetry, 0, sizeof(telemetry));
	memset(hops, 0, sizeof(hops));
	telemetry.size = sizeof(telemetry);
	telemetry.flags = (uint32_t)number();
	telemetry.now = number();
	telemetry.seq = number();
	telemetry.sent_at = number();
	telemetry.tag = number();
	telemetry.verdict = (uint32_t)number();
	telemetry.fresh_for = number();
	telemetry.hops = hops;
	telemetry.hop_size = sizeof(hops[0]);
	telemetry.hop_count = (uint32_t)number();
	for (index = 0; index < telemetry.hop_count && index < 64; index++) {
		hops[index].id = (uint32_t)number();
		hops[index].known = (uint32_t)number();
		hops[index].arrived_at = number();
		hops[index].delay = number();
		hops[index].queue_bytes = number();
		hops[index].capacity = number();
		hops[index].arrival = number();
		hops[index].room_packets = (uint32_t)number();
		hops[index].limit_packets = (uint32_t)number();
		hops[index].flows = (uint32_t)number();
		hops[index].drops = (uint32_t)number();
		bits = (uint32_t)number();
		memcpy(&hops[index].signal_dbm, &bits, sizeof(bits));
		bits = (uint32_t)number();
		memcpy(&hops[index].radio_retry_share, &bits, sizeof(bits));
	}
	done(paceline_cc_telemetry(cc, &telemetry));
}

static void losses(paceline_cc *cc, int timeout)
{
	static struct paceline_lost packets[MOST];
	struct paceline_loss loss;
	struct paceline_timeout timer;

	memset(&loss, 0, sizeof(loss));
	memset(&timer, 0, sizeof(timer));
	loss.size = sizeof(loss);
	timer.size = sizeof(timer);
	timer.count = loss.flags = (uint32_t)number();
	timer.now = loss.now = number();
	if (!timeout)
		loss.bytes = number();
	timer.prior_in_flight = loss.prior_in_flight = number();
	timer.in_flight = loss.in_flight = number();
	timer.packet_count = loss.packet_count = lost(packets);
	timer.packet_size = loss.packet_size = sizeof(packets[0]);
	timer.packets = loss.packets = packets;
	done(timeout ? paceline_cc_timeout(cc, &timer) : paceline_cc_loss(cc, &loss));
}

static void feedback(paceline_cc *cc)
{
	unsigned char blob[256];
	uint64_t now = number(), count = number(), index, refused;

	for (index = 0; index < count && index < sizeof(blob); index++)
		blob[index] = (unsigned char)number();
	refused = paceline_cc_feedback(cc, now, blob, count) != 0;
	equal("refused", refused);
}

static paceline_cc *make(void)
{
	struct paceline_env env;
	struct paceline_nature nature;
	char *spec = word();
	paceline_cc *cc;

	memset(&env, 0, sizeof(env));
	env.size = sizeof(env);
	env.mss = (uint32_t)number();
	env.seed = number();
	env.flags = (uint32_t)number();
	env.offers = 63;
	done(paceline_cc_new(spec, &env, &cc));
	nature.size = sizeof(nature);
	done(paceline_cc_nature(cc, &nature));
	equal("recovery", nature.recovery);
	equal("ecn", nature.ecn);
	equal("heartbeat", nature.heartbeat);
	equal("needs", nature.needs);
	return cc;
}

int main(int argc, char **argv)
{
	static struct paceline_lost packets[MOST];
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
	paceline_cc *cc = NULL;
	uint64_t one, two, three;
	const char *event;

	if (!file || paceline_cc_abi() != PACELINE_CC_ABI)
		return 2;
	while (fgets(line, sizeof(line), file)) {
		number_of_line++;
		events++;
		at = line;
		event = word();
		if (!strcmp(event, "new")) {
			paceline_cc_free(cc);
			cc = make();
		} else if (!strcmp(event, "sent")) {
			sent(cc);
		} else if (!strcmp(event, "acked")) {
			acked(cc);
		} else if (!strcmp(event, "lost")) {
			losses(cc, 0);
		} else if (!strcmp(event, "timeout")) {
			losses(cc, 1);
		} else if (!strcmp(event, "telemetry")) {
			telemetry(cc);
		} else if (!strcmp(event, "feedback")) {
			feedback(cc);
		} else if (!strcmp(event, "cause")) {
			one = number();
			two = lost(packets);
			done(paceline_cc_cause(cc, one, packets, (uint32_t)two, sizeof(packets[0])));
		} else if (!strcmp(event, "spurious")) {
			done(paceline_cc_spurious(cc, number()));
		} else if (!strcmp(event, "tick")) {
			done(paceline_cc_tick(cc, number()));
		} else {
			/* A moment and a number, or two. */
			one = number();
			two = number();
			if (!strcmp(event, "mss")) {
				done(paceline_cc_mss(cc, one, (uint32_t)two));
			} else if (!strcmp(event, "app_limited")) {
				done(paceline_cc_app_limited(cc, one, two));
			} else if (!strcmp(event, "shared_rtt")) {
				done(paceline_cc_shared_rtt(cc, one, two));
			} else if (!strcmp(event, "restart")) {
				three = number();
				done(paceline_cc_restart(cc, one, two, three));
			} else {
				fail(event, "there is no such event");
			}
		}
		answers(cc);
	}
	paceline_cc_free(cc);
	fclose(file);
	printf("%lu events\n", events);
	return 0;
}
