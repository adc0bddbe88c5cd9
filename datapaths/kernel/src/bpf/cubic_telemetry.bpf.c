// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * CUBIC with what the hops of the path say, six controllers of one object: pl_cubic_l1, pl_cubic_l1g and pl_cubic_l2 spare the window
 * where the medium lost the packets (cubic_medium.h); pl_cubic_eq1, pl_cubic_eq2 and pl_cubic_eq3 start by the room of the
 * bottleneck, equation (1) with the increments 1, 2 and 3 (eq1.h). User space writes what is known of each flow into the map
 * `pl_telemetry` (telemetry.h). A flow of which nothing is known is CUBIC, of the first three that of pl_cubic.
 *
 * Source: the headers named; struct tcp_congestion_ops of Linux include/net/tcp.h, tcp_enter_loss, tcp_enter_recovery and
 * tcp_end_cwnd_reduction of net/ipv4/tcp_input.c.
 *
 * - What ssthresh answers is the window at the end of recovery, and proportional rate reduction goes there, upwards too. So
 *   a window is kept, or grows, by the answer alone, and the window itself is left to Linux meanwhile.
 * - At a timeout Linux asks for ssthresh, unless losses were being repaired, sets the window, and then the state: what is written to the
 *   window there stays.
 * - A mark is a sign of congestion, whatever the record says. With ECN and nothing counted as lost it is one.
 */
#include "cubic_socket.h"
#include "telemetry_socket.h"

#include "cubic_medium.h"
#include "eq1.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct flow {
	struct cubic cubic;
	union {
		struct medium medium;
		struct eq1 eq1;
	};
};

PRIVATE_STATE(struct flow)

static __always_inline int is_marked(const struct tcp_sock *tp)
{
	return tp->ecn_flags & (TCP_ECN_OK | TCP_ECN_MODE_ACCECN) && !tp->lost_out;
}

static __always_inline void begin_medium(struct sock *sk, enum medium_mode mode)
{
	cubic_socket_reset(sk, &private(sk)->cubic);
	medium_reset(&private(sk)->medium, mode, tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->snd_una);
}

SEC("struct_ops")
void BPF_PROG(keep_init, struct sock *sk)
{
	begin_medium(sk, MEDIUM_KEEP);
}

SEC("struct_ops")
void BPF_PROG(grow_init, struct sock *sk)
{
	begin_medium(sk, MEDIUM_GROW);
}

SEC("struct_ops")
void BPF_PROG(cut_init, struct sock *sk)
{
	begin_medium(sk, MEDIUM_CUT);
}

/* Where the flow stands, on a path that may have become longer. */
static __always_inline struct telemetry_flow medium_flow_of(struct sock *sk)
{
	struct telemetry_flow flow = telemetry_flow_of(sk);

	flow.min_rtt_us = path_rtt_smallest(&private(sk)->medium.path, flow.min_rtt_us);
	return flow;
}

SEC("struct_ops")
void BPF_PROG(medium_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct path_rtt *path = &private(sk)->medium.path;
	const __u32 mss = tcp_sk(sk)->mss_cache;
	struct telemetry_flow flow;
	struct pl_telemetry record;

	cubic_socket_measure(sk, &private(sk)->cubic, 1, sample->rtt_us);
	flow = telemetry_flow_of(sk);
	medium_measure(&private(sk)->medium, &flow);
	if (sample->rtt_us <= 0 || !mss)
		return;
	if (path_rtt_is_usual(path, flow.min_rtt_us, sample->rtt_us))
		return;
	telemetry_read(sk, &record);
	path_rtt_take_longer(path, &record, &flow, sample->rtt_us, sample->in_flight / mss, &private(sk)->medium.seen);
}

SEC("struct_ops")
__u32 BPF_PROG(medium_ssthresh_of, struct sock *sk)
{
	const struct telemetry_flow flow = medium_flow_of(sk);
	const struct window w = window_of(sk);
	struct pl_telemetry record;

	telemetry_read(sk, &record);
	return medium_ssthresh(&private(sk)->medium, &private(sk)->cubic, &w, &record, &flow, is_marked(tcp_sk(sk)));
}

SEC("struct_ops")
void BPF_PROG(medium_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	const struct cubic_ack at = cubic_ack_of(sk, 0);
	struct telemetry_flow flow;
	struct medium *m = &private(sk)->medium;
	struct window w = window_of(sk);
	struct pl_telemetry record;
	__u32 cap = ~0u;

	medium_resume(m, &w);
	if (may_grow(sk, &w)) {
		flow = medium_flow_of(sk);
		if (medium_is_capped(m, &w, &flow)) {
			telemetry_read(sk, &record);
			cap = medium_cap(m, &record, &flow);
		}
		medium_grow_capped(m, &private(sk)->cubic, &w, &at, acked, cap);
	}
	set_window(sk, &w);
}

