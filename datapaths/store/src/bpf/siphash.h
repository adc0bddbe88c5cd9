/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* SipHash of what has one length: the MAC of tokens, and the places of limits. */
#ifndef PACELINE_STORE_SIPHASH_H
#define PACELINE_STORE_SIPHASH_H

#include "packet.h"

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

#endif
