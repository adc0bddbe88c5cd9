/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libpaceline_cc: congestion controllers by name, inside any transport. The transport owns the socket, the clock, the packets and the
 * recovery of losses; it reports what happens, and asks what it may send. Three handles, for three kinds of transport:
 *
 *   - paceline_cc      a controller and nothing else: the transport measures round trips and rates itself
 *   - paceline_flow    packets with numbers: what was acknowledged and lost is reported, and all else measured here
 *   - paceline_counted a controller for a TCP that is known by its counters (a simulator's, one in user space)
 *
 *     struct paceline_permit permit;
 *     paceline_cc *cc;
 *     if (paceline_cc_new("copa:delta=0.1", NULL, &cc) != 0)
 *         die(paceline_cc_error());
 *     paceline_cc_sent(cc, &sent, &stamp);      (each packet, as it leaves)
 *     paceline_cc_loss(cc, &loss);              (of each acknowledgement first what it shows to be lost,)
 *     paceline_cc_ack(cc, &ack);                (then what it delivered)
 *     permit.size = sizeof(permit);
 *     paceline_cc_permit(cc, &permit);          (after any event: window, pacing, next tick)
 *
 * Calls return 0, or a negative PACELINE_E*: the event was not reported then, and paceline_cc_error() says why in one line.
 *
 * Structures begin with `size`, which their owner sets to sizeof: members may be added at the end in a later version. What a smaller one
 * lacks is 0, which means "not known" throughout; a larger one may hold nothing but zeros where this library knows no member. Set all of
 * a structure to 0 first. Lists have the size of an element beside them.
 *
 * Times are nanoseconds from any zero, UINT64_MAX is never; spans are nanoseconds, sizes and positions bytes, rates bytes per second.
 *
 * A handle is used by one thread at a time, which may be another one each time; handles share nothing. No call is for signal handlers.
 * Nothing blocks, reads a clock or (but for paceline_cc_new_local) a file; nothing is allocated after the first window's worth of events.
 */
#ifndef PACELINE_CC_H
#define PACELINE_CC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface: that of libpaceline_cc.so.0. */
#define PACELINE_CC_ABI 0

#define PACELINE_EINVAL (-1) /* An argument is wrong; for feedback: it cannot be read */
#define PACELINE_EMISFIT (-2) /* The controller needs what the transport does not offer */
#define PACELINE_E2BIG (-3) /* A larger structure says what this library does not know */
#define PACELINE_EORDER (-4) /* Time ran backwards */
#define PACELINE_EPANIC (-5) /* A bug of the library: the handle answers 2 packets and no more events; free it */

/*
 * The number of the library's interface. A program that loads the library by itself compares it with PACELINE_CC_ABI.
 */
uint32_t paceline_cc_abi(void);

/*
 * One line that says what the last failure in this thread was about. Empty when there was none. Valid until the thread's next failure.
 */
const char *paceline_cc_error(void);

/*
 * Calls `each` with `context`, a name and a line about it for every controller.
 */
int paceline_cc_list(void (*each)(void *context, const char *name, const char *summary), void *context);

/* A controller. */
typedef struct paceline_cc paceline_cc;

/* What a transport is able to, and a controller may need. */
#define PACELINE_CAN_RECEIVER_HALF 1u /* The controller's other half runs at the receiver, and its feedback comes back */
#define PACELINE_CAN_EXACT_GAPS 2u /* Each packet leaves at its own instant (PACELINE_PACING_GAP) */
#define PACELINE_CAN_EXACT_MARKS 4u /* Congestion marks are reported by packet and byte */
#define PACELINE_CAN_TELEMETRY 8u /* The hops of the path report (paceline_cc_telemetry) */
#define PACELINE_CAN_ARRIVAL_TIMES 16u /* When each packet arrived is known (PACELINE_ACKED_RECEIVED_AT) */
#define PACELINE_CAN_ECT1 32u /* Packets carry ECT(1) (RFC 9331) */

#define PACELINE_ENV_PACED 1u /* The transport spreads packets over the round trip where the controller leaves it free */

/* What a controller is given once. */
struct paceline_env {
	uint32_t size;
	uint32_t mss; /* Payload bytes of a full packet; 0: 1448 */
	uint64_t seed; /* Of the controller's own random numbers, where it draws any */
	uint32_t flags; /* PACELINE_ENV_* */
	uint32_t offers; /* PACELINE_CAN_* */
};

/*
 * Makes a controller of a text such as "copa" or "copa:delta=0.1,mode=default" (all of them: paceline controllers --all). `env` may be
 * NULL: 1448 bytes, seed 1, nothing offered.
 *
 * EINVAL: there is no such controller or parameter. EMISFIT: it needs what `env` does not offer. *cc is NULL then.
 */
int paceline_cc_new(const char *spec, const struct paceline_env *env, paceline_cc **cc);

/*
 * As paceline_cc_new, for a text that the user of this machine wrote: it may name a file ("mdi:model=FILE"), which is read. A text from a
 * peer must not.
 */
int paceline_cc_new_local(const char *spec, const struct paceline_env *env, paceline_cc **cc);

/*
 * Frees a controller. NULL is left alone.
 */
void paceline_cc_free(paceline_cc *cc);

/* Who shapes the rate while losses are repaired. */
#define PACELINE_RECOVERY_PRR 0u /* The transport glides to the reduced window (RFC 6937) */
#define PACELINE_RECOVERY_CONTROLLER 1u /* The window counts at every moment */

#define PACELINE_ECN_OFF 0u /* Packets are not ECN-capable */
#define PACELINE_ECN_CLASSIC 1u /* ECT(0); the receiver repeats a mark until it is answered (RFC 3168) */
#define PACELINE_ECN_EXACT 2u /* ECT(0); the receiver reports each packet's mark (RFC 8257) */
#define PACELINE_ECN_L4S 3u /* ECT(1); the receiver reports each packet's mark (RFC 9331) */

/* What stays as it is from the flow's start to its end. */
struct paceline_nature {
	uint32_t size;
	uint32_t recovery; /* PACELINE_RECOVERY_* as the flow starts; the permit has it for each episode */
	uint32_t ecn; /* PACELINE_ECN_* */
	uint32_t needs; /* PACELINE_CAN_* without which it does not work */
	uint64_t heartbeat; /* After this long without a packet an empty one is due; 0: never */
	uint32_t receiver_half; /* 1: half of it runs at the receiver */
	uint32_t reserved; /* 0 */
};

/*
 * Fills in what the controller is.
 */
int paceline_cc_nature(const paceline_cc *cc, struct paceline_nature *nature);

/* When the next packet may leave, counted from the start of the packet before. */
#define PACELINE_PACING_FREE 0u /* As soon as the window allows */
#define PACELINE_PACING_RATE 1u /* On average `pace` bytes per second: small bursts are fine */
#define PACELINE_PACING_GAP 2u /* Exactly `pace` nanoseconds: no bursts, no catching up; UINT64_MAX: not before another event */

#define PACELINE_HOLDS_AGAINST_MARKS 1u /* Marks are observed and not answered: the transport does not reduce either */
#define PACELINE_CRUISES 2u /* The rate bounds what is in flight by itself: a transport may let more than the window be */
#define PACELINE_BUDGET 4u /* What is delivered makes no room: take it off a window that is applied late */
#define PACELINE_OUTLASTS_DEPARTURES 8u /* paceline_cc_sent changes none of this */

/* What is permitted until the next event. */
struct paceline_permit {
	uint32_t size;
	uint32_t flags; /* The four above */
	uint64_t window; /* Bytes that may be in flight, the packet that leaves included */
	uint64_t next_tick; /* When paceline_cc_tick is to be called; UINT64_MAX: never */
	uint64_t threshold; /* Slow-start threshold; UINT64_MAX: not known */
	uint32_t pacing; /* PACELINE_PACING_* */
	uint32_t recovery; /* PACELINE_RECOVERY_*, read as an episode begins */
	uint64_t pace;
};

/*
 * Fills in what is permitted. Of a handle with EPANIC: 2 packets.
 */
int paceline_cc_permit(const paceline_cc *cc, struct paceline_permit *permit);

#define PACELINE_SENT_RETRANSMISSION 1u /* The payload was sent before */
#define PACELINE_SENT_APP_LIMITED 2u /* The application had less to send than the window allows */

/* A packet that has just left. */
struct paceline_sent {
	uint32_t size;
	uint32_t bytes; /* Its payload; 0: a heartbeat */
	uint64_t now;
	uint64_t seq; /* Position of its first byte in the stream; of datagrams: payload bytes sent before it */
	uint64_t in_flight; /* This packet included */
	uint64_t unsent; /* What the application has handed over and has not been sent; UINT64_MAX: not known */
	uint32_t flags; /* PACELINE_SENT_* */
	uint32_t reserved; /* 0 */
};

/* What the controller attaches to a packet. This structure stays as it is. */
struct paceline_stamp {
	uint64_t tag; /* Comes back in paceline_acked or paceline_lost */
	uint64_t note; /* Travels with the packet to the receiver half, where there is one */
};

/*
 * A packet left. `stamp` may be NULL where tags are not kept: a controller such as Verus then does not work.
 */
int paceline_cc_sent(paceline_cc *cc, const struct paceline_sent *sent, struct paceline_stamp *stamp);

#define PACELINE_ACKED_RETRANSMITTED 1u /* It was sent more than once: its round trip is ambiguous */
#define PACELINE_ACKED_APP_LIMITED 2u /* It left while the application limited the flow */
#define PACELINE_ACKED_CE 4u /* It carried a congestion mark */
#define PACELINE_ACKED_RECEIVED_AT 8u /* `received_at` is known */

/* A packet that was delivered. */
struct paceline_acked {
	uint64_t seq;
	uint64_t sent_at; /* When it was last sent */
	uint64_t tag;
	uint64_t received_at; /* Its arrival by the receiver's clock: only differences mean anything */
	uint32_t bytes;
	uint32_t flags; /* PACELINE_ACKED_* */
};

/* Where the transport's recovery of losses stands. */
#define PACELINE_PHASE_OPEN 0u
#define PACELINE_PHASE_CWR 1u /* It reduces after an echo of a mark */
#define PACELINE_PHASE_RECOVERY 2u /* From a loss until all that was sent before it is acknowledged */
#define PACELINE_PHASE_LOSS 3u /* The same after a timeout */

#define PACELINE_ACK_RTT 1u /* `rtt` is known */
#define PACELINE_ACK_RATE 2u /* The sample of the delivery rate is known */
#define PACELINE_ACK_RATE_APP_LIMITED 4u /* Its packet left while the application limited the flow */
#define PACELINE_ACK_RATE_RETRANSMITTED 8u /* Its packet was sent more than once */
#define PACELINE_ACK_ECHO 16u /* First echo of a mark in this round trip: a reduction is due */
#define PACELINE_ACK_WINDOW_LIMITED 32u /* The window limited the flow when the newest packet left; windows grow only then */

/* An acknowledgement that delivered something or brought news of marks. */
struct paceline_ack {
	uint32_t size;
	uint32_t flags; /* PACELINE_ACK_* */
	uint64_t now;
	const struct paceline_acked *packets; /* Newly delivered ones, in the order of their departures */
	uint32_t packet_count;
	uint32_t packet_size; /* sizeof(struct paceline_acked) */
	uint64_t bytes; /* Newly delivered; 0: those of the packets */
	uint64_t rtt; /* Of the newest packet that was sent once */
	uint64_t srtt; /* Smoothed (RFC 6298); 0: no sample yet */
	uint64_t min_rtt; /* Smallest since the flow began; 0: no sample yet */
	uint64_t rate_delivered; /* Delivery rate (draft-cheng-iccrg-delivery-rate-estimation): bytes ... */
	uint64_t rate_interval; /* ... in this time ... */
	uint64_t rate_prior_delivered; /* ... and what had been delivered when its packet left */
	uint64_t prior_in_flight; /* Bytes in flight before */
	uint64_t in_flight; /* And now */
	uint64_t lost_bytes; /* Found lost by this acknowledgement, and reported before */
	uint64_t ce_bytes; /* Newly delivered with a mark; where marks are only echoed: all of `bytes` */
	uint64_t delivered; /* Since the flow began, these included */
	uint64_t una; /* Everything below this position has been delivered */
	uint64_t next; /* Position of the next new byte */
	uint32_t ce_packets; /* Packets of `ce_bytes` */
	uint32_t phase; /* PACELINE_PHASE_* */
};

/*
 * Something was delivered, or marks were reported. An answered handshake may be: no packets, but `srtt` and `min_rtt`.
 */
int paceline_cc_ack(paceline_cc *cc, const struct paceline_ack *ack);

/* Why a packet was lost, where the path says so. */
#define PACELINE_CAUSE_UNKNOWN 0u
#define PACELINE_CAUSE_CONGESTION 1u
#define PACELINE_CAUSE_AQM 2u
#define PACELINE_CAUSE_POLICER 3u
#define PACELINE_CAUSE_MEDIUM 4u
#define PACELINE_CAUSE_HANDOVER 5u

/* A packet that was lost. */
struct paceline_lost {
	uint64_t seq;
	uint64_t sent_at;
	uint64_t tag;
	uint32_t bytes;
	uint32_t cause; /* PACELINE_CAUSE_* */
};

#define PACELINE_LOSS_NEW_EPISODE 1u /* Recovery starts here: a reduction is due, once an episode */

/* Packets that were declared lost, but not by a timeout. */
struct paceline_loss {
	uint32_t size;
	uint32_t flags; /* PACELINE_LOSS_* */
	uint64_t now;
	const struct paceline_lost *packets; /* In the order of their departures; at least one */
	uint32_t packet_count;
	uint32_t packet_size; /* sizeof(struct paceline_lost) */
	uint64_t bytes; /* Lost; 0: those of the packets */
	uint64_t prior_in_flight; /* Bytes in flight before they were taken off */
	uint64_t in_flight; /* And now */
};

/*
 * Packets were lost. Before the paceline_cc_ack of the acknowledgement that showed it.
 */
int paceline_cc_loss(paceline_cc *cc, const struct paceline_loss *loss);

/* The retransmission timer fired. */
struct paceline_timeout {
	uint32_t size;
	uint32_t count; /* How often in a row, from 1 */
	uint64_t now;
	const struct paceline_lost *packets; /* Those that it declares lost, as far as they are known */
	uint32_t packet_count;
	uint32_t packet_size; /* sizeof(struct paceline_lost) */
	uint64_t prior_in_flight; /* Bytes in flight before */
	uint64_t in_flight; /* Those still thought to be: sent less than a round trip ago */
};

/*
 * The retransmission timer fired.
 */
int paceline_cc_timeout(paceline_cc *cc, const struct paceline_timeout *timeout);

/*
 * The last reduction answered a loss that was none: reordering, a delayed acknowledgement.
 */
int paceline_cc_spurious(paceline_cc *cc, uint64_t now);

/*
 * Why `count` packets, `packet_size` bytes apart, were lost has become known after they were reported.
 */
int paceline_cc_cause(paceline_cc *cc, uint64_t now, const struct paceline_lost *packets, uint32_t count, uint32_t packet_size);

/*
 * The flow sends again, `idle` after the last packet and with nothing in flight; `rto` is its timeout without back-off.
 */
int paceline_cc_restart(paceline_cc *cc, uint64_t now, uint64_t idle, uint64_t rto);

/*
 * The application has nothing more to send although the window is open.
 */
int paceline_cc_app_limited(paceline_cc *cc, uint64_t now, uint64_t in_flight);

/*
 * Full packets have `mss` payload bytes from now on. The window keeps its bytes.
 */
int paceline_cc_mss(paceline_cc *cc, uint64_t now, uint32_t mss);

/*
 * Another flow over the same path measured a round trip of `min`.
 */
int paceline_cc_shared_rtt(paceline_cc *cc, uint64_t now, uint64_t min);

/* Which members of a paceline_hop are known. */
#define PACELINE_HOP_ARRIVED_AT 0x1u
#define PACELINE_HOP_DELAY 0x2u
#define PACELINE_HOP_QUEUE_BYTES 0x4u
#define PACELINE_HOP_CAPACITY 0x8u
#define PACELINE_HOP_ARRIVAL 0x10u
#define PACELINE_HOP_ROOM_PACKETS 0x20u
#define PACELINE_HOP_LIMIT_PACKETS 0x40u
#define PACELINE_HOP_FLOWS 0x80u
#define PACELINE_HOP_DROPS 0x100u
#define PACELINE_HOP_SIGNAL_DBM 0x200u
#define PACELINE_HOP_RADIO_RETRY_SHARE 0x400u

/* What a hop reported. */
struct paceline_hop {
	uint32_t id; /* Its node's number, unique on the path */
	uint32_t known; /* PACELINE_HOP_* */
	uint64_t arrived_at; /* When the packet came, by the hop's clock: only differences mean anything */
	uint64_t delay; /* How long it stayed */
	uint64_t queue_bytes; /* What waited as it left */
	uint64_t capacity; /* Of the link, at present */
	uint64_t arrival; /* Rate at which traffic arrives */
	uint32_t room_packets; /* Packets for which the queue had room */
	uint32_t limit_packets; /* Packets that it holds when it is full */
	uint32_t flows; /* Seen lately */
	uint32_t drops; /* Of its queue, modulo 2^32 */
	float signal_dbm; /* Of a radio */
	float radio_retry_share; /* Frames that it had to send again, 0 to 1 */
};

#define PACELINE_TELEMETRY_PACKET 1u /* `seq`, `sent_at`, `tag` name the packet that carried it */

/* What the hops of the path reported. */
struct paceline_telemetry {
	uint32_t size;
	uint32_t flags; /* PACELINE_TELEMETRY_* */
	uint64_t now;
	const struct paceline_hop *hops; /* In the direction of data */
	uint32_t hop_count;
	uint32_t hop_size; /* sizeof(struct paceline_hop) */
	uint64_t fresh_for; /* How long the report may be relied upon */
	uint64_t seq;
	uint64_t sent_at;
	uint64_t tag;
	uint32_t verdict; /* Why packets were lost meanwhile: PACELINE_CAUSE_* */
	uint32_t reserved; /* 0 */
};

/*
 * The hops of the path reported.
 */
int paceline_cc_telemetry(paceline_cc *cc, const struct paceline_telemetry *telemetry);

/*
 * The receiver half's `len` bytes came. EINVAL: they are not what it writes; nothing has changed then.
 */
int paceline_cc_feedback(paceline_cc *cc, uint64_t now, const void *blob, size_t len);

/*
 * The time of next_tick has come.
 */
int paceline_cc_tick(paceline_cc *cc, uint64_t now);

/*
 * Calls `report` with `context`, a name and a number for each of the controller's variables. Units are in the names. `report` returns, and
 * does not use the handle.
 */
int paceline_cc_describe(const paceline_cc *cc, void (*report)(void *context, const char *name, double value), void *context);

/* What limits a flow. */
#define PACELINE_LIMIT_UNKNOWN 0u
#define PACELINE_LIMIT_WINDOW 1u
#define PACELINE_LIMIT_APPLICATION 2u

#define PACELINE_FOLLOWS 16u /* The window grew by what the last report delivered: one that is applied late may grow on */

/* Where a flow stands. The first members are those of paceline_permit. */
struct paceline_state {
	uint32_t size;
	uint32_t flags; /* Those of paceline_permit, and PACELINE_FOLLOWS */
	uint64_t window;
	uint64_t next_tick;
	uint64_t threshold;
	uint32_t pacing; /* Of counters: a rate also for a gap */
	uint32_t recovery;
	uint64_t pace;
	uint64_t due; /* Pacing lets the next packet go now or then; of counters: 0, the TCP paces itself */
	uint64_t in_flight; /* Bytes */
	uint64_t srtt; /* 0: no sample yet */
	uint64_t min_rtt; /* 0: no sample yet */
	uint64_t rto; /* Retransmission timeout without back-off */
	uint64_t delivered; /* Bytes since the flow began */
};

/* A controller, its measurements and the packets on their way, for a transport whose packets have numbers. */
typedef struct paceline_flow paceline_flow;

/*
 * Makes a flow; `spec` and `env` as of paceline_cc_new. With PACELINE_ENV_PACED packets are spread over the round trip where the controller
 * leaves it free.
 */
int paceline_flow_new(const char *spec, const struct paceline_env *env, paceline_flow **flow);

/*
 * Frees it. NULL is left alone.
 */
void paceline_flow_free(paceline_flow *flow);

/*
 * Packet `number` of `bytes` leaves, whose number is above those before it. `unsent`: what the application has handed over and has not been
 * sent; UINT64_MAX: not known. `limit`: PACELINE_LIMIT_*; where it is not known, the window limits the flow while more than half of it is
 * in flight. `note` may be NULL; what it is set to travels with the packet to the receiver half. At most 131072 packets are remembered.
 */
int paceline_flow_sent(paceline_flow *flow, uint64_t now, uint64_t number, uint32_t bytes, uint64_t unsent, uint32_t limit, uint64_t *note);

#define PACELINE_ARRIVED_CE 4u /* It carried a congestion mark */
#define PACELINE_ARRIVED_RECEIVED_AT 8u /* `received_at` is known */

/* A packet that was acknowledged. */
struct paceline_arrived {
	uint64_t number;
	uint64_t received_at; /* Its arrival by the receiver's clock: only differences mean anything */
	uint32_t flags; /* PACELINE_ARRIVED_* */
	uint32_t reserved; /* 0 */
};

#define PACELINE_NEWS_SUM 1u /* `bytes` and `newest` in place of `acked` */
#define PACELINE_NEWS_PERSISTENT 2u /* All that was sent within the persistent congestion period was lost (RFC 9002 section 7.6) */
#define PACELINE_NEWS_IN_FLIGHT 4u /* `in_flight` is known */
#define PACELINE_NEWS_RTT 8u /* `rtt` is known */

/* An acknowledgement. */
struct paceline_news {
	uint32_t size;
	uint32_t flags; /* PACELINE_NEWS_* */
	uint64_t now;
	const struct paceline_arrived *acked; /* Newly acknowledged packets, in any order */
	uint32_t acked_count;
	uint32_t acked_size; /* sizeof(struct paceline_arrived) */
	const uint64_t *lost; /* Numbers of packets that it shows to be lost, or that are lost without one */
	uint32_t lost_count;
	uint32_t ce_packets; /* Packets with a congestion mark, where it is not known which */
	uint64_t bytes; /* Newly acknowledged, where it is not known which packets */
	uint64_t newest; /* Number of the newest of them */
	uint64_t in_flight; /* Bytes in flight before the losses, of a transport that has packets of whose end it does not report */
	uint64_t rtt; /* Of the newest packet, where the transport measures it better than it reports when packets leave */
};

/*
 * An acknowledgement came, or losses were found without one. Round trip, delivery rate and what is in flight follow from it; losses are
 * reported first, a reduction once an episode.
 */
int paceline_flow_news(paceline_flow *flow, const struct paceline_news *news);

/*
 * The retransmission timer fired, or persistent congestion was found: `count` packets at `lost` are lost, as far as they are known.
 */
int paceline_flow_timeout(paceline_flow *flow, uint64_t now, const uint64_t *lost, uint32_t count);

/*
 * What the last reduction answered was not lost.
 */
int paceline_flow_spurious(paceline_flow *flow, uint64_t now);

/*
 * Of these packets it will never be known whether they arrived, and it means nothing: a lost probe of the packet size, keys that were dropped.
 */
int paceline_flow_discard(paceline_flow *flow, const uint64_t *packets, uint32_t count);

/*
 * The application has nothing to send although the window is open.
 */
int paceline_flow_run_dry(paceline_flow *flow, uint64_t now);

/*
 * Full packets have `mss` payload bytes from now on.
 */
int paceline_flow_mss(paceline_flow *flow, uint64_t now, uint32_t mss);

/*
 * As paceline_cc_feedback.
 */
int paceline_flow_feedback(paceline_flow *flow, uint64_t now, const void *blob, size_t len);

/*
 * Runs the controller's clock, where next_tick has come; may be called at any time.
 */
int paceline_flow_tick(paceline_flow *flow, uint64_t now);

/*
 * Fills in where the flow stands: a packet may leave from `due` on, while `in_flight` and it do not exceed `window`.
 */
int paceline_flow_state(const paceline_flow *flow, struct paceline_state *state);

/*
 * As paceline_cc_describe, of its controller.
 */
int paceline_flow_describe(const paceline_flow *flow, void (*report)(void *context, const char *name, double value), void *context);

/* A controller and a TCP that is known by its counters. */
typedef struct paceline_counted paceline_counted;

#define PACELINE_COUNTERS_RTT 1u /* `rtt_newest` is known, and `rtt_least` where it is not 0 */
#define PACELINE_COUNTERS_SRTT 2u /* `srtt` is known; otherwise it is made of the samples */
#define PACELINE_COUNTERS_DEPARTURES 4u /* `first_departure` and `last_departure` are known */

/* Where a flow stands, and what it has counted since it began. Positions count bytes of the stream in 64 bits. */
struct paceline_counters {
	uint32_t size;
	uint32_t flags; /* PACELINE_COUNTERS_* */
	uint64_t at; /* When this was so */
	uint64_t una; /* Everything below has been delivered */
	uint64_t next; /* Position of the next new byte */
	uint64_t highest; /* One past the highest position known to be delivered */
	uint64_t unsent; /* Bytes that the application has written and that have not been sent */
	uint64_t lost; /* Packets declared lost */
	uint64_t resent; /* Packets sent again */
	uint64_t marked; /* Delivered packets with a congestion mark, as far as the receiver says so */
	uint64_t recoveries; /* Fast recoveries begun */
	uint64_t echoes; /* Reductions begun for another reason: an echo of a mark, a loss that a probe repaired */
	uint64_t timeouts; /* Retransmission timeouts */
	uint64_t undone; /* Reductions undone, because what was thought lost was not */
	uint64_t rtt_newest; /* RTT of the newest packet that was sent once, since the report before */
	uint64_t rtt_least; /* The smallest of these */
	uint64_t srtt; /* Smoothed */
	uint64_t first_departure; /* When something was sent since the report before, for the first time ... */
	uint64_t last_departure; /* ... and the last */
	uint32_t mss; /* Payload bytes of a full packet; 0: as before */
	uint32_t ahead; /* Packets delivered above `una` (Linux sacked_out) */
	uint32_t in_flight; /* Packets in flight (RFC 6675 pipe) */
	uint32_t backoff; /* Timeouts in a row */
	uint32_t phase; /* PACELINE_PHASE_* */
	uint32_t limit; /* PACELINE_LIMIT_* */
};

/*
 * Steers a flow from `now` on, which is NULL for one that has done nothing; what is outstanding counts as sent at this moment. `spec` and
 * `env` as of paceline_cc_new.
 */
int paceline_counted_new(const char *spec, const struct paceline_env *env, const struct paceline_counters *now, paceline_counted **flow);

/*
 * Frees it. NULL is left alone.
 */
void paceline_counted_free(paceline_counted *flow);

/*
 * Takes in a report: what was sent, delivered and lost since the one before is reconstructed and reported to the controller. EINVAL: a
 * counter went down. EORDER: it is older than the one before.
 */
int paceline_counted_report(paceline_counted *flow, const struct paceline_counters *now);

/*
 * The time of next_tick has come.
 */
int paceline_counted_tick(paceline_counted *flow, uint64_t now);

/*
 * Fills in where the flow stands. Of a handle with EPANIC: 2 packets.
 */
int paceline_counted_state(const paceline_counted *flow, struct paceline_state *state);

/*
 * As paceline_cc_describe, of its controller.
 */
int paceline_counted_describe(const paceline_counted *flow, void (*report)(void *context, const char *name, double value), void *context);

#ifdef __cplusplus
}
#endif

#endif
