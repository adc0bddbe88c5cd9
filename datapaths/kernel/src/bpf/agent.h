/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the module `paceline` and its agent in user space say to each other, and the module's own arithmetic. Plain C without
 * a library: compiled for the kernel and, by the tests, natively. Windows are in packets, times in microseconds of
 * CLOCK_MONOTONIC.
 */
#ifndef PACELINE_AGENT_H
#define PACELINE_AGENT_H

#include "layout.h"
#include "window.h"

/* An agent that has shown no sign of life for this long is gone: its flows are CUBIC. Our choice: half of what a stall may last. */
#define AGENT_SILENCE 500000ull
/*
 * The largest window that is applied. With it tcp_sndbuf_expand() in Linux net/ipv4/tcp_input.c, which multiplies the window
 * by twice the memory of a packet in an int, does not overflow.
 */
#define AGENT_WINDOW_MAX 65536u
/* The longest time between two reports of a flow that sends: our choice, what a controller that is asked once a round trip notices least. */
#define AGENT_INTERVAL_MAX 10000u

/* Of a report. */
#define REPORT_NEW 1
#define REPORT_STATE 2
#define REPORT_CLOSED 3
#define REPORT_CWND_LIMITED 1
#define REPORT_APP_LIMITED 2

/*
 * Where a flow stands. The counters count from the start of the flow, so that a report that found no room costs nothing but
 * detail. agent/report.rs reads it.
 */
struct report {
	u64 at;
	/* The first and the last time that something was sent since the report before; 0: nothing was. */
	u64 first_sent;
	u64 last_sent;
	u32 slot;
	u32 generation;
	u8 kind;
	/* enum tcp_ca_state. */
	u8 state;
	u8 flags;
	/* Timeouts in a row. */
	u8 backoff;
	u32 mss;
	u32 una;
	u32 next;
	/* Written by the application so far. */
	u32 written;
	/* One past what the newest delivered packet carried. */
	u32 highest;
	u32 sacked;
	u32 in_flight;
	u32 delivered;
	u32 marked;
	u32 lost;
	u32 resent;
	u32 recoveries;
	u32 echoes;
	u32 timeouts;
	u32 undone;
	/* Of the newest packet, and the smallest, since the report before; 0: there was none. */
	u32 rtt;
	u32 rtt_least;
	/* Smoothed; 0: not known. */
	u32 srtt;
	u32 window;
};

/* The first report of a flow. Addresses are in network order, of IPv4 the first four bytes; ports in the host's. */
struct greeting {
	struct report report;
	/* AF_INET or AF_INET6. */
	u16 family;
	u16 local_port;
	u16 remote_port;
	u16 unused;
	u32 namespace;
	u8 local[16];
	u8 remote[16];
	u32 padding;
};

/* The agent takes the flow and leaves it to CUBIC. */
#define ANSWER_DECLINED 1
/* The module shapes the window while losses are repaired, by proportional rate reduction. */
#define ANSWER_GLIDES 2
/* Slow start: what has been delivered since is added to the window. */
#define ANSWER_FOLLOWS 4
/* What has been delivered since makes no room for more: it is taken off the window. */
#define ANSWER_BUDGET 8

/* What the agent wants of a flow, one for each slot. It writes `turn` last. */
struct answer {
	/* Bytes a second; 0: the window alone limits the flow. */
	u64 rate;
	/* Of which flow in this slot. */
	u32 generation;
	u32 turn;
	u32 window;
	/* The time between two reports. */
	u32 interval;
	/* tcp_sock.delivered as the agent knew it. */
	u32 delivered;
	/* Recoveries, echoes and timeouts that it knew of. */
	u32 episodes;
	u32 flags;
	u32 unused;
};

/* There is one. The agent writes it. */
struct control {
	/* Its last sign of life. */
	u64 alive;
	/* Which agent it is: the next one has the next number. */
	u32 agent;
	/* Most slots of one user. */
	u32 most;
};

/* What went another way than planned. There is one; the module writes it. */
struct counts {
	/* Flows for which no slot was left, or none of their user: they are CUBIC. */
	u64 no_slot;
	/* Reports for which the ring had no room. */
	u64 no_room;
	/* Flows that became CUBIC because the agent was silent. */
	u64 lapses;
};

