// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * "paceline": a TCP controller that is steered from user space. The kernel finds and repairs losses; the module reports to an
 * agent what happened, through a ring, and applies the window and the pacing rate that it finds in the flow's slot of a shared
 * array. The idea is that of CCP (Narayan et al., "Restructuring Endpoint Congestion Control", SIGCOMM 2018).
 *
 * - A flow without a slot, of which the agent has no report yet, which it declines, or whose agent is silent is CUBIC, from the
 *   window it has. Because there is `cong_control`, the kernel then leaves the rate reduction to the module too.
 * - An answer is read at each event of the flow, and when it is about to send.
 * - What the maps hold is checked; they belong to root.
 */
#include "cubic_socket.h"

#include "agent.h"
#include "agent_report.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Linux sysctl_tcp_min_tso_segs. */
#define BURST_MIN 2

static __noinline void set_rate(struct sock *sk, u64 rate)
{
	struct steered *p = private(sk);
	u64 usual;

	if (rate) {
		if (sk->sk_pacing_status == SK_PACING_NONE) {
			sk->sk_pacing_status = SK_PACING_NEEDED;
			p->flags |= PACED;
		}
		sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
		return;
	}
	if (p->flags & PACED) {
		if (sk->sk_pacing_status == SK_PACING_NEEDED)
			sk->sk_pacing_status = SK_PACING_NONE;
		p->flags &= ~PACED;
	}
	usual = usual_rate(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->snd_ssthresh, tcp_sk(sk)->mss_cache, tcp_sk(sk)->srtt_us);
	if (usual)
		sk->sk_pacing_rate = usual < sk->sk_max_pacing_rate ? usual : sk->sk_max_pacing_rate;
}

static __always_inline int reduces(u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_RECOVERY;
}

static __always_inline u32 glided(struct sock *sk, u32 target, u32 acked, int good)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct glide glide = {
		.target = target,
		.flight = tp->prior_cwnd,
		.delivered = private(sk)->glided,
		.out = tp->prr_out,
	};

	return glide_window(&glide, packets_in_flight(tp), acked, good);
}

/* The agent's answer becomes the window and the rate. */
static __noinline void steer(struct sock *sk, struct flow *flow, struct answer *answer, u32 acked, int good)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = answered_window(answer, tp->delivered, tp->snd_cwnd_clamp);
	int glides = answer->flags & ANSWER_GLIDES;
	u8 state = state_of(sk);

	private(sk)->flags |= STEERED;
	private(sk)->flags &= ~GLIDING;
	if (answer->episodes != episodes(flow) && (glides || state == TCP_CA_LOSS))
		/* It is not informed of the loss yet: no more than what arrives. */
		tp->snd_cwnd = larger(smaller(window, packets_in_flight(tp) + acked), 1);
	else if (glides && reduces(state))
		tp->snd_cwnd = larger(glided(sk, window, acked, good), 1);
	else
		tp->snd_cwnd = window;
	set_rate(sk, answer->rate);
}

/* CUBIC takes over, from the window that the flow has. */
static __always_inline void take_over(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steered *p = private(sk);

	if (!(p->flags & STEERED))
		return;
	p->flags &= ~STEERED;
	cubic_socket_reset(sk, &p->cubic);
	tp->snd_cwnd_cnt = 0;
	tp->snd_ssthresh = larger(tp->snd_cwnd, WINDOW_MIN);
	if (reduces(state_of(sk)))
		p->flags |= GLIDING;
}

/* CUBIC, with the reduction that the kernel does for controllers without cong_control. */
static __noinline void be_cubic(struct sock *sk, u32 acked, int good)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steered *p = private(sk);

	take_over(sk);
	if (reduces(state_of(sk)))
		tp->snd_cwnd = larger(glided(sk, tp->snd_ssthresh, acked, good), 1);
	else if (acked)
		cubic_socket_grow(sk, &p->cubic, acked);
	set_rate(sk, 0);
}

/* The connection is established, or had another controller before. */
SEC("struct_ops")
void BPF_PROG(agent_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steered *p = private(sk);
	struct control *control;
	u32 slot, user = sk->sk_uid.val;
	struct flow *flow;

	p->slot = 0;
	p->delivered = tp->delivered;
	p->lost = tp->lost;
	p->una = tp->snd_una;
	p->glided = 0;
	p->flags = 0;
	cubic_socket_reset(sk, &p->cubic);
	control = control_of_agent();
	if (!control)
		return;
	if (!take_share(user, control)) {
		count(no_slot);
		return;
	}
	if (bpf_map_pop_elem(&pl_free, &slot)) {
		give_back_share(user);
		count(no_slot);
		return;
	}
	flow = bpf_map_lookup_elem(&pl_flows, &slot);
	if (!flow)
		return;
	p->slot = slot + 1;
	flow->user = user;
	flow->reported = 0;
	flow->first_sent = 0;
	flow->last_sent = 0;
	flow->called = tp->tcp_mstamp;
	flow->next = tp->snd_nxt;
	flow->generation++;
	flow->agent = 0;
	flow->lapsed = 0;
	flow->lost = tp->lost;
	flow->rtt = 0;
	flow->rtt_least = 0;
	flow->recoveries = 0;
	flow->echoes = 0;
	flow->timeouts = 0;
	flow->undone = 0;
	report(sk, flow, control, state_of(sk), 1);
}

