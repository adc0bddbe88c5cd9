// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Answers requests for one unit out of the kernel's memory, at the interface where they come in, before the kernel makes a packet of
 * them (native XDP). What it does not answer goes on to the router's socket; of a router's answers these differ by the time waited: 0.
 *
 * In this order: the form (request.h), the unit (memory.h), the token (token.h), room for the answer, the source's and the link's share
 * (limits.h), the answer (heads.h). Nothing is charged that the router will charge again. Messages are those of docs/design/icn-wire.md.
 */
#include "heads.h"
#include "limits.h"
#include "memory.h"
#include "request.h"
#include "token.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* core/icn: DATA_HEAD, NACK_BYTES; MissingReason. */
#define DATA_HEAD 30
#define NACK 26
#define BUSY 3

/* Requests with tokens that prove nothing that the router sees: 20,000 a second (our choice: some 5 % of its processor), 100 ms of it at once. */
#define BAD_COST 50000
#define BAD_ROOM 100000000

/* What an answer begins with, whatever it is. */
struct answering {
	/* As in packets. */
	__u64 nonce, unit;
	__u32 app;
	bool ipv6;
};

/* The unit that a request is for, and the slab that has it. */
INLINE struct unit *find_unit(void *request, __u64 unit, struct slab **slab)
{
	struct part part;
	__u32 index;

	part.words[0] = AT(wide, request, 10);
	part.words[1] = AT(wide, request, 18);
	part.words[2] = AT(wide, request, 26);
	part.words[3] = AT(wide, request, 34);
	part.words[4] = little64((__u64)AT(byte, request, 42) | unit / SLAB << 8);
	*slab = bpf_map_lookup_elem(&parts, &part);
	if (!*slab || unit % SLAB >= (*slab)->units)
		return 0;
	index = (*slab)->index * SLAB + unit % SLAB;
	return bpf_map_lookup_elem(&units, &index);
}

/* The frame, which has room for a unit, becomes a refusal: the sender may ask again after `over` nanoseconds. */
INLINE int answer_busy(struct xdp_md *ctx, const struct answering *to, __u64 over)
{
	__u64 micros = over / 1000 ? over / 1000 : 1, sum;
	__u32 one = bpf_htonl(1), again = bpf_htonl(micros > 0xffffffff ? 0xffffffff : (__u32)micros);
	void *data, *end, *message;

	if (bpf_xdp_adjust_tail(ctx, NACK - DATA_HEAD - UNIT))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	message = data + to->app;
	if (message + NACK > end)
		return XDP_DROP;
	AT(half, message, 0) = bpf_htons(0x1300 | BUSY);
	AT(wide, message, 10) = to->unit;
	AT(word, message, 18) = one;
	AT(word, message, 22) = again;
	sum = add(add((__u64)bpf_htons(0x1300 | BUSY) + one + again, to->nonce), to->unit);
	write_heads(data, to->ipv6, NACK, sum);
	return XDP_TX;
}

/* The frame becomes the unit, whose sum is `sum`. */
INLINE int answer_unit(struct xdp_md *ctx, const struct answering *to, const struct slab *slab, struct unit *held, __u64 sum)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *message = data + to->app;
	__u64 stored = bpf_cpu_to_be64(slab->stored_units);

	if (message + DATA_HEAD + UNIT > end)
		return XDP_DROP;
	AT(half, message, 0) = bpf_htons(0x1200);
	AT(wide, message, 10) = to->unit;
	AT(wide, message, 18) = stored;
	AT(word, message, 26) = 0;
	sum = add(add(add(sum + bpf_htons(0x1200), to->nonce), to->unit), stored);
	write_heads(data, to->ipv6, DATA_HEAD + UNIT, sum);
	return bpf_xdp_store_bytes(ctx, to->app + DATA_HEAD, held->bytes, UNIT) ? XDP_DROP : XDP_TX;
}

SEC("xdp")
int pl_store(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *request;
	__u64 now, since, unit, sum, over = 0;
	struct answering answering;
	struct address destination;
	struct sender from;
	struct settings *set;
	struct counts *count;
	struct slab *slab;
	struct unit *held;
	struct bucket *first;
	enum token token;
	enum taken taken;
	__u32 zero = 0;
	int length, wanted, verdict;

	answering.app = read_heads(data, end, &from, &destination);
	request = data + answering.app;
	if (!answering.app || request + REQUEST > end)
		return XDP_PASS;
	set = bpf_map_lookup_elem(&settings, &zero);
	count = bpf_map_lookup_elem(&counts, &zero);
	first = bpf_map_lookup_elem(&buckets, &zero);
	if (!set || !count || !first || AT(half, request, 2 - UDP) != (__u16)set->port || AT(half, request, 4 - UDP) != bpf_htons(UDP + REQUEST) ||
	    !AT(half, request, -UDP) || AT(word, data, 0) != AT(word, set->link, 0) || AT(half, data, 4) != AT(half, set->link, 4))
		return XDP_PASS;
	if (!asks_for_one_unit(request, &unit) || !bpf_map_lookup_elem(&addresses, &destination) ||
	    !adds_up(data + ETHERNET, request - UDP, from.ipv6))
		return XDP_PASS;

	held = find_unit(request, unit, &slab);
	if (!held) {
		count->missed++;
		return XDP_PASS;
	}
	/* Its memory comes while the MAC is computed. */
	sum = *(volatile __u16 *)&held->sum;

	now = bpf_ktime_get_ns();
	since = now - set->origin;
	from.port = AT(half, request, -UDP);
	token = judge_token(set, request, &from, now);
	if (token == BAD) {
		count->bad_tokens++;
		if (take(&first->tag, since, BAD_COST, since + BAD_ROOM, &over) == TAKEN)
			return XDP_PASS;
		count->dropped++;
		return XDP_DROP;
	}
	if (token == OLD) {
		count->renewals++;
		return XDP_PASS;
	}

	/* Under pressure the router's turns decide: half of what it may send ahead is left to it alone. */
	if (set->link_cost && *(volatile __u64 *)&first->full_at > since + set->link_slack) {
		count->paced++;
		return XDP_PASS;
	}
	answering.nonce = AT(wide, request, 2);
	answering.unit = bpf_cpu_to_be64(unit);
	answering.ipv6 = from.ipv6;
	length = end - data;
	wanted = answering.app + DATA_HEAD + UNIT;
	if (bpf_xdp_adjust_tail(ctx, wanted - length)) {
		count->no_room++;
		return XDP_PASS;
	}
	taken = charge(set, &from, since, &over);
	if (taken == OVER) {
		count->busy++;
		return answer_busy(ctx, &answering, over);
	}
	if (taken == TAKEN && set->link_cost)
		taken = take(&first->full_at, since, set->link_cost, since + set->link_slack + set->link_cost, &over);
	if (taken != TAKEN) {
		count->paced++;
		return bpf_xdp_adjust_tail(ctx, length - wanted) ? XDP_DROP : XDP_PASS;
	}

	verdict = answer_unit(ctx, &answering, slab, held, sum);
	if (verdict == XDP_TX) {
		count->answered++;
		if (since - slab->used > 100000000)
			slab->used = since;
	}
	return verdict;
}
