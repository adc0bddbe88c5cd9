// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Paced chirping from a kernel socket: a flow finds the free capacity by trains of ever closer packets, and then is DCTCP's, or
 * CUBIC's. Three controllers of one object: pl_chirp is ours (chirp_adaptive.h), pl_chirp_r the newest kernel branch of the
 * authors (chirp_load.h), both over DCTCP; pl_chirp_cubic is ours, and leaves the socket to the kernel's CUBIC.
 *
 * Source: Misund and Briscoe, "Paced Chirping" (2019); RFC 8257; Linux net/ipv4/tcp_output.c, tcp_dctcp.c.
 *
 * How a socket sends at a list of gaps. After each packet Linux waits its payload over sk_pacing_rate before the next
 * (tcp_update_skb_after_send), and asks min_tso_segs before it looks whether one may leave (tcp_write_xmit). So what
 * min_tso_segs writes there is the gap behind the packet about to leave, and a window of one packet more than is in flight
 * keeps it alone. The call comes also where no packet can leave yet: it decides the same again.
 *
 * - The kernel paces no packet before the eleventh. The two bursts of five are those ten; the second leaves with the first
 *   acknowledgement, because no timer can be had before. A flow that seems to fit the ten sends them at once.
 * - When a packet left and arrived is known by its RTT, in whole microseconds, of the newest packet of an acknowledgement.
 * - No cong_control: in every other stage than chirping, Linux's own reductions and recovery apply.
 * - Marks change DCTCP's alpha, and never the window while chirping; the state CWR, which a mark brings, does not stop chirps.
 *   Loss does, and the timer.
 * - Where acknowledgements are delayed or the device takes segments larger than a packet, chirps are coarse or ragged:
 *   `ip route ... quickack 1` at the receiver, `ip link set ... gso_max_segs 1` at the sender.
 */
#include "chirp_flow.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The next packet of a train. */
static __always_inline void chirp_on(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 in_flight = packets_in_flight(tp), room = 1;
	struct chirp_train *train = train_of(f, f->next);

	tp->snd_ssthresh = SSTHRESH_INFINITE;
	if (!f->planned || !train->sent)
		f->planned = plan(f, tp);
	if (!f->planned) {
		tp->snd_cwnd = chirp_max(in_flight, 1);
		return;
	}
	pace(sk, gap_behind(tp, f, train));
	if (train->kind == CHIRP_OF_NO_GAPS && tp->data_segs_out < UNPACED) {
		/* All of it at once, by single packets; the pace is that behind the last. */
		room = chirp_less(train->plan.packets, train->sent);
		pace(sk, chirp_max(f->generation == OURS ? adaptive_centre(&f->ours) : f->branch.gap, NANOS_PER_SEC >> 10));
	}
	tp->snd_cwnd = in_flight + room;
}

SEC("struct_ops")
__u32 BPF_PROG(chirp_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);

	if (!f)
		f = begin(sk);
	if (!f)
		return TSO_SEGS;
	count(f, tp);
	gather(f, tp);
	if (f->generation == OURS && !tp->packets_out)
		restart(sk, f);
	if (f->stage == CHIRP_CHIRPING) {
		chirp_on(sk, f);
		return 1;
	}
	if (f->stage == CHIRP_TRANSITION) {
		tp->snd_ssthresh = SSTHRESH_INFINITE;
		tp->snd_cwnd = chirp_max(chirp_min(packets_in_flight(tp) + 1, f->window), 1);
		pace(sk, f->ours.pace);
		return 1;
	}
	if (f->stage == CHIRP_RESUMING) {
		pace(sk, f->ours.pace);
		return 1;
	}
	return TSO_SEGS;
}