_Static_assert(sizeof(struct report) == 112, "agent/report.rs");
PLACE(struct report, at, 0);
PLACE(struct report, first_sent, 8);
PLACE(struct report, last_sent, 16);
PLACE(struct report, slot, 24);
PLACE(struct report, generation, 28);
PLACE(struct report, kind, 32);
PLACE(struct report, state, 33);
PLACE(struct report, flags, 34);
PLACE(struct report, backoff, 35);
PLACE(struct report, mss, 36);
PLACE(struct report, una, 40);
PLACE(struct report, next, 44);
PLACE(struct report, written, 48);
PLACE(struct report, highest, 52);
PLACE(struct report, sacked, 56);
PLACE(struct report, in_flight, 60);
PLACE(struct report, delivered, 64);
PLACE(struct report, marked, 68);
PLACE(struct report, lost, 72);
PLACE(struct report, resent, 76);
PLACE(struct report, recoveries, 80);
PLACE(struct report, echoes, 84);
PLACE(struct report, timeouts, 88);
PLACE(struct report, undone, 92);
PLACE(struct report, rtt, 96);
PLACE(struct report, rtt_least, 100);
PLACE(struct report, srtt, 104);
_Static_assert(sizeof(struct greeting) == 160, "agent/report.rs");
PLACE(struct greeting, family, 112);
PLACE(struct greeting, local_port, 114);
PLACE(struct greeting, remote_port, 116);
PLACE(struct greeting, namespace, 120);
PLACE(struct greeting, local, 124);
PLACE(struct greeting, remote, 140);
_Static_assert(sizeof(struct answer) == 40, "agent/answers.rs");
PLACE(struct answer, rate, 0);
PLACE(struct answer, generation, 8);
PLACE(struct answer, turn, 12);
PLACE(struct answer, window, 16);
PLACE(struct answer, interval, 20);
PLACE(struct answer, delivered, 24);
PLACE(struct answer, episodes, 28);
PLACE(struct answer, flags, 32);
_Static_assert(sizeof(struct control) == 16 && sizeof(struct counts) == 24, "agent/answers.rs");
PLACE(struct control, alive, 0);
PLACE(struct control, agent, 8);
PLACE(struct control, most, 12);
PLACE(struct counts, no_slot, 0);
PLACE(struct counts, no_room, 8);
PLACE(struct counts, lapses, 16);

/* What a window shaped by proportional rate reduction (RFC 6937) goes by. */
struct glide {
	/* Where it goes: ssthresh. */
	u32 target;
	/* RecoverFS: the window at the start, as Linux has it. */
	u32 flight;
	/* Delivered and sent since. */
	u32 delivered;
	u32 out;
};

/*
 * The window after an acknowledgement that delivered `acked` packets and left `in_flight`; `good` where it advanced and showed
 * no loss. RFC 6937, section 3, with the conservative bound as Linux tcp_cwnd_reduction has it: beyond packet conservation one
 * packet, for good acknowledgements alone.
 */
arithmetic u32 glide_window(const struct glide *glide, u32 in_flight, u32 acked, int good)
{
	u32 due, sent = 0;

	if (in_flight > glide->target) {
		due = (u32)(((u64)glide->target * glide->delivered + larger(glide->flight, 1) - 1) / larger(glide->flight, 1));
		sent = after(due, glide->out) ? due - glide->out : 0;
	} else {
		due = after(glide->delivered, glide->out) ? glide->delivered - glide->out : 0;
		sent = smaller(larger(due, acked) + (good ? 1 : 0), glide->target - in_flight);
	}
	/* The fast retransmit itself; and with nothing in flight no acknowledgement would come to send more. */
	if (!glide->out || !in_flight)
		sent = larger(sent, 1);
	return in_flight + sent;
}

/* The window that an answer asks for, `delivered` being the flow's count now: between a packet and what `clamp` and the kernel take. */
arithmetic u32 answered_window(const struct answer *answer, u32 delivered, u32 clamp)
{
	u32 window = smaller(answer->window, AGENT_WINDOW_MAX);
	u32 since = delivered - answer->delivered;

	if ((answer->flags & ANSWER_FOLLOWS) && (s32)since > 0)
		window += smaller(since, window);
	else if ((answer->flags & ANSWER_BUDGET) && (s32)since > 0)
		window -= smaller(since, window);
	return larger(smaller(smaller(window, AGENT_WINDOW_MAX), clamp), 1);
}

/*
 * Bytes a second that Linux would pace at, tcp_update_pacing_rate: 200 % of the window in a smoothed RTT (in eighths of a
 * microsecond) below half of ssthresh, else 120 %. It makes the size of bursts even where nothing paces. 0: not known.
 */
arithmetic u64 usual_rate(u32 window, u32 ssthresh, u32 mss, u32 srtt)
{
	u64 percent = window < ssthresh / 2 ? 200 : 120;

	return srtt ? (u64)window * mss * percent * 80000 / srtt : 0;
}

#endif
