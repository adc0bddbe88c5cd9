// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The source: puts a header of telemetry behind the IPv6 header of what the host sends by TCP, and by UDP where it is asked for, with
 * room for the hops and with the flow's sequence, time and congestion window; and lowers the segment size that peers announce, so that
 * there is room (segment.h). Datagrams are as long as their sender made them: what has no room goes without.
 *
 * Source: docs/design/telemetry-wire.md for the format; Linux net/core/filter.c (bpf_skb_adjust_room: it knows no MTU, and with
 * BPF_F_ADJ_ROOM_FIXED_GSO leaves the segments of a buffer as TCP chose them).
 */
#include "kernel.h"
#include "meter.h"
#include "segment.h"
#include "source.h"
#include "wire.h"
#include "word.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* A path that carried headers this long ago may carry them no more (our choice, as MTU_EXPIRES_NS). */
#define HEARD_NS 600000000000ULL
/* A flow asks no earlier than this long after its first data (our choice: agents look for flows every 100 ms, and a loss in slow start
 * costs most). */
#define ASK_AFTER_NS 300000000ULL
/* A pause is twice as long as the one before so often (our choice: 30 s become 8 min, and 1 s where a report has come before 16 s). */
#define DOUBLINGS 4
/* Each time that this many buffers were spared the first header may be on one packet more (our choice: a buffer's packets are lost together,
 * and a fast flow has hardly one of a single packet). */
#define SPARED 32

/* User space may stop and start it. */
volatile struct {
	__u32 stopped;
} control SEC(".data.control") = {};

/* Whether it is TCP, or UDP that is asked for, right behind an IPv6 header; if not, counts what it is. */
static __always_inline int is_ours(struct __sk_buff *skb, struct packet *packet)
{
	if (skb->protocol != bpf_htons(ETH_P_IPV6)) {
		count(NOT_IPV6, 1);
		return 0;
	}
	if (!headers_of(skb, packet)) {
		/* Too short for TCP and for a datagram that is asked about, or not in one piece. */
		if (skb->len < config.l2 + sizeof(struct ipv6hdr) + sizeof(struct tcphdr) ||
		    bpf_skb_pull_data(skb, config.l2 + sizeof(struct ipv6hdr) + sizeof(struct tcphdr)) ||
		    !headers_of(skb, packet)) {
			count(OTHER_PROTOCOL, 1);
			return 0;
		}
	}
	switch (packet->ip->nexthdr) {
	case IPPROTO_TCP:
		return 1;
	case IPPROTO_UDP:
		if (config.udp)
			return 1;
		count(OTHER_PROTOCOL, 1);
		return 0;
	case IPPROTO_FRAGMENT:
		count(FRAGMENTS, 1);
		return 0;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_AH:
	case IPPROTO_DSTOPTS:
	case IPPROTO_MH:
		/* An extension header's first octet is what follows it. The kernel's own are of multicast. */
		count(*(__u8 *)packet->tcp == IPPROTO_ICMPV6 ? OTHER_PROTOCOL : FOREIGN_HEADER, 1);
		return 0;
	default:
		count(OTHER_PROTOCOL, 1);
		return 0;
	}
}

/* What a buffer is, and where it goes. */
struct leaving {
	const struct pl_tuple *tuple;
	__u64 now;
	__u32 packets;
	/* Packets that have left and are not acknowledged. */
	__u32 outstanding;
	/* It left before; and something has been lost that may still be missing. */
	__u32 again;
	__u32 losing;
};

/* Whether a report of the flow came at that time or later. */
static __always_inline int has_report(const struct leaving *leaving, __u64 since)
{
	__u64 *reported = bpf_map_lookup_elem(&pl_int_reports, leaving->tuple);

	return reported && *reported >= since;
}

static __always_inline int waits_from(struct flow *flow, __u32 state, __u64 now)
{
	flow->state = state;
	flow->waiting_ns = now;
	flow->waiting_headers = flow->headers;
	return 1;
}

/* When a report of any flow to the same address came last, if that is not long ago; else 0. */
static __always_inline __u64 heard_at(const struct leaving *leaving)
{
	__u64 *heard = bpf_map_lookup_elem(&pl_int_heard, leaving->tuple->destination);

	return heard && leaving->now - *heard < HEARD_NS ? *heard : 0;
}

/*
 * No report came: no header of this flow for a while, and none of those that begin to the same address until a header has asked again. That
 * is soon where reports have come before, for their sender may only have stopped for a moment, and the first time: a full queue drops
 * packets too.
 */
