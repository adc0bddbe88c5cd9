/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * standin SPEC SECONDS: what examples/picoquic.c wants of picoquic, and a sender that notifies it in picoquic's order, over a path of
 * 12 Mbit/s, 20 ms each way and a queue of 30 packets that marks ECT packets above 20. Prints each call of the library with what it answers,
 * and at the end what was delivered: a test replays the calls in Rust.
 */
#include <inttypes.h>
#include <paceline_cc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The members, the notifications and the functions of picoquic that the adapter uses, and no others. */
#define PACELINE_STAND_IN
#define PICOQUIC_ECN_ECT_0 2
#define PICOQUIC_ECN_ECT_1 1
typedef struct st_picoquic_cnx_t { int unused; } picoquic_cnx_t;
typedef struct st_picoquic_path_t {
	uint64_t ecn_ce_total_remote, bytes_sent, bytes_in_transit, cwin;
	size_t send_mtu;
	void *congestion_alg_state;
	unsigned int is_cc_data_updated : 1;
	/* The stand-in's own. */
	double pacing_rate;
	uint64_t next_departure;
} picoquic_path_t;
typedef enum {
	picoquic_congestion_notification_acknowledgement,
	picoquic_congestion_notification_repeat,
	picoquic_congestion_notification_timeout,
	picoquic_congestion_notification_spurious_repeat,
	picoquic_congestion_notification_rtt_measurement,
	picoquic_congestion_notification_ecn_ec,
	picoquic_congestion_notification_cwin_blocked,
	picoquic_congestion_notification_seed_cwin,
	picoquic_congestion_notification_reset,
	picoquic_congestion_notification_lost_feedback,
	picoquic_congestion_notification_restart_from_idle
} picoquic_congestion_notification_t;
typedef struct st_picoquic_per_ack_state_t {
	uint64_t rtt_measurement, nb_bytes_acknowledged, nb_bytes_newly_lost, lost_packet_sent_time;
	unsigned int is_app_limited : 1, is_cwnd_limited : 1;
} picoquic_per_ack_state_t;
typedef struct st_picoquic_congestion_algorithm_t {
	const char *congestion_algorithm_id;
	uint8_t congestion_algorithm_number, ecn_mark;
	void (*alg_init)(picoquic_path_t *, const char *, uint64_t);
	void (*alg_notify)(picoquic_cnx_t *, picoquic_path_t *, picoquic_congestion_notification_t, picoquic_per_ack_state_t *, uint64_t);
	void (*alg_delete)(picoquic_path_t *);
	void (*alg_observe)(picoquic_path_t *, uint64_t *, uint64_t *);
} picoquic_congestion_algorithm_t;

static void picoquic_update_pacing_data(picoquic_path_t *path, int slow_start)
{
	(void)slow_start;
	path->pacing_rate = 0;
}

static void picoquic_update_pacing_rate(picoquic_path_t *path, double rate, uint64_t quantum)
{
	(void)quantum;
	path->pacing_rate = rate;
}

/* The calls of the library, printed. */
static void checked(int outcome)
{
	if (outcome != 0) {
		fprintf(stderr, "%s\n", paceline_cc_error());
		exit(1);
	}
}

