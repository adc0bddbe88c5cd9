/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's types, with those members only that a TCP controller here uses. The loader finds each by its name in the
 * running kernel (CO-RE), so that order and offsets do not matter.
 *
 * Source: Linux include/net/tcp.h, include/net/inet_connection_sock.h, include/linux/tcp.h, include/net/netns/ipv4.h,
 * include/uapi/linux/tcp.h.
 */
#ifndef PACELINE_TCP_H
#define PACELINE_TCP_H

#include "types.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct tcp_congestion_ops;

struct netns_ipv4 {
	const struct tcp_congestion_ops *tcp_congestion_control;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

struct in6_addr {
	__u8 in6_u[16];
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	possible_net_t skc_net;
	atomic64_t skc_cookie;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

typedef struct {
	__u32 val;
} kuid_t;

struct sock {
	struct sock_common __sk_common;
	kuid_t sk_uid;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
	__u32 sk_gso_max_size;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_setsockopt : 1;
	__u8 icsk_retransmits;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[104 / sizeof(__u64)];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	__u32 end_seq;
};

/* Times ending in _mstamp are in microseconds, in _ns in nanoseconds, _stamp and lsndtime in jiffies; srtt_us is in eighths of a microsecond. */
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 data_segs_out;
	__u32 lsndtime;
	__u32 rcv_nxt;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 high_seq;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 prr_out;
	__u32 max_packets_out;
	__u8 is_cwnd_limited : 1;
	__u32 app_limited;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u8 rate_app_limited : 1;
	__u64 tcp_wstamp_ns;
	__u64 tcp_clock_cache;
	__u64 tcp_mstamp;
	__u32 srtt_us;
	__u32 rttvar_us;
	struct minmax rtt_min;
	__u64 bytes_acked;
	__u64 bytes_sent;
	struct tcp_rack rack;
	__u8 ecn_flags;
};

/* What an acknowledgement delivered, in packets. */
struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

/* The delivery rate, of the packets between two acknowledgements. */
struct rate_sample {
	__u64 prior_mstamp;
	__u32 prior_delivered;
	__u32 prior_delivered_ce;
	__s32 delivered;
	__s32 delivered_ce;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

#pragma clang attribute pop

/*
 * cong_control has two signatures: (sk, rs) before Linux 6.10, (sk, ack, flag, rs) since. A program that takes the socket alone
 * fits both.
 */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 flags;
	char name[16];
};

/* enum tcp_ca_state. */
#define TCP_CA_OPEN 0
#define TCP_CA_DISORDER 1
#define TCP_CA_CWR 2
#define TCP_CA_RECOVERY 3
/* Timed out, everything in flight counts as lost. */
#define TCP_CA_LOSS 4
/* enum tcp_ca_event, of cwnd_event. */
#define CA_EVENT_TX_START 0
#define CA_EVENT_CWND_RESTART 1
#define CA_EVENT_COMPLETE_CWR 2
#define CA_EVENT_LOSS 3
#define CA_EVENT_ECN_NO_CE 4
#define CA_EVENT_ECN_IS_CE 5
/* enum tcp_ca_ack_event_flags, of in_ack_event. */
#define CA_ACK_SLOWPATH 1
#define CA_ACK_WIN_UPDATE 2
#define CA_ACK_ECE 4
/* enum sk_pacing: TCP spreads what it sends by a timer of its own, or nothing does (a queueing discipline may be 2). */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
/* An ordinary user's socket may select the controller. */
#define TCP_CONG_NON_RESTRICTED 1
/* It wants ECN, and the receiver's half of it. */
#define TCP_CONG_NEEDS_ECN 2
#define TCP_ECN_OK 1
/* Acknowledgements echo a mark. */
#define TCP_ECN_DEMAND_CWR 4
/* Accurate ECN was agreed on instead (Linux 6.18). */
#define TCP_ECN_MODE_ACCECN 16
/* enum inet_csk_ack_state_t: an acknowledgement is being delayed, one is to leave at once. */
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
#define SOL_TCP 6
#define TCP_CONGESTION 13

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* Packets on their way. Linux tcp_packets_in_flight. */
static __always_inline __u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* The private area is for one program: `struct STATE` must fit into the socket. */
#define PRIVATE_STATE(type)                                                                      \
	_Static_assert(sizeof(type) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), \
		       "private state fits into the socket");                                    \
	static __always_inline type *private(struct sock *sk)                                    \
	{                                                                                        \
		return (type *)inet_csk(sk)->icsk_ca_priv;                                       \
	}

#endif
