/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Controllers of paceline inside picoquic, for its commit d199d45b of 16 August 2026. Compile this file with picoquic's headers, link with
 * -lpaceline_cc, and name the controller before a connection begins:
 *
 *     picoquic_set_default_congestion_algorithm_ex(quic, paceline_algorithms[0], "copa:delta=0.1");
 *
 * picoquic marks packets by algorithm: "paceline" as ECT(0), "paceline-l4s" as ECT(1), "paceline-noect" not at all. The option is the
 * controller; without one it is CUBIC. Departures are seen at the next notification, spread evenly over the time between: there are no tags
 * by packet, so that Verus and chirps do not work, and ticks come with notifications.
 */
#ifndef PACELINE_STAND_IN
#include "picoquic_internal.h"
#endif
#include <paceline_cc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16384 /* Packets whose departures are remembered */

struct paceline_path {
	paceline_flow *flow;
	uint64_t bytes_sent; /* Of the path, as far as they were reported */
	uint64_t until; /* When that was */
	uint64_t next; /* Number of the next packet */
	uint64_t marks; /* Of the path, likewise */
	uint64_t rtt; /* Microseconds, of the acknowledgement that follows */
	uint64_t timeout; /* When the last timeout was reported; the other packets of it come at the same moment */
	uint32_t limit;
	uint64_t sent_at[MOST]; /* By number */
};