static __always_inline int give_up(struct flow *flow, struct path *path, const struct leaving *leaving)
{
	__u64 now = leaving->now, pause = config.patience_ms;
	__u32 doublings = path->silences;

	if (!heard_at(leaving) && path->silences) {
		pause = config.pause_ms;
		doublings--;
	}
	if (doublings > DOUBLINGS)
		doublings = DOUBLINGS;
	pause *= 1000000ULL;
	flow->state = UNTRIED;
	flow->reported = 0;
	flow->paused_until_ns = now + pause;
	path->failed_ns = now;
	/* What several flows find out at the same time counts once. */
	if (now >= path->silent_until_ns) {
		path->silent_until_ns = now + (pause << doublings);
		if (path->silences <= DOUBLINGS)
			path->silences++;
	}
	count(PAUSES, 1);
	return 0;
}

/* Whether a buffer may ask whether headers arrive: it is lost whole where they do not. */
static __always_inline int is_small(const struct flow *flow, const struct leaving *leaving)
{
	return leaving->packets <= 1 + flow->spared / SPARED;
}

/* Whether a flow of which nothing is known may have a header. */
static __always_inline int may_begin(struct flow *flow, struct path *path, const struct leaving *leaving)
{
	__u64 now = leaving->now;

	if (leaving->again)
		return 0;
	if (heard_at(leaving) > path->failed_ns) {
		path->asked_ns = 0;
		path->silences = 0;
		return waits_from(flow, OPEN, now);
	}
	if (now < path->silent_until_ns)
		return 0;
	if (path->asked_ns > path->failed_ns)
		return now - path->asked_ns < config.patience_ms * 1000000ULL ? 0 : give_up(flow, path, leaving);
	if (now - flow->begun_ns < ASK_AFTER_NS)
		return 0;
	/* What is alone would be missed by TCP's timer only; and a full queue says nothing of headers. */
	if (!leaving->outstanding || leaving->losing || !is_small(flow, leaving)) {
		flow->spared++;
		return 0;
	}
	path->asked_ns = now;
	return waits_from(flow, ASKING, now);
}

/* Whether a flow that has headers may have another: 1, 0; -1: it is to be given up. */
static __always_inline int goes_on(struct flow *flow, const struct leaving *leaving)
{
	__u64 now = leaving->now, patience = config.patience_ms * 1000000ULL;

	/* A quarter, so that few packets ask. */
	if (leaving->again) {
		if (has_report(leaving, now - patience / 4))
			return 1;
		waits_from(flow, ASKING, now);
		return 0;
	}
	/* Nothing is outstanding: what came before has arrived, and is no longer waited for. */
	if (flow->reported && !leaving->outstanding)
		return waits_from(flow, OPEN, now);
	if (now - flow->waiting_ns < patience / 4)
		return 1;
	if (has_report(leaving, flow->waiting_ns)) {
		flow->reported = 1;
		return waits_from(flow, OPEN, now);
	}
	/* Fewer may all be lost on a radio, while the flow waits for its timeouts. */
	return now - flow->waiting_ns < patience || flow->headers - flow->waiting_headers < UNANSWERED ? 1 : -1;
}

/* Whether there may be a header, as reports come or do not: never worse than without, on a path that drops packets with one. */
static __always_inline int may_insert(struct flow *flow, const struct leaving *leaving)
{
	__u64 now = leaving->now, patience = config.patience_ms * 1000000ULL;
	struct path *path;
	int answer;

	if (flow->paused_until_ns) {
		if (now < flow->paused_until_ns)
			return 0;
		flow->paused_until_ns = 0;
	}
	if (flow->state == OPEN) {
		answer = goes_on(flow, leaving);
		if (answer >= 0)
			return answer;
	}
	path = path_of(leaving->tuple);
	if (!path)
		return 0;
	switch (flow->state) {
	case OPEN:
		return give_up(flow, path, leaving);
	case ASKING:
		if (has_report(leaving, flow->waiting_ns)) {
			flow->reported = 1;
			path->silences = 0;
			waits_from(flow, OPEN, now);
			return !leaving->again;
		}
		if (now - flow->waiting_ns < patience || leaving->again)
			return 0;
		if (!flow->reported)
			return give_up(flow, path, leaving);
		/* The flow's reports have come before, and may have been lost: one packet more asks. */
		if (!is_small(flow, leaving)) {
			flow->spared++;
			return 0;
		}
		flow->reported = 0;
		return waits_from(flow, ASKING, now);
	default:
		return may_begin(flow, path, leaving);
	}
}

