/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's types, with those members only that a TCP controller here uses. The loader finds each by its name in the
 * running kernel (CO-RE), so that order and offsets do not matter.
 *
 * Source: Linux include/net/tcp.h, include/net/inet_connection_sock.h, include/linux/tcp.h, include/net/netns/ipv4.h.
 */
#ifndef PACELINE_TCP_H
#define PACELINE_TCP_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* What libbpf's headers name and nothing here uses. */
enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };
enum { BPF_F_CURRENT_CPU = 0xffffffff };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct tcp_congestion_ops;

struct netns_ipv4 {
	const struct tcp_congestion_ops *tcp_congestion_control;
};

struct net {
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u64 icsk_ca_priv[104 / sizeof(__u64)];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 delivered;
	__u32 srtt_us;
};

#pragma clang attribute pop

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_control)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 flags;
	char name[16];
};

/* enum tcp_ca_state: timed out, everything in flight counts as lost. */
#define TCP_CA_LOSS 4
/* enum sk_pacing: TCP spreads what it sends by a timer of its own, or nothing does (a queueing discipline may be 2). */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
/* An ordinary user's socket may select the controller. */
#define TCP_CONG_NON_RESTRICTED 1
#define SOL_TCP 6
#define TCP_CONGESTION 13

#endif