/* The connection ends, or another controller follows. */
SEC("struct_ops")
void BPF_PROG(agent_release, struct sock *sk)
{
	struct steered *p = private(sk);
	struct control *control = control_of_agent();
	struct flow *flow = flow_of(sk);
	struct report *room;
	u32 slot = p->slot - 1;

	if (!flow || !control)
		return;
	set_rate(sk, 0);
	if (flow->agent == control->agent && agent_lives(control, tcp_sk(sk)->tcp_mstamp)) {
		room = bpf_ringbuf_reserve(&pl_ring, sizeof(*room), 0);
		if (room) {
			fill(room, sk, flow, REPORT_CLOSED, state_of(sk));
			bpf_ringbuf_submit(room, 0);
		} else {
			count(no_room);
		}
	}
	p->slot = 0;
	give_back_share(flow->user);
	bpf_map_push_elem(&pl_free, &slot, 0);
}

/* An acknowledgement delivered something: its RTT, before cong_control. */
SEC("struct_ops")
void BPF_PROG(agent_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *flow = flow_of(sk);
	s32 rtt = sample->rtt_us;

	if (flow && rtt > 0) {
		flow->rtt = rtt;
		if (!flow->rtt_least || flow->rtt_least > (u32)rtt)
			flow->rtt_least = rtt;
	}
	if (private(sk)->flags & STEERED)
		return;
	cubic_socket_measure(sk, &private(sk)->cubic, 1, rtt);
}

/* An acknowledgement has arrived and the losses that it shows are marked. */
SEC("struct_ops")
void BPF_PROG(agent_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steered *p = private(sk);
	u32 acked = tp->delivered - p->delivered;
	int good = tp->snd_una != p->una && tp->lost == p->lost;
	struct control *control = control_of_agent();
	struct flow *flow = flow_of(sk);
	struct answer *answer = 0;

	p->delivered = tp->delivered;
	p->lost = tp->lost;
	p->una = tp->snd_una;
	p->glided += acked;
	if (flow && control)
		answer = answer_to(sk, flow, control);
	if (answer)
		steer(sk, flow, answer, acked, good);
	else
		be_cubic(sk, acked, good);
	if (flow && control)
		report(sk, flow, control, state_of(sk), 0);
}

/* The kernel is about to send. */
SEC("struct_ops")
__u32 BPF_PROG(agent_min_tso_segs, struct sock *sk)
{
	struct control *control = control_of_agent();
	struct flow *flow = flow_of(sk);
	struct answer *answer;

	if (!flow || !control)
		return BURST_MIN;
	note_departures(tcp_sk(sk), flow);
	flow->called = tcp_sk(sk)->tcp_mstamp;
	/* Where it is reduced, acknowledgements count. */
	if (state_of(sk) == TCP_CA_OPEN) {
		answer = answer_to(sk, flow, control);
		if (answer)
			steer(sk, flow, answer, 0, 0);
	}
	return BURST_MIN;
}

SEC("struct_ops")
void BPF_PROG(agent_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steered *p = private(sk);
	struct control *control = control_of_agent();
	struct flow *flow = flow_of(sk);
	int begins = new_state == TCP_CA_CWR || new_state == TCP_CA_RECOVERY;

	if (begins)
		p->glided = 0;
	if (!(p->flags & STEERED)) {
		if (begins) {
			p->flags |= GLIDING;
		} else {
			/* The reduction is over, and has not been undone. */
			if (new_state != TCP_CA_LOSS && (p->flags & GLIDING))
				tp->snd_cwnd = larger(tp->snd_ssthresh, WINDOW_MIN);
			p->flags &= ~GLIDING;
		}
		if (new_state == TCP_CA_LOSS)
			cubic_socket_reset(sk, &p->cubic);
	}
	if (!flow || !control)
		return;
	if (new_state == TCP_CA_RECOVERY)
		flow->recoveries++;
	else if (new_state == TCP_CA_CWR)
		flow->echoes++;
	else if (new_state == TCP_CA_LOSS)
		flow->timeouts++;
	else
		return;
	report(sk, flow, control, new_state, 1);
}

SEC("struct_ops")
void BPF_PROG(agent_cwnd_event, struct sock *sk, int event)
{
	/* New data after a silence. */
	if (event == CA_EVENT_TX_START)
		cubic_socket_after_idle(sk, &private(sk)->cubic);
}

/* Losses were found, or the timer has fired. */
SEC("struct_ops")
__u32 BPF_PROG(agent_ssthresh, struct sock *sk)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	/* Where the agent steers, it alone decides what a loss costs. */
	if (private(sk)->flags & STEERED)
		return larger(cwnd, WINDOW_MIN);
	return cubic_ssthresh(&private(sk)->cubic, cwnd);
}

/* The last repair was needless. */
SEC("struct_ops")
__u32 BPF_PROG(agent_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (flow)
		flow->undone++;
	private(sk)->flags &= ~GLIDING;
	if (private(sk)->flags & STEERED)
		return tp->snd_cwnd;
	return undone_window(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops paceline = {
	.ssthresh = (void *)agent_ssthresh,
	.set_state = (void *)agent_set_state,
	.cwnd_event = (void *)agent_cwnd_event,
	.pkts_acked = (void *)agent_pkts_acked,
	.min_tso_segs = (void *)agent_min_tso_segs,
	.cong_control = (void *)agent_cong_control,
	.undo_cwnd = (void *)agent_undo_cwnd,
	.init = (void *)agent_init,
	.release = (void *)agent_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "paceline",
};