/*
 * Writes a header into the room that was made for it, and into the IPv6 header that there is one. All of it is in one piece: so was what
 * is in front of the room and behind it.
 */
static __always_inline int write_header(struct __sk_buff *skb, int full, struct flow *flow, const struct tcp_sock *tp,
					const struct leaving *leaving, __u32 payload)
{
	const volatile struct template *of = full ? &config.full : &config.usual;
	__u32 octets = of->octets, edge_size = full ? EDGE_LONG : EDGE_SHORT, segments = leaving->packets;
	__u32 flags = (tp ? EDGE_TCP : 0) | (segments > 1 ? EDGE_SEGMENTS : 0) | (config.sampled ? EDGE_SAMPLED : 0);
	__u64 now = config.tai ? bpf_ktime_get_tai_ns() : leaving->now;
	void *end = packet_end(skb);
	struct ipv6hdr *ip = packet_data(skb) + config.l2;
	__be32 *header = (void *)(ip + 1), *edge;

	if ((void *)header + octets > end)
		return 0;
	ip->payload_len = bpf_htons(payload + octets);
	ip->nexthdr = IPPROTO_HOPOPTS;
	for (int word = 0; word < 4; word++)
		header[word] = of->trace[word];
	/* The template is of TCP. */
	*(__u8 *)header = flow->protocol;
	/* By headers, and not by the packets' numbers: buffers of as many packets as there are signals would ask for one alone. */
	if (of->word)
		header[4] = bpf_htonl(flow->headers % SIGNALS << 24 | NOTHING);
	edge = (void *)header + of->edge_at;
	edge[0] = of->edge | bpf_htonl(flags << 8 | segments);
	edge[1] = bpf_htonl(__sync_fetch_and_add(&flow->sequence, segments));
	edge[2] = bpf_htonl((__u32)(now / 1000));
	edge[3] = bpf_htonl(tp ? tp->snd_cwnd : UNKNOWN32);
	if (full) {
		__u32 ssthresh = 0xffff, srtt = 0xffff;
		const struct pl_tuple *tuple = leaving->tuple;
		__u64 number = 0;

		for (int word = 0; word < 4; word++)
			number = mixed(number, bpf_ntohl(tuple->source[word]) | (__u64)bpf_ntohl(tuple->destination[word]) << 32);
		number = mixed(number, bpf_ntohs(tuple->source_port) | (__u32)bpf_ntohs(tuple->destination_port) << 16);
		if (tp) {
			ssthresh = tp->snd_ssthresh < 0xffff ? tp->snd_ssthresh : 0xffff;
			/* The kernel has eighths of a microsecond. */
			srtt = tp->srtt_us >> 9 < 0xffff ? tp->srtt_us >> 9 : 0xffff;
		}
		edge[4] = bpf_htonl(number >> 32);
		edge[5] = bpf_htonl(ssthresh << 16 | srtt);
	}
	if (of->edge_at + edge_size < octets)
		edge[edge_size / 4] = of->padding;
	return 1;
}

static __always_inline struct flow *new_flow(struct __sk_buff *skb, const struct pl_tuple *tuple, __u32 protocol, __u32 sequence,
					     __u64 now)
{
	struct path *path = bpf_map_lookup_elem(&paths, tuple->destination);
	struct flow fresh = {};

	if (path) {
		fresh.mtu = path->mtu;
		fresh.mtu_ns = path->at_ns;
	}
	fresh.cookie = bpf_get_socket_cookie(skb);
	fresh.next = sequence;
	fresh.begun_ns = now;
	fresh.protocol = protocol;
	bpf_map_update_elem(&pl_int_flows, tuple, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&pl_int_flows, tuple);
}

/* What goes without a header, and is counted so. */
static __always_inline int without(struct flow *flow, __u32 which, __u32 packets)
{
	if (config.sampled && flow->headers)
		__sync_fetch_and_add(&flow->sequence, packets);
	count(which, packets);
	return GO_ON;
}

