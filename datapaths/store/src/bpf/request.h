/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The form of what is answered here: one datagram that asks for one unit (docs/design/icn-wire.md). */
#ifndef PACELINE_STORE_REQUEST_H
#define PACELINE_STORE_REQUEST_H

#include "packet.h"

/* core/icn: a request for one unit with a token; hops. */
#define REQUEST 81
#define MAX_HOPS 8

/* The request's sender, as tokens and as limits have it. */
struct sender {
	__u64 high, low, prefix;
	__u16 port;
	bool ipv6;
};

/* Of IPv6, or IPv4's mapped into it, as in packets. */
struct address {
	__u64 high, low;
};

/*
 * Who sends the datagram and to whom; where its payload begins, which is as long as a request; 0 where it is anything else: IPv4 without
 * options or IPv6 without extension headers, whole, from one host to one. A tag of a VLAN is another protocol.
 * Nothing of what the kernel would drop: no answer goes to a group of hosts, or to this one.
 */
INLINE __u32 read_heads(void *data, void *end, struct sender *from, struct address *to)
{
	void *ip = data + ETHERNET;

	if (ip + IPV4 + UDP + REQUEST > end || AT(byte, data, 6) & 1)
		return 0;
	if (AT(half, data, 12) == bpf_htons(0x0800)) {
		if (AT(byte, ip, 0) != 0x45 || AT(half, ip, 2) != bpf_htons(IPV4 + UDP + REQUEST) ||
		    AT(half, ip, 6) & bpf_htons(0x3fff) || AT(byte, ip, 9) != 17)
			return 0;
		from->ipv6 = false;
		from->high = 0;
		from->low = 0xffff0000ULL | (__u64)little32(AT(word, ip, 12)) << 32;
		from->prefix = bpf_ntohl(AT(word, ip, 12));
		if (from->prefix >> 24 == 0 || from->prefix >> 24 == 127 || from->prefix >> 24 >= 224 || AT(word, ip, 12) == AT(word, ip, 16))
			return 0;
		to->high = 0;
		to->low = little64(0xffff0000ULL | (__u64)little32(AT(word, ip, 16)) << 32);
		return ETHERNET + IPV4 + UDP;
	}
	if (AT(half, data, 12) != bpf_htons(0x86dd) || ip + IPV6 + UDP + REQUEST > end)
		return 0;
	if ((AT(byte, ip, 0) & 0xf0) != 0x60 || AT(half, ip, 4) != bpf_htons(UDP + REQUEST) || AT(byte, ip, 6) != 17)
		return 0;
	from->ipv6 = true;
	from->high = little64(AT(wide, ip, 8));
	from->low = little64(AT(wide, ip, 16));
	from->prefix = bpf_be64_to_cpu(AT(wide, ip, 8));
	to->high = AT(wide, ip, 24);
	to->low = AT(wide, ip, 32);
	/* Also IPv4's, mapped. */
	if (!from->prefix || from->prefix >> 56 == 0xff || (AT(wide, ip, 8) == to->high && AT(wide, ip, 16) == to->low))
		return 0;
	return ETHERNET + IPV6 + UDP;
}

/* One range of one unit, of which the number is `unit`, and a token of version 2 behind it. */
INLINE bool asks_for_one_unit(void *request, __u64 *unit)
{
	*unit = bpf_be64_to_cpu(AT(wide, request, 44));
	return AT(byte, request, 0) == 0x11 && AT(byte, request, 1) <= MAX_HOPS && AT(byte, request, 43) == 1 &&
	       AT(half, request, 52) == bpf_htons(1) && AT(word, request, 54) == bpf_htonl(0x01001802) && !(*unit >> 48);
}

#endif
