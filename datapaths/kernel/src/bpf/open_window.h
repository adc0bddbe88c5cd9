/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The arithmetic of the open window. Plain C without a library: compiled for the kernel and, by the tests, natively.
 * All windows are in packets.
 */
#ifndef PACELINE_OPEN_WINDOW_H
#define PACELINE_OPEN_WINDOW_H

#include "window.h"

/*
 * Bytes of the open window: our choice, 16 times the largest send buffer that Linux grows by itself (tcp_wmem, 4 MB), so
 * that the send buffer and the receiver's window are always the tighter limits.
 */
#define OPEN_BYTES (64u << 20)
/*
 * At most this many packets: with them tcp_sndbuf_expand() in Linux net/ipv4/tcp_input.c, which multiplies the window by
 * twice the memory of a packet in an int, does not overflow.
 */
#define OPEN_PACKETS 65536u
/*
 * SO_MAX_PACING_RATE from here on is not a rate (8 Tbit/s) but a window: this many bytes, times 2^32. The largest number stands for no limit,
 * as always. It is the one number that every process may set on its socket and a controller here can read.
 */
#define WINDOW_FROM (1ull << 40)
#define WINDOW_SHIFT 32
#define NO_RATE (~0ull)
/* The initial window of RFC 6928. */
#define INITIAL_PACKETS 10u

/* The window of a connection whose full packets have `mss` bytes of payload. */
static inline unsigned int open_window(unsigned int mss, unsigned int clamp)
{
	unsigned int packets = OPEN_BYTES / (mss ? mss : 1);

	return smaller(smaller(packets, OPEN_PACKETS), clamp);
}

/* SO_MAX_PACING_RATE says a window. */
static inline int asks_for_window(unsigned long long rate)
{
	return rate >= WINDOW_FROM && rate != NO_RATE;
}

/* The window that SO_MAX_PACING_RATE asks for, `open` where it asks for none. Never less than a packet. */
static inline unsigned int asked_window(unsigned long long rate, unsigned int mss, unsigned int open)
{
	unsigned int packets = (unsigned int)(rate >> WINDOW_SHIFT) / (mss ? mss : 1);

	if (!asks_for_window(rate))
		return open;
	return smaller(packets ? packets : 1, open);
}

/*
 * Bytes a second of `percent` of such a window in a round trip, above 100 so that the window is what limits; `srtt` in eighths of a
 * microsecond. The kernel makes its bursts by it: what leaves in a millisecond. 0 where the RTT is not known.
 */
static inline unsigned long long rate_of_window(unsigned int window, unsigned int mss, unsigned int srtt, unsigned int percent)
{
	return srtt ? (unsigned long long)window * mss * (80000ull * percent) / srtt : 0;
}

/*
 * The window after an acknowledgement of `acked` packets. After a timeout (RFC 6298, section 5) TCP has set it to one packet
 * and resends everything: it grows back by what arrives, as in slow start (RFC 5681, section 3.1), so that the repair of a
 * path that was gone is not a burst. In any other state it is open.
 */
static inline unsigned int window_after_ack(int timed_out, unsigned int window, unsigned int acked, unsigned int open)
{
	if (!timed_out || window >= open)
		return open;
	return acked < open - window ? window + acked : open;
}

/*
 * The smallest RTT of late, in microseconds: that of packets which wait for none of their own burst, so that what lies above the
 * path's own is a queue. Kept by two spans of a quarter of the smoothed RTT, it covers the last one and what has passed of the next
 * (our choice: Copa looks at half a round trip).
 */
#define SPANS_IN_RTT 4
#define UNKNOWN_RTT SSTHRESH_INFINITE

struct smallest {
	/* In the present span and in the one before. */
	unsigned int rtt, rtt_before;
	/* When the present one ends; microseconds. */
	unsigned long long end;
};

/*
 * The RTT of the first of two packets that one acknowledgement covers (RFC 5681, section 4.2): the sample is the second one's, and that has
 * waited for the first while it passed, at the delivery rate of `delivered` packets in `interval`. Never below the path's own.
 */
static inline unsigned int rtt_of_first(unsigned int rtt, unsigned int acked, unsigned int delivered,
					unsigned int interval, unsigned int least)
{
	unsigned int wait = acked > 1 && delivered ? interval / delivered : 0;

	if (rtt <= least)
		return rtt;
	return wait < rtt - least ? rtt - wait : least;
}

/*
 * An acknowledgement of more packets than this says that the receiver joins packets (GRO, frames of a radio, a busy host). A whole window
 * may then leave as one burst, pass the bottleneck in its own time, and be acknowledged at once: taken for a queue, that time holds Copa
 * at the window at which both agree, far below the path. So the flow is paced for some round trips, which takes the burst apart.
 * 8: four acknowledgements of a receiver that delays them; 8 round trips: a timer is not switched with each acknowledgement (our choice).
 */
#define JOINED_PACKETS 8u
#define PACED_RTTS 8u
/* Twice the window in a round trip, as Copa paces (section 2.1). */
#define PACED_PERCENT 200u
#define BURST_PERCENT 125u

/* Until when it is paced, in microseconds, after an acknowledgement of `acked` packets; `srtt` in eighths of a microsecond. */
static inline unsigned long long paced_until(unsigned long long before, unsigned long long now, unsigned int acked,
					     unsigned int srtt)
{
	return acked > JOINED_PACKETS ? now + (unsigned long long)srtt / 8 * PACED_RTTS : before;
}

static inline void forget_rtt(struct smallest *smallest)
{
	smallest->rtt = smallest->rtt_before = UNKNOWN_RTT;
	smallest->end = 0;
}

/* A sample arrived at `now`; `srtt` in eighths of a microsecond. */
static inline void note_rtt(struct smallest *smallest, unsigned long long now, unsigned int rtt, unsigned int srtt)
{
	unsigned int span = srtt / 8 / SPANS_IN_RTT;

	if (now >= smallest->end) {
		smallest->rtt_before = now - smallest->end < span ? smallest->rtt : UNKNOWN_RTT;
		smallest->rtt = UNKNOWN_RTT;
		smallest->end = now + span;
	}
	smallest->rtt = smaller(smallest->rtt, rtt);
}

static inline unsigned int smallest_rtt(const struct smallest *smallest)
{
	return smaller(smallest->rtt, smallest->rtt_before);
}

/* What a controller that follows on the same connection begins with: no more than what is in flight, or an initial window. */
static inline unsigned int window_left_behind(unsigned int window, unsigned int in_flight)
{
	return smaller(window, in_flight > INITIAL_PACKETS ? in_flight : INITIAL_PACKETS);
}

#endif