SEC("tcx/egress")
int pl_int_source(struct __sk_buff *skb)
{
	__u32 headers, packets, payload, longest, mtu, sequence = 0, end, octets, protocol;
	struct leaving leaving = {};
	struct pl_tuple tuple = {};
	const struct tcp_sock *tp;
	struct packet packet;
	struct flow *flow;
	int full;

	if (control.stopped || !is_ours(skb, &packet))
		return GO_ON;
	if (!is_selected(&packet) || (config.by_cgroup && bpf_skb_under_cgroup(skb, &cgroups, 0) != 1)) {
		count(NOT_SELECTED, 1);
		return GO_ON;
	}
	copy_address(tuple.source, packet.ip->saddr);
	copy_address(tuple.destination, packet.ip->daddr);
	tuple.source_port = packet.tcp->source;
	tuple.destination_port = packet.tcp->dest;
	protocol = packet.ip->nexthdr;
	headers = sizeof(struct ipv6hdr) + sizeof(struct udphdr);
	if (protocol == IPPROTO_TCP) {
		if (packet.tcp->flags & (TCP_SYN | TCP_RST)) {
			/* What had these ends before is over. */
			bpf_map_delete_elem(&pl_int_flows, &tuple);
			bpf_map_delete_elem(&pl_int_reports, &tuple);
			return GO_ON;
		}
		if (packet.tcp->flags & TCP_FIN) {
			flow = bpf_map_lookup_elem(&pl_int_flows, &tuple);
			if (flow)
				flow->ended = 1;
		}
		headers = sizeof(struct ipv6hdr) + (packet.tcp->words >> 4) * 4;
		sequence = bpf_ntohl(packet.tcp->seq);
	}
	payload = bpf_ntohs(packet.ip->payload_len);
	/* Acknowledgements without data stay as they are: they are not what a controller decides about. */
	if (skb->len <= config.l2 + headers)
		return GO_ON;
	leaving.now = bpf_ktime_get_ns();
	flow = bpf_map_lookup_elem(&pl_int_flows, &tuple);
	if (!flow)
		flow = new_flow(skb, &tuple, protocol, sequence, leaving.now);
	if (!flow) {
		count(FAILED, 1);
		return GO_ON;
	}
	/* Reports know flows by their ends alone: of a TCP's and a UDP's with the same, the first has headers. */
	if (flow->protocol != protocol) {
		count(NOT_SELECTED, 1);
		return GO_ON;
	}
	if (protocol == IPPROTO_TCP) {
		end = sequence + (skb->len - config.l2 - headers);
		leaving.again = (__s32)(sequence - flow->next) < 0;
		if ((__s32)(end - flow->next) > 0)
			flow->next = end;
	}
	flow->seen_ns = leaving.now;
	flow->seen++;
	packets = wire_packets(skb, config.l2 + headers);
	if (packets > 255)
		packets = 255;
	if ((config.one_in > 1 && (flow->seen - 1) % config.one_in) ||
	    (config.every_us && leaving.now - flow->last_ns < config.every_us * 1000ULL))
		return without(flow, SAMPLED_OUT, packets);
	tp = skb->sk ? bpf_skc_to_tcp_sock(skb->sk) : 0;

	/* A packet on the wire as it is now, and the MTU of the interface or of the path, whichever is smaller. */
	longest = skb->gso_size ? headers + skb->gso_size : skb->len - config.l2;
	mtu = kernel_view(skb)->dev->mtu;
	if (is_fresh(flow->mtu, flow->mtu_ns, leaving.now) && flow->mtu < mtu)
		mtu = flow->mtu;
	if (longest + config.usual.octets > mtu || payload + config.usual.octets > 0xffff)
		return without(flow, TOO_BIG, packets);
	full = config.full_every && !flow->until_full && longest + config.full.octets <= mtu && payload + config.full.octets <= 0xffff;
	leaving.tuple = &tuple;
	leaving.packets = packets;
	/* Of UDP, and of a flow that only passes here, nothing is known but that it had data before. */
	leaving.outstanding = tp ? tp->packets_out : flow->seen - 1;
	leaving.losing = tp && (tp->sacked_out || tp->lost_out);
	if (config.patience_ms && !may_insert(flow, &leaving))
		return without(flow, PAUSED, packets);
	octets = full ? config.full.octets : config.usual.octets;
	if (bpf_skb_adjust_room(skb, octets, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return without(flow, FAILED, packets);
	flow->last_ns = leaving.now;
	flow->headers++;
	if (full)
		flow->until_full = config.full_every;
	if (flow->until_full)
		flow->until_full--;
	if (!write_header(skb, full, flow, tp, &leaving, payload))
		count(FAILED, packets);
	count(INSERTED, 1);
	count(PACKETS, packets);
	if (full)
		count(FULL, packets);
	return GO_ON;
}
