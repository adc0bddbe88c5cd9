// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Answers requests for one unit out of the kernel's memory, at the interface where they come in, before the kernel makes a packet of
 * them (native XDP). What it does not answer goes on to the router's socket; of a router's answers these differ by the time waited: 0.
 *
 * In this order: the form, the unit, the token, room for the answer, the source's and the link's share, the answer. Nothing is charged that the router
 * will charge again. Messages are those of docs/design/icn-wire.md.
 */
#include "../../../kernel/src/bpf/layout.h"
#include "../../../kernel/src/bpf/types.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual MIT/GPL";

/* Linux include/uapi/linux/bpf.h. */
enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3 };
struct xdp_md {
	__u32 data;
	__u32 data_end;
};

/* core/icn: UNIT, DATA_HEAD, NACK_BYTES; a request for one unit with a token; hops; times of tokens in seconds. */
#define UNIT 1400
#define DATA_HEAD 30
#define NACK 26
#define REQUEST 81
#define MAX_HOPS 8
#define BUSY 3
#define OLDEST 3600
#define AHEAD 300
#define RENEW 1800

/* src/lib.rs. A power of two. */
#define SLAB 64
#define BUCKETS 65536

#define ETHERNET 14
#define IPV4 20
#define IPV6 40
#define UDP 8

/* Requests with tokens that prove nothing that the router sees: 20,000 a second (our choice: some 5 % of its processor), 100 ms of it at once. */
#define BAD_COST 50000
#define BAD_ROOM 100000000

struct unit {
	/* Of its bytes, as checksums of the Internet are added up, in the order of this machine. */
	__u16 sum;
	__u16 unused[3];
	__u8 bytes[UNIT];
};

/* Units in a row: the name (33 bytes), and the number of the first one over SLAB (7 bytes, the lowest first). */
struct part {
	__u64 words[5];
};

struct slab {
	__u32 index;
	/* That it has, all of them whole. */
	__u32 units;
	/* Of the object. */
	__u64 stored_units;
	/* When it was asked for last, by the monotonic clock. */
	__u64 used;
};

struct bucket {
	__u64 full_at;
	__u64 tag;
};

/* src/settings.rs writes it. Times are nanoseconds. */
struct settings {
	/* Of tokens: of an even and an odd hour. */
	__u64 keys[2][2];
	/* Of the buckets' places. */
	__u64 places;
	/* The time since 1970 less the monotonic clock. */
	__u64 unix_offset;
	/* The monotonic clock when the router's was zero. */
	__u64 origin;
	/* What an answer takes out of a bucket, and what that holds: of a source, of a /48. 0: no limit. */
	__u64 cost, room, site_cost, site_room;
	/* The same of the link; what may leave ahead of it. */
	__u64 link_cost, link_slack;
	/* As in packets. */
	__u64 port;
};
PLACE(struct settings, port, 104);

/* src/counters.rs has them in this order. */
struct counts {
	__u64 answered, busy, missed, bad_tokens, dropped, renewals, paced, no_room;
};

struct address {
	__u64 high, low;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLAB);
	__type(key, __u32);
	__type(value, struct unit);
} units SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct part);
	__type(value, struct slab);
} parts SEC(".maps");

/* Addresses of this host that are answered for; those of IPv4 mapped into IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct address);
	__type(value, __u8);
} addresses SEC(".maps");

/* The router's own table (core/icn/src/limiter.rs): the first is the link's, and the one of bad tokens. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 + BUCKETS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

/* Whole words, at places that need not be aligned: compilers read fields of packed structs byte by byte. */
typedef __u8 byte;
typedef __u16 __attribute__((may_alias)) half;
typedef __u32 __attribute__((may_alias)) word;
typedef __u64 __attribute__((may_alias)) wide;
#define AT(type, start, place) (*(type *)((void *)(start) + (place)))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define little16(x) ((__u16)(x))
#define little32(x) ((__u32)(x))
#define little64(x) ((__u64)(x))
#else
#define little16(x) __builtin_bswap16(x)
#define little32(x) __builtin_bswap32(x)
#define little64(x) __builtin_bswap64(x)
#endif

#define INLINE static __always_inline

INLINE __u64 turn(__u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). */
#define SIP_ROUND                      \
	do {                           \
		v0 += v1;              \
		v1 = turn(v1, 13) ^ v0; \
		v0 = turn(v0, 32);     \
		v2 += v3;              \
		v3 = turn(v3, 16) ^ v2; \
		v0 += v3;              \
		v3 = turn(v3, 21) ^ v0; \
		v2 += v1;              \
		v1 = turn(v1, 17) ^ v2; \
		v2 = turn(v2, 32);     \
	} while (0)