static int said_sent(paceline_flow *flow, uint64_t now, uint64_t number, uint32_t bytes, uint64_t unsent, uint32_t limit, uint64_t *note)
{
	printf("sent %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 "\n", now, number, bytes, limit);
	checked(paceline_flow_sent(flow, now, number, bytes, unsent, limit, note));
	return 0;
}

static void numbers(const uint64_t *lost, uint32_t count)
{
	while (count-- > 0)
		printf(" %" PRIu64, *lost++);
	printf("\n");
}

static int said_news(paceline_flow *flow, const struct paceline_news *news)
{
	printf("news %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64, news->now, news->flags, news->bytes, news->newest,
	       news->ce_packets, news->in_flight, news->rtt);
	numbers(news->lost, news->lost_count);
	checked(paceline_flow_news(flow, news));
	return 0;
}

static int said_timeout(paceline_flow *flow, uint64_t now, const uint64_t *lost, uint32_t count)
{
	printf("timeout %" PRIu64, now);
	numbers(lost, count);
	checked(paceline_flow_timeout(flow, now, lost, count));
	return 0;
}

static int said_discard(paceline_flow *flow, const uint64_t *packets, uint32_t count)
{
	printf("discard 0");
	numbers(packets, count);
	checked(paceline_flow_discard(flow, packets, count));
	return 0;
}

static int said_spurious(paceline_flow *flow, uint64_t now)
{
	printf("spurious %" PRIu64 "\n", now);
	checked(paceline_flow_spurious(flow, now));
	return 0;
}

static int said_run_dry(paceline_flow *flow, uint64_t now)
{
	printf("run_dry %" PRIu64 "\n", now);
	checked(paceline_flow_run_dry(flow, now));
	return 0;
}

static int said_tick(paceline_flow *flow, uint64_t now)
{
	printf("tick %" PRIu64 "\n", now);
	checked(paceline_flow_tick(flow, now));
	return 0;
}

static int said_state(const paceline_flow *flow, struct paceline_state *state)
{
	checked(paceline_flow_state(flow, state));
	printf("state %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", state->window, state->pacing, state->pace, state->in_flight,
	       state->delivered);
	return 0;
}

#define paceline_flow_sent said_sent
#define paceline_flow_news said_news
#define paceline_flow_timeout said_timeout
#define paceline_flow_discard said_discard
#define paceline_flow_spurious said_spurious
#define paceline_flow_run_dry said_run_dry
#define paceline_flow_tick said_tick
#define paceline_flow_state said_state
#include "../../examples/picoquic.c"

#define MTU 1200
#define SERVICE 800 /* Microseconds of a packet at 12 Mbit/s */
#define EACH_WAY 20000
#define PACKETS 65536

static struct { uint64_t sent_at, acked_at, limited; char marked, state; } packet[PACKETS]; /* 1: in flight, 2: dropped on its way */

int main(int argc, char **argv)
{
	const picoquic_congestion_algorithm_t *algorithm = paceline_algorithms[0];
	uint64_t now = 0, end, free_at = 0, next = 0, oldest = 0, delivered = 0, last_ack = 0, cc_state, cc_param, index;
	picoquic_per_ack_state_t ack;
	picoquic_path_t path;
	picoquic_cnx_t cnx;

	if (argc < 3)
		return 2;
	end = (uint64_t)atoi(argv[2]) * 1000000;
	memset(&path, 0, sizeof(path));
	memset(&cnx, 0, sizeof(cnx));
	path.send_mtu = MTU;
	algorithm->alg_init(&path, argv[1], now);
	if (path.congestion_alg_state == NULL)
		return 1;
	while (now < end && next < PACKETS) {
		uint64_t wake = end;

		/* Between 3.0 and 3.5 s the application has nothing, and between 5.0 and 5.6 s the path drops all. */
		while (next < PACKETS && path.bytes_in_transit + MTU <= path.cwin && now >= path.next_departure && !(now >= 3000000 && now < 3500000)) {
			uint64_t queued = free_at > now ? (free_at - now) / SERVICE : 0;

			packet[next].sent_at = now;
			packet[next].limited = path.bytes_in_transit + 2 * MTU > path.cwin;
			packet[next].state = 1;
			if (queued >= 30 || (now >= 5000000 && now < 5600000)) {
				packet[next].state = 2;
			} else {
				packet[next].marked = queued >= 20 && algorithm->ecn_mark != 0;
				free_at = (free_at > now ? free_at : now) + SERVICE;
				packet[next].acked_at = free_at + 2 * EACH_WAY;
			}
			path.bytes_sent += MTU;
			path.bytes_in_transit += MTU;
			if (path.pacing_rate > 0)
				path.next_departure = now + (uint64_t)(MTU * 1e6 / path.pacing_rate);
			next++;
		}
		for (index = oldest; index < next; index++)
			if (packet[index].state == 1 && packet[index].acked_at < wake)
				wake = packet[index].acked_at;
		if (path.next_departure > now && path.bytes_in_transit + MTU <= path.cwin && path.next_departure < wake)
			wake = path.next_departure;
		if (path.bytes_in_transit == 0 && now >= 3000000 && now < 3500000 && wake > 3500000)
			wake = 3500000;
		if (path.bytes_in_transit > 0 && wake > last_ack + 1000000)
			wake = last_ack + 1000000;
		now = wake > now ? wake : now + 1;
		memset(&ack, 0, sizeof(ack));
		if (path.bytes_in_transit > 0 && now >= last_ack + 1000000) {
			/* One notification for each packet, all at the same moment. */
			for (index = oldest; index < next; index++) {
				if (packet[index].state == 0)
					continue;
				packet[index].state = 0;
				path.bytes_in_transit -= MTU;
				ack.nb_bytes_newly_lost = MTU;
				ack.lost_packet_sent_time = packet[index].sent_at;
				algorithm->alg_notify(&cnx, &path, picoquic_congestion_notification_timeout, &ack, now);
			}
			oldest = next;
			last_ack = now;
			continue;
		}
		for (index = oldest; index < next; index++) {
			uint64_t lost;

			if (packet[index].state != 1 || packet[index].acked_at > now)
				continue;
			packet[index].state = 0;
			path.bytes_in_transit -= MTU;
			delivered += MTU;
			last_ack = now;
			memset(&ack, 0, sizeof(ack));
			if (packet[index].marked) {
				path.ecn_ce_total_remote++;
				algorithm->alg_notify(&cnx, &path, picoquic_congestion_notification_ecn_ec, &ack, now);
			}
			ack.rtt_measurement = now - packet[index].sent_at;
			algorithm->alg_notify(&cnx, &path, picoquic_congestion_notification_rtt_measurement, &ack, now);
			for (lost = oldest; lost + 3 <= index; lost++) {
				if (packet[lost].state == 0)
					continue;
				packet[lost].state = 0;
				path.bytes_in_transit -= MTU;
				ack.nb_bytes_newly_lost = MTU;
				ack.lost_packet_sent_time = packet[lost].sent_at;
				algorithm->alg_notify(&cnx, &path, picoquic_congestion_notification_repeat, &ack, now);
			}
			ack.nb_bytes_acknowledged = MTU;
			ack.is_cwnd_limited = packet[index].limited != 0;
			ack.is_app_limited = now >= 3000000 && now < 3500000;
			algorithm->alg_notify(&cnx, &path, picoquic_congestion_notification_acknowledgement, &ack, now);
			while (oldest < next && packet[oldest].state == 0)
				oldest++;
		}
		if (path.bytes_in_transit == 0 && now >= 3500000 && now < 3600000)
			algorithm->alg_notify(&cnx, &path, picoquic_congestion_notification_restart_from_idle, &ack, now);
	}
	algorithm->alg_observe(&path, &cc_state, &cc_param);
	printf("delivered %" PRIu64 " marked %" PRIu64 " window %" PRIu64 " srtt %" PRIu64 "\n", delivered, path.ecn_ce_total_remote, cc_state, cc_param);
	algorithm->alg_delete(&path);
	return 0;
}
