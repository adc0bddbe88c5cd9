// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DCTCP, both halves, as Linux has it (dctcp.h). For paths that mark at a shallow step; beside other traffic only where that
 * has a queue of its own. Many kernels are built without DCTCP: this one needs no module of theirs.
 *
 * Source: RFC 8257; Linux net/ipv4/tcp_dctcp.c (its operations).
 *
 * Where ECN was not agreed on, the flow is Reno's.
 */
#include "dctcp_socket.h"

char _license[] SEC("license") = "Dual MIT/GPL";

PRIVATE_STATE(struct dctcp)

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	const struct dctcp_counts counts = dctcp_counts_of(sk);

	if (!(tcp_sk(sk)->ecn_flags & (TCP_ECN_OK | TCP_ECN_MODE_ACCECN))) {
		char fallback[] = "reno";

		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
		return;
	}
	dctcp_reset(private(sk), &counts, DCTCP_ONE, tcp_sk(sk)->rcv_nxt);
}

SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	const struct dctcp_counts counts = dctcp_counts_of(sk);

	dctcp_on_ack(private(sk), &counts);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh_of, struct sock *sk)
{
	return dctcp_ssthresh(private(sk), tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct window w = window_of(sk);

	if (!may_grow(sk, &w))
		return;
	reno_grow(&w, acked);
	set_window(sk, &w);
}

/* Losses are to be repaired: ssthresh has just been asked for, as after marks. */
static __always_inline void halve(struct sock *sk)
{
	tcp_sk(sk)->snd_ssthresh = dctcp_ssthresh_after_loss(private(sk), tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_RECOVERY && BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state) != TCP_CA_RECOVERY)
		halve(sk);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, int event)
{
	if (event == CA_EVENT_LOSS)
		halve(sk);
	else
		dctcp_receive_event(sk, private(sk), event);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	return larger(tcp_sk(sk)->snd_cwnd, private(sk)->loss_cwnd);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops pl_dctcp = {
	.ssthresh = (void *)dctcp_ssthresh_of,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.init = (void *)dctcp_init,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "pl_dctcp",
};
