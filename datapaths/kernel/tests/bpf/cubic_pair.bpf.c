// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The kernel's own CUBIC steers the socket; CUBIC of cubic.h runs beside it, from the same window and on the same inputs, and
 * keeps its own state all along. Each call is compared: the window, ssthresh, and what both remember.
 *
 * Source: the functions that Linux net/ipv4/tcp_cubic.c gives to eBPF (BTF_KFUNCS of cubictcp_*), and its struct bictcp.
 */
#include "../../src/bpf/cubic_socket.h"

char _license[] SEC("license") = "Dual MIT/GPL";

enum tcp_ca_event { SOME_EVENT };

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;

/* The kernel's state, in the socket's private area. */
struct bictcp {
	__u32 cnt;
	__u32 last_max_cwnd;
	__u32 last_cwnd;
	__u32 last_time;
	__u32 bic_origin_point;
	__u32 bic_K;
	__u32 delay_min;
	__u32 epoch_start;
	__u32 ack_cnt;
	__u32 tcp_cwnd;
	__u8 sample_cnt;
	__u8 found;
	__u32 round_start;
	__u32 end_seq;
	__u32 last_ack;
	__u32 curr_rtt;
} __attribute__((preserve_access_index));

PRIVATE_STATE(struct bictcp)

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cubic);
} pair_states SEC(".maps");

/* Calls by kind, read by user space as 64-bit numbers in this order. */
struct pair_counts {
	__u64 acks;
	__u64 samples;
	__u64 reductions;
	__u64 timeouts;
	__u64 idles;
	/* Calls in which the clock moved on between the two. */
	__u64 ticks;
	/* Acknowledgements in congestion avoidance, on the curve before the plateau, by Reno's window. */
	__u64 avoiding;
	__u64 curved;
	__u64 as_reno;
	__u64 hystart;
	/* Calls after which the two were not equal: by window or ssthresh, and by what they remember. */
	__u64 windows_differ;
	__u64 states_differ;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pair_counts);
} pair_counts SEC(".maps");

static __always_inline int states_equal(struct sock *sk, const struct cubic *c)
{
	const struct bictcp *theirs = private(sk);

	return c->cnt == theirs->cnt && c->last_max == theirs->last_max_cwnd && c->last_cwnd == theirs->last_cwnd &&
	       c->last_time == theirs->last_time && c->origin == theirs->bic_origin_point && c->k == theirs->bic_K &&
	       c->delay_min == theirs->delay_min && c->epoch_start == theirs->epoch_start &&
	       c->ack_cnt == theirs->ack_cnt && c->reno_cwnd == theirs->tcp_cwnd && c->samples == theirs->sample_cnt &&
	       c->found == theirs->found && c->round_start == theirs->round_start && c->round_end == theirs->end_seq &&
	       c->last_ack == theirs->last_ack && c->round_rtt == theirs->curr_rtt;
}

static __always_inline int windows_equal(struct sock *sk, const struct window *w)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return w->cwnd == tp->snd_cwnd && w->cwnd_cnt == tp->snd_cwnd_cnt && w->ssthresh == tp->snd_ssthresh;
}

static __always_inline void count_difference(struct sock *sk, struct pair_counts *counts, const struct cubic *c,
					     const struct window *w)
{
	if (!windows_equal(sk, w))
		__sync_fetch_and_add(&counts->windows_differ, 1);
	if (!states_equal(sk, c))
		__sync_fetch_and_add(&counts->states_differ, 1);
}

static __always_inline struct pair_counts *counts_of_all(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&pair_counts, &first);
}

#define PAIR_OF(sk, state, counts)                                                    \
	struct cubic *state = bpf_sk_storage_get(&pair_states, sk, 0, 0);             \
	struct pair_counts *counts = counts_of_all()

