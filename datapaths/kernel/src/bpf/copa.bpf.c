// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Copa (copa.h), paced by the socket's own timers.
 *
 * Source: Arun and Balakrishnan, NSDI 2018; struct tcp_congestion_ops of Linux include/net/tcp.h.
 *
 * Because there is `cong_control`, the kernel neither reduces the window while it repairs losses nor restarts it after an idle
 * time: both are Copa's.
 */
#include "socket.h"

#include "copa.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct flow {
	struct copa copa;
	/* The socket's counters at the acknowledgement before. */
	__u32 delivered;
	__u32 lost;
	/* The RTT of this acknowledgement, negative where it gave none. */
	__s32 rtt;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} pl_copa_flows SEC(".maps");

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&pl_copa_flows, sk, 0, 0);
}

static __always_inline void apply(struct sock *sk, const struct copa *c)
{
	__u64 rate = copa_pacing(c, tcp_sk(sk)->mss_cache);

	tcp_sk(sk)->snd_cwnd = larger(smaller(copa_window(c), tcp_sk(sk)->snd_cwnd_clamp), 1);
	if (rate)
		sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

SEC("struct_ops")
void BPF_PROG(copa_init, struct sock *sk)
{
	struct flow *flow = bpf_sk_storage_get(&pl_copa_flows, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	/* No memory: the window stays what it is. */
	if (!flow)
		return;
	__builtin_memset(&flow->copa, 0, __builtin_offsetof(struct copa, min));
	copa_reset(&flow->copa);
	flow->delivered = tcp_sk(sk)->delivered;
	flow->lost = tcp_sk(sk)->lost;
	flow->rtt = -1;
	tcp_sk(sk)->snd_ssthresh = SSTHRESH_INFINITE;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	apply(sk, &flow->copa);
}

SEC("struct_ops")
void BPF_PROG(copa_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *flow = flow_of(sk);

	if (flow)
		flow->rtt = sample->rtt_us;
}

/* An acknowledgement has arrived and the losses that it shows are marked. */
SEC("struct_ops")
void BPF_PROG(copa_cong_control, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	struct copa_ack ack;

	if (!flow)
		return;
	if (tp->lost != flow->lost)
		copa_on_loss(&flow->copa, tp->tcp_mstamp, tp->lost - flow->lost);
	ack.now = tp->tcp_mstamp;
	ack.rtt = flow->rtt;
	ack.delivered = tp->delivered - flow->delivered;
	ack.used = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || 2 * tp->max_packets_out > tp->snd_cwnd;
	flow->delivered = tp->delivered;
	flow->lost = tp->lost;
	flow->rtt = -1;
	copa_on_ack(&flow->copa, &ack);
	apply(sk, &flow->copa);
}

SEC("struct_ops")
void BPF_PROG(copa_set_state, struct sock *sk, __u8 state)
{
	struct flow *flow = flow_of(sk);

	if (!flow || state != TCP_CA_LOSS)
		return;
	/* What was in flight counts as lost; that is not a loss of a competitor's. */
	flow->lost = tcp_sk(sk)->lost;
	copa_on_timeout(&flow->copa, tcp_sk(sk)->tcp_mstamp, inet_csk(sk)->icsk_retransmits + 1);
	apply(sk, &flow->copa);
}

SEC("struct_ops")
void BPF_PROG(copa_cwnd_event, struct sock *sk, int event)
{
	struct flow *flow = flow_of(sk);

	if (!flow || event != CA_EVENT_TX_START)
		return;
	copa_after_idle(&flow->copa, tcp_sk(sk)->tcp_mstamp);
	apply(sk, &flow->copa);
}

SEC("struct_ops")
__u32 BPF_PROG(copa_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(copa_undo_cwnd, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_sk(sk)->snd_cwnd;
	copa_undo(&flow->copa);
	return copa_window(&flow->copa);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops pl_copa = {
	.ssthresh = (void *)copa_ssthresh,
	.set_state = (void *)copa_set_state,
	.cwnd_event = (void *)copa_cwnd_event,
	.pkts_acked = (void *)copa_pkts_acked,
	.cong_control = (void *)copa_cong_control,
	.undo_cwnd = (void *)copa_undo_cwnd,
	.init = (void *)copa_init,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "pl_copa",
};