#define SIP_BEGIN(k0, k1)                                                                     \
	__u64 v0 = (k0) ^ 0x736f6d6570736575ULL, v1 = (k1) ^ 0x646f72616e646f6dULL,           \
	      v2 = (k0) ^ 0x6c7967656e657261ULL, v3 = (k1) ^ 0x7465646279746573ULL

/* SipHash-2-4 of three words. */
INLINE __u64 mac_of(const __u64 *key, __u64 a, __u64 b, __u64 c)
{
	SIP_BEGIN(key[0], key[1]);

	v3 ^= a;
	SIP_ROUND;
	SIP_ROUND;
	v0 ^= a;
	v3 ^= b;
	SIP_ROUND;
	SIP_ROUND;
	v0 ^= b;
	v3 ^= c;
	SIP_ROUND;
	SIP_ROUND;
	v0 ^= c;
	a = 24ULL << 56;
	v3 ^= a;
	SIP_ROUND;
	SIP_ROUND;
	v0 ^= a;
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* SipHash-1-3 of a word and a byte: CountedAddress::hash. */
INLINE __u64 hash_of(__u64 key, __u64 prefix, __u8 kind)
{
	__u64 last = 9ULL << 56 | kind;
	SIP_BEGIN(key, 0);

	v3 ^= prefix;
	SIP_ROUND;
	v0 ^= prefix;
	v3 ^= last;
	SIP_ROUND;
	v0 ^= last;
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* Limiter::place. */
INLINE struct bucket *bucket_of(__u64 now, __u64 hash)
{
	__u32 one = 1 + (hash & (BUCKETS - 1)), other = 1 + (hash >> 16 & (BUCKETS - 1));
	struct bucket *a = bpf_map_lookup_elem(&buckets, &one), *b = bpf_map_lookup_elem(&buckets, &other);
	__u64 tag = hash | 1;

	if (!a || !b)
		return 0;
	if (a->tag == tag)
		return a;
	if (b->tag == tag)
		return b;
	if (a->full_at <= now) {
		a->tag = tag;
		return a;
	}
	if (b->full_at <= now) {
		b->tag = tag;
		return b;
	}
	return a->full_at > b->full_at ? b : a;
}

enum taken { TAKEN, OVER, LOST };

/* Takes `cost` where that leaves no more than until `most`; else `over` is how long it takes until it does. Others may be faster. */
INLINE enum taken take(__u64 *full_at, __u64 now, __u64 cost, __u64 most, __u64 *over)
{
	int tries;

#pragma unroll
	for (tries = 0; tries < 4; tries++) {
		__u64 had = *(volatile __u64 *)full_at, after = (had > now ? had : now) + cost;

		if (after > most) {
			*over = after - most;
			return OVER;
		}
		if (__sync_val_compare_and_swap(full_at, had, after) == had)
			return TAKEN;
	}
	return LOST;
}

/* The request's sender, as tokens and as limits have it. */
struct sender {
	__u64 high, low, prefix;
	__u16 port;
	bool ipv6;
};

/* Limits::take. */
INLINE enum taken charge(const struct settings *set, const struct sender *from, __u64 now, __u64 *over)
{
	struct bucket *site = 0, *source;
	enum taken taken;

	if (!set->cost)
		return TAKEN;
	if (from->ipv6) {
		site = bucket_of(now, hash_of(set->places, from->prefix >> 16, 7));
		if (!site)
			return LOST;
		taken = take(&site->full_at, now, set->site_cost, now + set->site_room, over);
		if (taken != TAKEN)
			return taken;
	}
	source = bucket_of(now, hash_of(set->places, from->prefix, from->ipv6 ? 6 : 4));
	taken = source ? take(&source->full_at, now, set->cost, now + set->room, over) : LOST;
	if (taken != TAKEN && site)
		__sync_fetch_and_add(&site->full_at, -set->site_cost);
	return taken;
}

INLINE __u64 add(__u64 sum, __u64 x)
{
	return sum + (x & 0xffffffff) + (x >> 32);
}

INLINE __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/*
 * Turns the heads round for `bytes` of UDP's payload, whose sum is `sum`. The socket of a router sends the same: with a TTL of 64, no
 * class, not to be fragmented. `end` is behind them.
 */
INLINE void write_heads(void *data, bool ipv6, __u16 bytes, __u64 sum)
{
	__u64 to = AT(wide, data, 0);
	__u32 from_low = AT(word, data, 6);
	__u16 from_high = AT(half, data, 10), length = bpf_htons(UDP + bytes), check;
	void *ip = data + ETHERNET, *udp;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	AT(word, data, 6) = to;
	AT(half, data, 10) = to >> 32;
#else
	AT(word, data, 6) = to >> 32;
	AT(half, data, 10) = to >> 16;
#endif
	AT(word, data, 0) = from_low;
	AT(half, data, 4) = from_high;
	if (ipv6) {
		__u64 a = AT(wide, ip, 8), b = AT(wide, ip, 16), c = AT(wide, ip, 24), d = AT(wide, ip, 32);

		AT(word, ip, 0) = bpf_htonl(0x60000000);
		AT(half, ip, 4) = length;
		AT(byte, ip, 7) = 64;
		AT(wide, ip, 8) = c;
		AT(wide, ip, 16) = d;
		AT(wide, ip, 24) = a;
		AT(wide, ip, 32) = b;
		sum = add(add(add(add(sum, a), b), c), d);
		udp = ip + IPV6;
	} else {
		__u32 source = AT(word, ip, 12), destination = AT(word, ip, 16), first, second, third;

		first = bpf_htonl(0x45000000 | (IPV4 + UDP + bytes));
		second = bpf_htonl(0x4000);
		third = bpf_htonl(64 << 24 | 17 << 16);
		AT(word, ip, 0) = first;
		AT(word, ip, 4) = second;
		AT(word, ip, 12) = destination;
		AT(word, ip, 16) = source;
		sum += (__u64)source + destination;
		check = ~fold((__u64)first + second + third + source + destination);
		AT(word, ip, 8) = third;
		AT(half, ip, 10) = check;
		udp = ip + IPV4;
	}
	__u16 sport = AT(half, udp, 0), dport = AT(half, udp, 2);

	AT(half, udp, 0) = dport;
	AT(half, udp, 2) = sport;
	AT(half, udp, 4) = length;
	check = ~fold(sum + sport + dport + length + length + bpf_htons(17));
	AT(half, udp, 6) = check ? check : 0xffff;
}

SEC("xdp")
int pl_store(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip = data + ETHERNET, *udp, *request;
	__u64 now, since, nonce, unit, seconds_and_port, over = 0;
	struct address destination;
	struct sender from;
	struct settings *set;
	struct counts *count;
	struct part part;
	struct slab *slab;
	struct unit *held;
	struct bucket *first;
	enum taken taken;
	__u32 zero = 0, app, index, age;
	int length, wanted;

	/* IPv4 without options, IPv6 without extension headers, whole, to one host. A tag of a VLAN is another protocol. */
	if (ip + IPV4 + UDP + REQUEST > end || AT(byte, data, 0) & 1)
		return XDP_PASS;
	if (AT(half, data, 12) == bpf_htons(0x0800)) {
		if (AT(byte, ip, 0) != 0x45 || AT(half, ip, 2) != bpf_htons(IPV4 + UDP + REQUEST) ||
		    AT(half, ip, 6) & bpf_htons(0x3fff) || AT(byte, ip, 9) != 17)
			return XDP_PASS;
		from.ipv6 = false;
		from.high = 0;
		from.low = 0xffff0000ULL | (__u64)little32(AT(word, ip, 12)) << 32;
		from.prefix = bpf_ntohl(AT(word, ip, 12));
		destination.high = 0;
		destination.low = little64(0xffff0000ULL | (__u64)little32(AT(word, ip, 16)) << 32);
		app = ETHERNET + IPV4 + UDP;
	} else if (AT(half, data, 12) == bpf_htons(0x86dd)) {
		if (ip + IPV6 + UDP + REQUEST > end)
			return XDP_PASS;
		if ((AT(byte, ip, 0) & 0xf0) != 0x60 || AT(half, ip, 4) != bpf_htons(UDP + REQUEST) || AT(byte, ip, 6) != 17)
			return XDP_PASS;
		from.ipv6 = true;
		from.high = little64(AT(wide, ip, 8));
		from.low = little64(AT(wide, ip, 16));
		from.prefix = bpf_be64_to_cpu(AT(wide, ip, 8));
		/* Such as IPv4's, mapped. */
		if (!from.prefix)
			return XDP_PASS;
		destination.high = AT(wide, ip, 24);
		destination.low = AT(wide, ip, 32);
		app = ETHERNET + IPV6 + UDP;
	} else {
		return XDP_PASS;
	}
	request = data + app;
	if (request + REQUEST > end)
		return XDP_PASS;
	udp = request - UDP;
	set = bpf_map_lookup_elem(&settings, &zero);
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!set || !count || AT(half, udp, 2) != (__u16)set->port || AT(half, udp, 4) != bpf_htons(UDP + REQUEST))
		return XDP_PASS;
	/* One range of one unit, and a token of version 2 behind it. */
	unit = bpf_be64_to_cpu(AT(wide, request, 44));
	if (AT(byte, request, 0) != 0x11 || AT(byte, request, 1) > MAX_HOPS || AT(byte, request, 43) != 1 ||
	    AT(half, request, 52) != bpf_htons(1) || AT(word, request, 54) != bpf_htonl(0x01001802) || unit >> 48)
		return XDP_PASS;
	if (!bpf_map_lookup_elem(&addresses, &destination))
		return XDP_PASS;

	/* The unit: its memory comes while the MAC is computed. */
	part.words[0] = AT(wide, request, 10);
	part.words[1] = AT(wide, request, 18);
	part.words[2] = AT(wide, request, 26);
	part.words[3] = AT(wide, request, 34);
	part.words[4] = little64((__u64)AT(byte, request, 42) | unit / SLAB << 8);
	slab = bpf_map_lookup_elem(&parts, &part);
	if (!slab || unit % SLAB >= slab->units) {
		count->missed++;
		return XDP_PASS;
	}
	index = slab->index * SLAB + unit % SLAB;
	held = bpf_map_lookup_elem(&units, &index);
	if (!held)
		return XDP_PASS;
	__u64 sum = *(volatile __u16 *)&held->sum;

	/* The token. */
	now = bpf_ktime_get_ns();
	since = now - set->origin;
	age = (__u32)((now + set->unix_offset) / 1000000000) - bpf_ntohl(AT(word, request, 59));
	from.port = AT(half, udp, 0);
	seconds_and_port = (little64(AT(wide, request, 57)) & 0xffffffffffffULL) | (__u64)little16(from.port) << 48;
	first = bpf_map_lookup_elem(&buckets, &zero);
	if (!first)
		return XDP_PASS;
	if ((age > OLDEST && age < -(__u32)AHEAD) || AT(wide, request, 71) || AT(half, request, 79) ||
	    mac_of(set->keys[AT(byte, request, 58) & 1], seconds_and_port, from.high, from.low) !=
		    little64(AT(wide, request, 63))) {
		count->bad_tokens++;
		if (take(&first->tag, since, BAD_COST, since + BAD_ROOM, &over) == TAKEN)
			return XDP_PASS;
		count->dropped++;
		return XDP_DROP;
	}
	if (age > RENEW && age <= OLDEST) {
		count->renewals++;
		return XDP_PASS;
	}

	/* Under pressure the router's turns decide: half of what it may send ahead is left to it alone. */
	if (set->link_cost && *(volatile __u64 *)&first->full_at > since + set->link_slack) {
		count->paced++;
		return XDP_PASS;
	}
	nonce = AT(wide, request, 2);
	unit = bpf_cpu_to_be64(unit);
	length = end - data;
	wanted = app + DATA_HEAD + UNIT;
	if (bpf_xdp_adjust_tail(ctx, wanted - length)) {
		count->no_room++;
		return XDP_PASS;
	}
	taken = charge(set, &from, since, &over);
	if (taken == OVER) {
		__u64 micros = over / 1000 ? over / 1000 : 1;
		__u32 one = bpf_htonl(1), again = bpf_htonl(micros > 0xffffffff ? 0xffffffff : (__u32)micros);

		count->busy++;
		if (bpf_xdp_adjust_tail(ctx, NACK - DATA_HEAD - UNIT))
			return XDP_DROP;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		request = data + app;
		if (request + NACK > end)
			return XDP_DROP;
		AT(half, request, 0) = bpf_htons(0x1300 | BUSY);
		AT(wide, request, 10) = unit;
		AT(word, request, 18) = one;
		AT(word, request, 22) = again;
		sum = add(add((__u64)bpf_htons(0x1300 | BUSY) + one + again, nonce), unit);
		write_heads(data, from.ipv6, NACK, sum);
		return XDP_TX;
	}
	if (taken == TAKEN && set->link_cost)
		taken = take(&first->full_at, since, set->link_cost, since + set->link_slack + set->link_cost, &over);
	if (taken != TAKEN) {
		count->paced++;
		return bpf_xdp_adjust_tail(ctx, length - wanted) ? XDP_DROP : XDP_PASS;
	}

	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	request = data + app;
	if (request + DATA_HEAD + UNIT > end)
		return XDP_DROP;
	__u64 stored = bpf_cpu_to_be64(slab->stored_units);

	AT(half, request, 0) = bpf_htons(0x1200);
	AT(wide, request, 10) = unit;
	AT(wide, request, 18) = stored;
	AT(word, request, 26) = 0;
	sum = add(add(add(sum + bpf_htons(0x1200), nonce), unit), stored);
	write_heads(data, from.ipv6, DATA_HEAD + UNIT, sum);
	if (bpf_xdp_store_bytes(ctx, app + DATA_HEAD, held->bytes, UNIT))
		return XDP_DROP;
	if (now - slab->used > 100000000)
		slab->used = now;
	count->answered++;
	return XDP_TX;
}