/* Of packets that left: the first number whose departure is not before `at`. */
static uint64_t number_at(const struct paceline_path *own, uint64_t at)
{
	uint64_t low = own->next > MOST ? own->next - MOST : 0, high = own->next;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (own->sent_at[middle % MOST] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What left since the last notification, one packet of the path's size after the other: the first at once, as when acknowledgements clock. */
static void depart(struct paceline_path *own, const picoquic_path_t *path, uint64_t now)
{
	uint64_t bytes = path->bytes_sent - own->bytes_sent, count = (bytes + path->send_mtu - 1) / path->send_mtu, index;

	for (index = 0; index < count; index++) {
		uint64_t at = own->until + (now - own->until) * index / count;
		uint32_t size = (uint32_t)(bytes < path->send_mtu ? bytes : path->send_mtu);

		paceline_flow_sent(own->flow, at * 1000, own->next, size, UINT64_MAX, own->limit, NULL);
		own->sent_at[own->next++ % MOST] = at;
		bytes -= size;
	}
	own->bytes_sent = path->bytes_sent;
	own->until = now;
}

/* The packets behind a lost one, of as many bytes. */
static uint32_t lost_numbers(const struct paceline_path *own, const picoquic_path_t *path, const picoquic_per_ack_state_t *ack,
			     uint64_t *numbers, uint32_t most)
{
	uint64_t count = (ack->nb_bytes_newly_lost + path->send_mtu - 1) / path->send_mtu;
	uint64_t first = number_at(own, ack->lost_packet_sent_time);
	uint32_t index;

	if (count == 0)
		count = 1;
	for (index = 0; index < most && index < count && first + index < own->next; index++)
		numbers[index] = first + index;
	return index;
}

static void lose(struct paceline_path *own, const picoquic_path_t *path, const picoquic_per_ack_state_t *ack, uint64_t now, int timeout)
{
	uint64_t numbers[64];
	uint32_t count = lost_numbers(own, path, ack, numbers, 64);
	struct paceline_news news;

	if (timeout) {
		/* The first packet stands for all of one timeout, which is one event to a controller. */
		if (own->timeout == now)
			paceline_flow_discard(own->flow, numbers, count);
		else
			paceline_flow_timeout(own->flow, now * 1000, numbers, count);
		own->timeout = now;
		return;
	}
	memset(&news, 0, sizeof(news));
	news.size = sizeof(news);
	news.now = now * 1000;
	news.lost = numbers;
	news.lost_count = count;
	paceline_flow_news(own->flow, &news);
}

static void acknowledge(struct paceline_path *own, const picoquic_path_t *path, const picoquic_per_ack_state_t *ack, uint64_t now)
{
	uint64_t rtt = ack->rtt_measurement ? ack->rtt_measurement : own->rtt;
	uint64_t marks = path->ecn_ce_total_remote - own->marks;
	struct paceline_news news;
	uint64_t end;

	memset(&news, 0, sizeof(news));
	news.size = sizeof(news);
	news.now = now * 1000;
	news.flags = PACELINE_NEWS_SUM | PACELINE_NEWS_IN_FLIGHT | PACELINE_NEWS_RTT;
	news.in_flight = path->bytes_in_transit;
	news.rtt = rtt * 1000;
	news.bytes = ack->nb_bytes_acknowledged;
	/* The newest that had left a round trip ago. */
	end = number_at(own, (now > rtt ? now - rtt : 0) + 1);
	news.newest = end > 0 ? end - 1 : 0;
	news.ce_packets = (uint32_t)marks;
	own->marks = path->ecn_ce_total_remote;
	own->limit = ack->is_app_limited ? PACELINE_LIMIT_APPLICATION : ack->is_cwnd_limited ? PACELINE_LIMIT_WINDOW : PACELINE_LIMIT_UNKNOWN;
	if (ack->is_app_limited)
		paceline_flow_run_dry(own->flow, now * 1000);
	paceline_flow_news(own->flow, &news);
}

/* What the controller permits, in picoquic's terms. */
static void answer(struct paceline_path *own, picoquic_path_t *path)
{
	struct paceline_state state;
	double rate;

	state.size = sizeof(state);
	paceline_flow_state(own->flow, &state);
	path->cwin = state.window;
	path->is_cc_data_updated = 1;
	if (state.pacing == PACELINE_PACING_FREE) {
		picoquic_update_pacing_data(path, state.window < state.threshold);
		return;
	}
	rate = state.pacing == PACELINE_PACING_RATE ? (double)state.pace : (double)path->send_mtu * 1e9 / ((double)state.pace + 1);
	/* 2 ms of it may leave at once, and two packets. */
	picoquic_update_pacing_rate(path, rate, rate * 0.002 > 2.0 * (double)path->send_mtu ? (uint64_t)(rate * 0.002) : 2 * path->send_mtu);
}

static void paceline_init(picoquic_path_t *path, const char *option, uint64_t now)
{
	struct paceline_path *own = (struct paceline_path *)calloc(1, sizeof(*own));
	struct paceline_env env;

	path->congestion_alg_state = NULL;
	if (own == NULL)
		return;
	memset(&env, 0, sizeof(env));
	env.size = sizeof(env);
	env.mss = (uint32_t)path->send_mtu;
	env.seed = now;
	env.offers = PACELINE_CAN_EXACT_MARKS | PACELINE_CAN_ECT1;
	if (paceline_flow_new(option && *option ? option : "cubic", &env, &own->flow) != 0) {
		fprintf(stderr, "paceline: %s\n", paceline_cc_error());
		free(own);
		return;
	}
	own->bytes_sent = path->bytes_sent;
	own->marks = path->ecn_ce_total_remote;
	own->until = now;
	path->congestion_alg_state = own;
	answer(own, path);
}

static void paceline_notify(picoquic_cnx_t *cnx, picoquic_path_t *path, picoquic_congestion_notification_t notification,
			    picoquic_per_ack_state_t *ack, uint64_t now)
{
	struct paceline_path *own = (struct paceline_path *)path->congestion_alg_state;

	(void)cnx;
	if (own == NULL)
		return;
	/* Bytes are counted anew on a path that was validated again. */
	if (path->bytes_sent < own->bytes_sent)
		own->bytes_sent = path->bytes_sent;
	now = now > own->until ? now : own->until;
	depart(own, path, now);
	paceline_flow_tick(own->flow, now * 1000);
	switch (notification) {
	case picoquic_congestion_notification_rtt_measurement:
		own->rtt = ack->rtt_measurement;
		break;
	case picoquic_congestion_notification_acknowledgement:
		acknowledge(own, path, ack, now);
		break;
	case picoquic_congestion_notification_repeat:
		lose(own, path, ack, now, 0);
		break;
	case picoquic_congestion_notification_timeout:
		lose(own, path, ack, now, 1);
		break;
	case picoquic_congestion_notification_spurious_repeat:
		paceline_flow_spurious(own->flow, now * 1000);
		break;
	case picoquic_congestion_notification_cwin_blocked:
		own->limit = PACELINE_LIMIT_WINDOW;
		break;
	case picoquic_congestion_notification_restart_from_idle:
		paceline_flow_run_dry(own->flow, now * 1000);
		break;
	default: /* Marks come with the acknowledgement that follows; the rest says nothing to a controller. */
		break;
	}
	answer(own, path);
}

static void paceline_delete(picoquic_path_t *path)
{
	struct paceline_path *own = (struct paceline_path *)path->congestion_alg_state;

	if (own != NULL)
		paceline_flow_free(own->flow);
	free(own);
	path->congestion_alg_state = NULL;
}

static void paceline_observe(picoquic_path_t *path, uint64_t *cc_state, uint64_t *cc_param)
{
	const struct paceline_path *own = (const struct paceline_path *)path->congestion_alg_state;
	struct paceline_state state;

	*cc_state = *cc_param = 0;
	if (own == NULL)
		return;
	state.size = sizeof(state);
	paceline_flow_state(own->flow, &state);
	*cc_state = state.window;
	*cc_param = state.srtt / 1000;
}

/* Numbers that picoquic gives to none of its own. */
static const picoquic_congestion_algorithm_t ect0 = { "paceline", 70, PICOQUIC_ECN_ECT_0, paceline_init, paceline_notify, paceline_delete, paceline_observe };
static const picoquic_congestion_algorithm_t ect1 = { "paceline-l4s", 71, PICOQUIC_ECN_ECT_1, paceline_init, paceline_notify, paceline_delete, paceline_observe };
static const picoquic_congestion_algorithm_t noect = { "paceline-noect", 72, 0, paceline_init, paceline_notify, paceline_delete, paceline_observe };

const picoquic_congestion_algorithm_t *paceline_algorithms[3] = { &ect0, &ect1, &noect };
