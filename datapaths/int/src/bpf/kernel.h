/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's types, with those members only that a program here uses. Of the kernel's own the loader finds each by its name in
 * the running kernel (CO-RE), so that order and offsets do not matter; the context has fixed places.
 *
 * Source: Linux include/uapi/linux/bpf.h, include/linux/skbuff.h, include/linux/netdevice.h, include/net/sch_generic.h,
 * include/linux/tcp.h.
 */
#ifndef PACELINE_INT_KERNEL_H
#define PACELINE_INT_KERNEL_H

#include "../../../kernel/src/bpf/layout.h"
#include "../../../kernel/src/bpf/types.h"

enum { BPF_ADJ_ROOM_NET = 0, BPF_F_ADJ_ROOM_FIXED_GSO = 1, BPF_F_ADJ_ROOM_NO_CSUM_RESET = 1 << 5 };
enum { BPF_F_RECOMPUTE_CSUM = 1 };
enum { BPF_F_CURRENT_NETNS = -1 };
enum { BPF_FIB_LKUP_RET_SUCCESS = 0, BPF_FIB_LKUP_RET_NO_NEIGH = 7 };
/* What a program answers whose packet goes on to the next one, by tcx link (TCX_NEXT) and as a filter (TC_ACT_UNSPEC). */
#define GO_ON -1

#define ETH_P_IPV6 0x86dd
#define ETH_P_IP 0x0800
#define AF_INET6 10
#define IPPROTO_HOPOPTS 0
#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_AH 51
#define IPPROTO_ICMPV6 58
#define IPPROTO_DSTOPTS 60
#define IPPROTO_MH 135

/* Of a socket that was looked up. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__u32 dst_port;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
};

struct bpf_fib_lookup {
	__u8 family;
	__u8 l4_protocol;
	__be16 sport;
	__be16 dport;
	__u16 tot_len;
	__u32 ifindex;
	__be32 flowinfo;
	__be32 src[4];
	__be32 dst[4];
	__u32 link[4];
};

/* The part for IPv6, as packets that arrive have it. */
struct bpf_sock_tuple {
	__be32 saddr[4];
	__be32 daddr[4];
	__be16 sport;
	__be16 dport;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan[3];
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 socket[12];
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	struct bpf_sock *sk;
	__u32 gso_size;
};

struct ipv6hdr {
	__be32 first;
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	__be32 saddr[4];
	__be32 daddr[4];
};

struct iphdr {
	__u8 version_and_words;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__be32 saddr;
	__be32 daddr;
};

struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u8 words;
	__u8 flags;
	__be16 window;
	__u16 check;
	__be16 urg_ptr;
};

struct udphdr {
	__be16 source;
	__be16 dest;
	__be16 length;
	__u16 check;
};

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
/* include/net/tcp_states.h. */
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_LISTEN 10

/* RFC 4443 section 3.2: a packet is too big; the packet, or what fits of it, is behind this. */
struct icmp6hdr {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__be32 mtu;
};
#define ICMPV6_PKT_TOOBIG 2
#define IPV6_MIN_MTU 1280

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
};

struct Qdisc {
	unsigned int flags;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	struct netdev_queue *_tx;
	struct Qdisc *qdisc;
	unsigned int real_num_tx_queues;
	unsigned int mtu;
};

struct sk_buff {
	struct net_device *dev;
};

struct tcp_sock {
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 max_window;
	__u32 rcv_wup;
	__u32 rcv_wnd;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 srtt_us;
};

#pragma clang attribute pop

/* include/net/sch_generic.h: its counters are one for each processor. */
#define TCQ_F_CPUSTATS 0x20

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

static __always_inline struct sk_buff *kernel_view(struct __sk_buff *skb)
{
	return bpf_cast_to_kern_ctx(skb);
}

/* The compiler knows nothing of the value any more, and so leaves in a comparison that the verifier needs. */
#define HIDE(value) asm volatile("" : "+r"(value))

/*
 * Where the packet's octets begin and end. Not by the members themselves: a compiler may copy their 32 bits in a way that makes them
 * mere numbers to the verifier.
 */
static __always_inline void *packet_data(struct __sk_buff *skb)
{
	void *data;

	asm volatile("%0 = *(u32 *)(%1 + %2)" : "=r"(data) : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, data)));
	return data;
}

static __always_inline void *packet_end(struct __sk_buff *skb)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)" : "=r"(end) : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, data_end)));
	return end;
}

/*
 * The connection of this host that a packet with these ends would arrive at; it must be released. What listens, or has not yet heard of
 * its peer, is not one.
 */
static __always_inline struct bpf_sock *connection(struct __sk_buff *skb, struct bpf_sock_tuple *ends)
{
	struct bpf_sock *found = bpf_skc_lookup_tcp(skb, ends, sizeof(*ends), BPF_F_CURRENT_NETNS, 0);

	if (!found)
		return 0;
	if (found->state != TCP_LISTEN && found->state != TCP_SYN_SENT && found->state != TCP_CLOSE)
		return found;
	bpf_sk_release(found);
	return 0;
}

/* The two ends of a flow, as its packets have them. */
struct pl_tuple {
	__be32 source[4];
	__be32 destination[4];
	__be16 source_port;
	__be16 destination_port;
};

/* Counters of a role, one row for each of its names, in their order. */
#define COUNTERS(number)                                    \
	struct {                                            \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);    \
		__uint(max_entries, number);                \
		__type(key, __u32);                         \
		__type(value, __u64);                       \
	} counters SEC(".maps");                            \
	static __always_inline void count(__u32 which, __u64 by) \
	{                                                   \
		__u64 *of = bpf_map_lookup_elem(&counters, &which); \
								    \
		if (of)                                     \
			*of += by;                          \
	}

/* Packets on the wire that a buffer stands for: as the kernel has counted, which what changes a header leaves to be done again. */
static __always_inline __u32 wire_packets(struct __sk_buff *skb, __u32 headers)
{
	__u32 size = skb->gso_size, counted = skb->gso_segs;

	if (!size || skb->len <= headers)
		return 1;
	return counted ? counted : (skb->len - headers + size - 1) / size;
}

#endif
