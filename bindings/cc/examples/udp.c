/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Datagrams under a controller, and what that costs:
 *
 *     udp serve PORT                   echoes the number of each datagram (the first 8 bytes), until a minute passes without one
 *     udp send PORT SPEC COUNT [HOST]  sends COUNT datagrams of 1200 bytes to HOST (127.0.0.1), such as: udp send 7000 copa 100000
 *
 * A datagram is lost when the third after it was echoed, or when nothing is echoed for a timeout. What is lost is not sent again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <paceline_cc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SIZE 1200
#define MOST 65536 /* Datagrams in flight */
#define BATCH 64 /* Echoes that are reported at once */

static char in_flight[MOST]; /* By number modulo MOST */
static uint64_t next_number, oldest, newest, lost_count;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void done(int outcome)
{
	if (outcome != 0)
		die("paceline", paceline_cc_error());
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t least(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

static int serve(int fd)
{
	struct sockaddr_in peer;
	char datagram[2048];
	struct pollfd wait = { fd, POLLIN, 0 };

	while (poll(&wait, 1, 60000) > 0) {
		socklen_t size = sizeof(peer);

		if (recvfrom(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&peer, &size) >= 8)
			sendto(fd, datagram, 8, 0, (struct sockaddr *)&peer, size);
	}
	return 0;
}

/* Takes the numbers from `oldest` on that are lost, which are those up to `end` (not included) that are in flight. */
static uint32_t losses(uint64_t end, uint64_t *lost)
{
	uint32_t count = 0;

	while (oldest < next_number && (oldest < end || !in_flight[oldest % MOST])) {
		if (in_flight[oldest % MOST]) {
			in_flight[oldest % MOST] = 0;
			lost[count++] = oldest;
		}
		oldest++;
	}
	lost_count += count;
	return count;
}

/* Reports what has been echoed; answers whether there may be more. */
static int receive(int fd, paceline_flow *flow)
{
	static uint64_t lost[MOST];
	static struct paceline_arrived arrived[BATCH];
	struct paceline_news news;
	uint64_t number;

	memset(&news, 0, sizeof(news));
	while (news.acked_count < BATCH && recv(fd, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) {
		if (number < oldest || number >= next_number || !in_flight[number % MOST])
			continue;
		in_flight[number % MOST] = 0;
		newest = number > newest ? number : newest;
		arrived[news.acked_count++].number = number;
	}
	if (news.acked_count == 0)
		return 0;
	news.size = sizeof(news);
	news.now = now();
	news.acked = arrived;
	news.acked_size = sizeof(arrived[0]);
	news.lost = lost;
	news.lost_count = losses(newest < 2 ? 0 : newest - 2, lost);
	done(paceline_flow_news(flow, &news));
	return news.acked_count == BATCH;
}

/* Wakes poll at this time. */
static void arm(int timer, uint64_t at)
{
	struct itimerspec time;

	memset(&time, 0, sizeof(time));
	time.it_value.tv_sec = (time_t)(at / 1000000000u);
	time.it_value.tv_nsec = (long)(at % 1000000000u) + (at == 0);
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &time, NULL) != 0)
		die("timerfd_settime", strerror(errno));
}

static int transfer(int fd, const char *spec, uint64_t count)
{
	static char datagram[SIZE];
	static uint64_t lost[MOST];
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct paceline_env env;
	struct paceline_state state;
	struct pollfd wait[2];
	paceline_flow *flow;
	uint64_t start = now(), heard = start, at, expired, backoff = 1;

	memset(&env, 0, sizeof(env));
	env.size = sizeof(env);
	env.mss = SIZE;
	env.offers = PACELINE_CAN_EXACT_GAPS;
	done(paceline_flow_new(spec, &env, &flow));
	state.size = sizeof(state);
	wait[0].fd = fd;
	wait[1].fd = timer;
	wait[0].events = wait[1].events = POLLIN;
	while (oldest < count) {
		at = now();
		done(paceline_flow_tick(flow, at));
		for (;;) {
			done(paceline_flow_state(flow, &state));
			if (next_number == count || next_number - oldest == MOST || state.in_flight + SIZE > state.window || at < state.due)
				break;
			memcpy(datagram, &next_number, sizeof(next_number));
			if (send(fd, datagram, SIZE, 0) < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
				die("send", strerror(errno));
			done(paceline_flow_sent(flow, at, next_number, SIZE, (count - next_number - 1) * SIZE, PACELINE_LIMIT_UNKNOWN, NULL));
			in_flight[next_number++ % MOST] = 1;
			at = now();
		}
		if (at >= heard + state.rto * backoff) {
			done(paceline_flow_timeout(flow, at, lost, losses(next_number, lost)));
			heard = at;
			if ((backoff *= 2) > 64)
				die("the peer", "it echoes nothing");
			continue;
		}
		at = least(heard + state.rto * backoff, state.next_tick);
		if (next_number < count && state.in_flight + SIZE <= state.window)
			at = least(at, state.due);
		arm(timer, at);
		if (poll(wait, 2, -1) < 0 && errno != EINTR)
			die("poll", strerror(errno));
		if (wait[1].revents && read(timer, &expired, sizeof(expired)) < 0 && errno != EAGAIN)
			die("timerfd", strerror(errno));
		while (wait[0].revents) {
			heard = now();
			backoff = 1;
			if (!receive(fd, flow))
				break;
		}
	}
	done(paceline_flow_state(flow, &state));
	printf("%s: %llu datagrams, %llu lost, %.3f s, smallest RTT %.3f ms, window %llu\n", spec, (unsigned long long)count,
	       (unsigned long long)lost_count, (double)(now() - start) / 1e9, (double)state.min_rtt / 1e6,
	       (unsigned long long)state.window);
	paceline_flow_free(flow);
	return 0;
}

int main(int argc, char **argv)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), serves = argc == 3 && !strcmp(argv[1], "serve");
	struct sockaddr_in address;

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	if (!serves && (argc < 5 || strcmp(argv[1], "send")))
		die("usage", "udp serve PORT | udp send PORT SPEC COUNT [HOST]");
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	if (inet_pton(AF_INET, argc > 5 ? argv[5] : "127.0.0.1", &address.sin_addr) != 1)
		die(argv[5], "it is not an IPv4 address");
	if (serves)
		return bind(fd, (struct sockaddr *)&address, sizeof(address)) ? (die("bind", strerror(errno)), 1) : serve(fd);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		die("connect", strerror(errno));
	return transfer(fd, argv[3], strtoull(argv[4], NULL, 10));
}
