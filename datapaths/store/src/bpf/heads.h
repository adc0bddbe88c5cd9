/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The heads of an answer, and the Internet's checksum (RFC 1071). */
#ifndef PACELINE_STORE_HEADS_H
#define PACELINE_STORE_HEADS_H

#include "packet.h"

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

/* Whether the sums of what came are right, as the kernel would look at them: over IPv4 a datagram may have none (RFC 768, RFC 8200). */
INLINE bool adds_up(const void *ip, const void *udp, bool ipv6)
{
	__u64 sum = bpf_htons(17) + little16(AT(byte, udp, 88));
	int at;

	if (ipv6) {
		if (!AT(half, udp, 6))
			return false;
#pragma unroll
		for (at = 8; at < IPV6; at += 8)
			sum = add(sum, AT(wide, ip, at));
	} else {
		__u64 head = 0;

#pragma unroll
		for (at = 0; at < IPV4; at += 4)
			head += AT(word, ip, at);
		if (fold(head) != 0xffff)
			return false;
		if (!AT(half, udp, 6))
			return true;
		sum = add(sum, AT(wide, ip, 12));
	}
	sum += AT(half, udp, 4);
#pragma unroll
	for (at = 0; at < 88; at += 8)
		sum = add(sum, AT(wide, udp, at));
	return fold(sum) == 0xffff;
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

#endif
