// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * "Open window": a TCP controller that does not control. Its window is large and constant; losses are found and repaired
 * as always (RACK, SACK, the retransmission timer), and cost no window. Made for connections whose application decides
 * itself how much is in flight (ALCC, section 7: TCP's window must stay above the application's, and a TCP that halves it
 * at each loss does not).
 *
 * Source: struct tcp_congestion_ops of Linux include/net/tcp.h; the shape of tools/testing/selftests/bpf/progs/bpf_dctcp.c.
 *
 * - Because there is `cong_control`, the kernel neither reduces the window while it repairs losses nor restarts it after
 *   an idle time. It does not set the pacing rate either: that is SO_MAX_PACING_RATE, or none.
 * - A socket may ask for a window of its own, in SO_MAX_PACING_RATE (open_window.h): then that many packets, and no pacing
 *   by timers but where the receiver joins packets.
 * - After a timeout the window grows back as in slow start (open_window.h).
 * - Safe only below something that limits the flight. So it refuses to be a default: a socket that gets it because it is
 *   its namespace's net.ipv4.tcp_congestion_control is given Reno, which every kernel has.
 * - It has no slow start, and no use for a threshold: snd_ssthresh, which TCP_INFO shows, is the smallest RTT of late
 *   (open_window.h).
 * - A socket that leaves it for another controller keeps no open window.
 */
#include "tcp.h"

#include <bpf/bpf_core_read.h>

#include "open_window.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct open {
	/* tcp_sock.delivered at the acknowledgement before. */
	__u32 delivered;
	struct smallest smallest;
	/* Microseconds of tcp_sock.tcp_mstamp. */
	__u64 paced_until;
};

PRIVATE_STATE(struct open)

static __always_inline __u32 open_window_of(struct sock *sk)
{
	return open_window(tcp_sk(sk)->mss_cache, tcp_sk(sk)->snd_cwnd_clamp);
}

/* What the socket asks for by SO_MAX_PACING_RATE: a window, or a rate. */
static __always_inline __u32 asked_window_of(struct sock *sk)
{
	return asked_window(sk->sk_max_pacing_rate, tcp_sk(sk)->mss_cache, open_window_of(sk));
}

static __always_inline void set_pacing(struct sock *sk)
{
	__u64 rate = sk->sk_max_pacing_rate, bursts;
	int paced;

	if (asks_for_window(rate)) {
		paced = tcp_sk(sk)->tcp_mstamp < private(sk)->paced_until;
		bursts = rate_of_window(asked_window_of(sk), tcp_sk(sk)->mss_cache, tcp_sk(sk)->srtt_us,
					paced ? PACED_PERCENT : BURST_PERCENT);
		rate = bursts ? bursts : rate;
		/* Asking has switched it on; a queueing discipline that paces is left alone. */
		if (sk->sk_pacing_status <= SK_PACING_NEEDED)
			sk->sk_pacing_status = paced ? SK_PACING_NEEDED : SK_PACING_NONE;
	}
	sk->sk_pacing_rate = rate;
}

static __always_inline int is_default(struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ipv4.tcp_congestion_control == inet_csk(sk)->icsk_ca_ops;
}

/* The connection is established, or had another controller before. */
SEC("struct_ops")
void BPF_PROG(open_init, struct sock *sk)
{
	if (is_default(sk)) {
		char fallback[] = "reno";

		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
		return;
	}
	private(sk)->delivered = tcp_sk(sk)->delivered;
	private(sk)->paced_until = 0;
	forget_rtt(&private(sk)->smallest);
	tcp_sk(sk)->snd_ssthresh = UNKNOWN_RTT;
	tcp_sk(sk)->snd_cwnd = asked_window_of(sk);
	set_pacing(sk);
}

/* An acknowledgement has delivered something. */
SEC("struct_ops")
void BPF_PROG(open_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct open *open = private(sk);

	open->paced_until = paced_until(open->paced_until, tp->tcp_mstamp, sample->pkts_acked, tp->srtt_us);
	if (sample->rtt_us > 0)
		note_rtt(&open->smallest, tp->tcp_mstamp,
			 rtt_of_first(sample->rtt_us, sample->pkts_acked, tp->rate_delivered, tp->rate_interval_us,
				      tp->rtt_min.s[0].v),
			 tp->srtt_us);
}

/* An acknowledgement has arrived and the losses that it shows are marked. */
SEC("struct_ops")
void BPF_PROG(open_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 acked = tp->delivered - private(sk)->delivered;
	int timed_out = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state) == TCP_CA_LOSS;

	private(sk)->delivered = tp->delivered;
	tp->snd_cwnd = window_after_ack(timed_out, tp->snd_cwnd, acked, asked_window_of(sk));
	tp->snd_ssthresh = smallest_rtt(&private(sk)->smallest);
	set_pacing(sk);
}

/* Losses were found, or the timer has fired. */
SEC("struct_ops")
__u32 BPF_PROG(open_ssthresh, struct sock *sk)
{
	return smallest_rtt(&private(sk)->smallest);
}

/* The last repair was needless. */
SEC("struct_ops")
__u32 BPF_PROG(open_undo_cwnd, struct sock *sk)
{
	return open_window_of(sk);
}

/* The connection ends, or another controller follows. */
SEC("struct_ops")
void BPF_PROG(open_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = UNKNOWN_RTT;
	tp->snd_cwnd = window_left_behind(tp->snd_cwnd, packets_in_flight(tp));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops paceline_open = {
	.ssthresh = (void *)open_ssthresh,
	.pkts_acked = (void *)open_pkts_acked,
	.cong_control = (void *)open_cong_control,
	.undo_cwnd = (void *)open_undo_cwnd,
	.init = (void *)open_init,
	.release = (void *)open_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "paceline_open",
};