SEC("struct_ops")
void BPF_PROG(medium_set_state, struct sock *sk, __u8 state)
{
	const struct telemetry_flow flow = medium_flow_of(sk);
	struct window w = window_of(sk);
	struct pl_telemetry record;

	if (state != TCP_CA_LOSS) {
		private(sk)->medium.asked = 0;
		return;
	}
	telemetry_read(sk, &record);
	medium_timeout(&private(sk)->medium, &private(sk)->cubic, &w, &record, &flow, tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->snd_nxt);
	set_window(sk, &w);
}

static __always_inline void begin_eq1(struct sock *sk, __u8 inc)
{
	cubic_socket_reset(sk, &private(sk)->cubic);
	eq1_reset(&private(sk)->eq1, inc);
}

SEC("struct_ops")
void BPF_PROG(eq1_init, struct sock *sk)
{
	begin_eq1(sk, 1);
}

SEC("struct_ops")
void BPF_PROG(eq2_init, struct sock *sk)
{
	begin_eq1(sk, 2);
}

SEC("struct_ops")
void BPF_PROG(eq3_init, struct sock *sk)
{
	begin_eq1(sk, 3);
}

SEC("struct_ops")
void BPF_PROG(eq1_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubic_socket_measure(sk, &private(sk)->cubic, 0, sample->rtt_us);
}

SEC("struct_ops")
__u32 BPF_PROG(eq1_ssthresh, struct sock *sk)
{
	return eq1_reduce(&private(sk)->eq1, &private(sk)->cubic, tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(eq1_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	const struct cubic_ack at = cubic_ack_of(sk, 0);
	struct window w = window_of(sk);
	struct telemetry_flow flow;
	struct pl_telemetry record;

	if (!may_grow(sk, &w))
		return;
	flow = telemetry_flow_of(sk);
	telemetry_read(sk, &record);
	eq1_grow(&private(sk)->eq1, &private(sk)->cubic, &w, &record, &flow, &at, acked);
	set_window(sk, &w);
}

SEC("struct_ops")
void BPF_PROG(eq1_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_LOSS)
		eq1_timeout(&private(sk)->eq1, &private(sk)->cubic, tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->snd_nxt);
}

SEC("struct_ops")
void BPF_PROG(any_cwnd_event, struct sock *sk, int event)
{
	if (event == CA_EVENT_TX_START)
		cubic_socket_after_idle(sk, &private(sk)->cubic);
}

SEC("struct_ops")
__u32 BPF_PROG(any_undo_cwnd, struct sock *sk)
{
	return undone_window(sk);
}

#define MEDIUM(module, begin)                                \
	SEC(".struct_ops.link")                              \
	struct tcp_congestion_ops module = {                 \
		.ssthresh = (void *)medium_ssthresh_of,      \
		.cong_avoid = (void *)medium_cong_avoid,     \
		.set_state = (void *)medium_set_state,       \
		.cwnd_event = (void *)any_cwnd_event,        \
		.pkts_acked = (void *)medium_pkts_acked,     \
		.undo_cwnd = (void *)any_undo_cwnd,          \
		.init = (void *)begin,                       \
		.flags = TCP_CONG_NON_RESTRICTED,            \
		.name = #module,                             \
	}

MEDIUM(pl_cubic_l1, keep_init);
MEDIUM(pl_cubic_l1g, grow_init);
MEDIUM(pl_cubic_l2, cut_init);

#define EQ1(module, begin)                               \
	SEC(".struct_ops.link")                          \
	struct tcp_congestion_ops module = {             \
		.ssthresh = (void *)eq1_ssthresh,        \
		.cong_avoid = (void *)eq1_cong_avoid,    \
		.set_state = (void *)eq1_set_state,      \
		.cwnd_event = (void *)any_cwnd_event,    \
		.pkts_acked = (void *)eq1_pkts_acked,    \
		.undo_cwnd = (void *)any_undo_cwnd,      \
		.init = (void *)begin,                   \
		.flags = TCP_CONG_NON_RESTRICTED,        \
		.name = #module,                         \
	}

EQ1(pl_cubic_eq1, eq1_init);
EQ1(pl_cubic_eq2, eq2_init);
EQ1(pl_cubic_eq3, eq3_init);