SEC("struct_ops")
void BPF_PROG(pair_init, struct sock *sk)
{
	struct cubic *c = bpf_sk_storage_get(&pair_states, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	cubictcp_init(sk);
	if (c)
		cubic_socket_reset(sk, c);
}

/*
 * The kernel reads its clock itself. Where that moved on meanwhile, it read either time: ours is the one that gives its result,
 * if one does.
 */
#define COMPARED(kernels, ours)                                            \
	do {                                                               \
		const struct cubic before = *c;                            \
		const struct window start = window_of(sk);                 \
		struct cubic_ack ack = cubic_ack_of(sk, 1);                \
		struct window w = start;                                   \
		__u32 tick;                                                \
                                                                           \
		kernels;                                                   \
		ours;                                                      \
		tick = ticks_now(sk);                                      \
		if (tick != ack.now) {                                     \
			__sync_fetch_and_add(&counts->ticks, 1);           \
			if (!windows_equal(sk, &w) || !states_equal(sk, c)) { \
				*c = before;                               \
				w = start;                                 \
				ack.now = tick;                            \
				ours;                                      \
			}                                                  \
		}                                                          \
		count_difference(sk, counts, c, &w);                       \
	} while (0)

SEC("struct_ops")
void BPF_PROG(pair_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	int was_found = private(sk)->found;
	PAIR_OF(sk, c, counts);

	if (!c || !counts) {
		cubictcp_acked(sk, sample);
		return;
	}
	COMPARED(cubictcp_acked(sk, sample), cubic_measure(c, &w, &ack, sample->rtt_us));
	__sync_fetch_and_add(&counts->samples, 1);
	if (!was_found && private(sk)->found)
		__sync_fetch_and_add(&counts->hystart, 1);
}

static __always_inline void grow_if_used(struct sock *sk, struct cubic *c, struct window *w, const struct cubic_ack *ack,
					 __u32 acked, int used)
{
	if (used)
		cubic_grow(c, w, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(pair_cong_avoid, struct sock *sk, __u32 number, __u32 acked)
{
	struct window now = window_of(sk);
	int used = may_grow(sk, &now);
	PAIR_OF(sk, c, counts);

	if (!c || !counts) {
		cubictcp_cong_avoid(sk, number, acked);
		return;
	}
	COMPARED(cubictcp_cong_avoid(sk, number, acked), grow_if_used(sk, c, &w, &ack, acked, used));
	__sync_fetch_and_add(&counts->acks, 1);
	if (used && !in_slow_start(&now)) {
		__sync_fetch_and_add(&counts->avoiding, 1);
		if (private(sk)->bic_K)
			__sync_fetch_and_add(&counts->curved, 1);
		if (private(sk)->tcp_cwnd > now.cwnd)
			__sync_fetch_and_add(&counts->as_reno, 1);
	}
}

SEC("struct_ops")
__u32 BPF_PROG(pair_ssthresh, struct sock *sk)
{
	__u32 theirs = cubictcp_recalc_ssthresh(sk), ours = theirs;
	struct window w = window_of(sk);
	PAIR_OF(sk, c, counts);

	if (c && counts) {
		ours = cubic_ssthresh(c, w.cwnd);
		__sync_fetch_and_add(&counts->reductions, 1);
		__sync_fetch_and_add(&counts->windows_differ, ours != theirs);
		count_difference(sk, counts, c, &w);
	}
	return theirs;
}

SEC("struct_ops")
void BPF_PROG(pair_set_state, struct sock *sk, __u8 state)
{
	struct window w = window_of(sk);
	PAIR_OF(sk, c, counts);

	cubictcp_state(sk, state);
	/* Of the other states CUBIC takes no notice. */
	if (!c || !counts || state != TCP_CA_LOSS)
		return;
	cubic_socket_reset(sk, c);
	__sync_fetch_and_add(&counts->timeouts, 1);
	count_difference(sk, counts, c, &w);
}

static __always_inline void after_idle(struct cubic *c, const struct cubic_ack *ack, __u32 last_sent, int event)
{
	if (event == CA_EVENT_TX_START)
		cubic_after_idle(c, ack->now, last_sent);
}

SEC("struct_ops")
void BPF_PROG(pair_cwnd_event, struct sock *sk, int event)
{
	__u32 last_sent = tcp_sk(sk)->lsndtime;
	PAIR_OF(sk, c, counts);

	if (!c || !counts) {
		cubictcp_cwnd_event(sk, event);
		return;
	}
	if (event == CA_EVENT_TX_START && c->epoch_start)
		__sync_fetch_and_add(&counts->idles, 1);
	COMPARED(cubictcp_cwnd_event(sk, event), after_idle(c, &ack, last_sent, event));
}

SEC("struct_ops")
__u32 BPF_PROG(pair_undo_cwnd, struct sock *sk)
{
	return undone_window(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops pl_test_pair = {
	.ssthresh = (void *)pair_ssthresh,
	.cong_avoid = (void *)pair_cong_avoid,
	.set_state = (void *)pair_set_state,
	.cwnd_event = (void *)pair_cwnd_event,
	.pkts_acked = (void *)pair_pkts_acked,
	.undo_cwnd = (void *)pair_undo_cwnd,
	.init = (void *)pair_init,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "pl_test_pair",
};
