/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* DCTCP's two halves of a socket whose state of it is `d` (dctcp.h). */
#ifndef PACELINE_DCTCP_SOCKET_H
#define PACELINE_DCTCP_SOCKET_H

#include "socket.h"

#include "dctcp.h"

static __always_inline struct dctcp_counts dctcp_counts_of(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct dctcp_counts){
		.snd_una = tp->snd_una,
		.snd_nxt = tp->snd_nxt,
		.delivered = tp->delivered,
		.delivered_ce = tp->delivered_ce,
	};
}

/* Acknowledgements carry the mark, or do not. */
static __always_inline void dctcp_echo_marks(struct sock *sk, __u32 ce)
{
	if (ce)
		tcp_sk(sk)->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tcp_sk(sk)->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* The receiver's half, at events of the window. */
static __always_inline void dctcp_receive_event(struct sock *sk, struct dctcp *d, int event)
{
	const int ce = event == CA_EVENT_ECN_IS_CE, delayed = inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER;
	struct dctcp_echo echo;

	if (event != CA_EVENT_ECN_IS_CE && event != CA_EVENT_ECN_NO_CE)
		return;
	echo = dctcp_receive(d, ce, tcp_sk(sk)->rcv_nxt, delayed);
	if (echo.acknowledge_before) {
		dctcp_echo_marks(sk, echo.ce_before);
		bpf_tcp_send_ack(tcp_sk(sk), echo.up_to);
	}
	if (echo.acknowledge_now)
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	dctcp_echo_marks(sk, ce);
}

#endif