/* An acknowledgement has arrived; losses are not marked yet. */
SEC("struct_ops")
void BPF_PROG(chirp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct dctcp_counts counts = dctcp_counts_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	__u32 window, slow;
	__u64 found;

	dctcp_on_ack(&private(sk)->dctcp, &counts);
	if (!f)
		return;
	count(f, tp);
	gather(f, tp);
	f->ack.now = tp->tcp_mstamp * 1000;
	f->ack.rtt = sample->rtt_us > 0 ? sample->rtt_us * 1000ull : 0;
	f->ack.sent = f->ack.rtt ? f->ack.now - f->ack.rtt : 0;
	f->ack.interval = tp->rate_delivered ? tp->rate_interval_us * 1000ull / tp->rate_delivered : 0;
	f->ack.acked = sample->pkts_acked;
	f->ack.marked = tp->delivered_ce - f->delivered_ce;
	f->ack.una = tp->snd_una;
	f->ack.mss = tp->mss_cache;
	f->delivered_ce = tp->delivered_ce;
	f->answered |= f->ack.acked > 0;
	if (tp->sacked_out) {
		f->disordered = 1;
		f->disorder = tp->snd_nxt;
	} else if (!after(f->disorder, tp->snd_una)) {
		f->disordered = 0;
	}
	if (f->generation == OURS) {
		if (f->ack.marked)
			f->ours.marks = 1;
		if (f->stage == CHIRP_CHIRPING) {
			adaptive_shared(&f->ours, f->ack.acked);
			adaptive_marked(&f->ours, f->ack.marked);
			collect(f);
		}
		found = chirp_after_ack(f);
		if (f->stage == CHIRP_RESUMING && f->ours.stage == CHIRP_OVER)
			end(sk, f, CHIRP_OVER);
		if (!found)
			return;
		window = packets_of(found, CHIRP_SMALLEST_WINDOW);
		if (f->ours.stage == CHIRP_TRANSITION) {
			f->stage = CHIRP_TRANSITION;
			f->oldest = f->next;
			f->planned = 0;
			f->window = window;
			return;
		}
		slow = f->ours.stage == CHIRP_SLOW;
	} else {
		if (f->stage != CHIRP_CHIRPING)
			return;
		load_clock(&f->branch, f->ack.now, f->ack.acked);
		if (!collect(f))
			return;
		window = load_end(&f->branch);
		if (!window)
			return;
		slow = f->branch.slow;
	}
	end(sk, f, slow ? CHIRP_SLOW : CHIRP_OVER);
	f->window = window;
	tp->snd_cwnd = window;
	tp->snd_ssthresh = slow ? SSTHRESH_INFINITE : window;
}

/* The kernel grows the window: outside of recovery and of the round trip after a mark. */
SEC("struct_ops")
void BPF_PROG(chirp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	struct window w;

	if (f && is_chirping(f))
		return;
	if (f && private(sk)->policy == CUBIC) {
		char cubic[] = "cubic";

		/* Where the kernel has none it stays DCTCP's. */
		if (!bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, cubic, sizeof(cubic)))
			return;
	}
	w = window_of(sk);
	if (may_grow(sk, &w)) {
		reno_grow(&w, acked);
		set_window(sk, &w);
	}
	if (f)
		f->window = tp->snd_cwnd;
}

/* A mark, a loss or the timer asks for a smaller window: as after marks, since which of them it is follows. */
SEC("struct_ops")
__u32 BPF_PROG(chirp_ssthresh, struct sock *sk)
{
	__u32 window = tcp_sk(sk)->snd_cwnd;
	struct flow *f = flow_of(sk);

	/* What the load vouches for. The window itself is one packet more than is in flight. */
	if (f && f->stage == CHIRP_CHIRPING)
		window = f->generation == OURS ? packets_of(f->ours.load, WINDOW_MIN) : load_found(&f->branch);
	else if (f && f->stage == CHIRP_TRANSITION)
		window = f->window;
	return dctcp_ssthresh(&private(sk)->dctcp, window);
}

/* It was a loss: half of the window that ssthresh() has just seen (RFC 8257, section 3.5). Chirping is over. */
static __always_inline void lose(struct sock *sk)
{
	struct dctcp *d = &private(sk)->dctcp;
	struct flow *f = flow_of(sk);

	tcp_sk(sk)->snd_ssthresh = dctcp_ssthresh_after_loss(d, d->loss_cwnd);
	if (f && is_chirping(f)) {
		f->lost = f->stage;
		end(sk, f, CHIRP_OVER);
	}
}

SEC("struct_ops")
void BPF_PROG(chirp_set_state, struct sock *sk, __u8 state)
{
	struct flow *f = flow_of(sk);

	if (state == TCP_CA_RECOVERY && BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state) != TCP_CA_RECOVERY)
		lose(sk);
	/* Marks do not end it. */
	else if (state == TCP_CA_CWR && f && is_chirping(f))
		tcp_sk(sk)->snd_ssthresh = SSTHRESH_INFINITE;
}

/* The last repair was needless. */
SEC("struct_ops")
__u32 BPF_PROG(chirp_undo_cwnd, struct sock *sk)
{
	struct flow *f = flow_of(sk);

	if (f && f->lost != CHIRP_OVER && f->generation == OURS && f->ours.gap)
		go_on(sk, f);
	return larger(tcp_sk(sk)->snd_cwnd, private(sk)->dctcp.loss_cwnd);
}

SEC("struct_ops")
void BPF_PROG(chirp_cwnd_event, struct sock *sk, int event)
{
	if (event == CA_EVENT_LOSS)
		lose(sk);
	else
		dctcp_receive_event(sk, &private(sk)->dctcp, event);
}

static __always_inline void init(struct sock *sk, enum generation generation, enum policy policy)
{
	const struct dctcp_counts counts = dctcp_counts_of(sk);
	struct state *s = private(sk);

	s->generation = generation;
	s->policy = policy;
	s->begun = 0;
	/* Alpha is measured from the first packet on. */
	dctcp_reset(&s->dctcp, &counts, 0, tcp_sk(sk)->rcv_nxt);
	bpf_sk_storage_delete(&chirp_flows, sk);
}

SEC("struct_ops")
void BPF_PROG(chirp_init, struct sock *sk)
{
	init(sk, OURS, DCTCP);
}

SEC("struct_ops")
void BPF_PROG(chirp_branch_init, struct sock *sk)
{
	init(sk, BRANCH, DCTCP);
}

SEC("struct_ops")
void BPF_PROG(chirp_cubic_init, struct sock *sk)
{
	init(sk, OURS, CUBIC);
}

/* The connection ends, or another controller follows, which begins with no less than an initial window. */
SEC("struct_ops")
void BPF_PROG(chirp_release, struct sock *sk)
{
	struct flow *f = flow_of(sk);

	if (f && is_chirping(f)) {
		end(sk, f, CHIRP_OVER);
		tcp_sk(sk)->snd_cwnd = larger(packets_in_flight(tcp_sk(sk)), CHIRP_INITIAL);
	}
	bpf_sk_storage_delete(&chirp_flows, sk);
}

#define CHIRP_OPS(its_name, its_init)                          \
	SEC(".struct_ops.link")                                \
	struct tcp_congestion_ops its_name = {                 \
		.ssthresh = (void *)chirp_ssthresh,            \
		.cong_avoid = (void *)chirp_cong_avoid,        \
		.set_state = (void *)chirp_set_state,          \
		.cwnd_event = (void *)chirp_cwnd_event,        \
		.pkts_acked = (void *)chirp_pkts_acked,        \
		.min_tso_segs = (void *)chirp_min_tso_segs,    \
		.undo_cwnd = (void *)chirp_undo_cwnd,          \
		.init = (void *)its_init,                      \
		.release = (void *)chirp_release,              \
		.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN, \
		.name = #its_name,                             \
	}

CHIRP_OPS(pl_chirp, chirp_init);
CHIRP_OPS(pl_chirp_r, chirp_branch_init);
CHIRP_OPS(pl_chirp_cubic, chirp_cubic_init);
