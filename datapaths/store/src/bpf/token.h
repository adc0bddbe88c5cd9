/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Whether a request's token proves its sender's address and port (core/icn/src/token.rs). */
#ifndef PACELINE_STORE_TOKEN_H
#define PACELINE_STORE_TOKEN_H

#include "memory.h"
#include "request.h"
#include "siphash.h"

/* Seconds. */
#define OLDEST 3600
#define AHEAD 300
#define RENEW 1800

/* OLD: it proves it, and is to be renewed. */
enum token { GOOD, OLD, BAD };

INLINE enum token judge_token(const struct settings *set, void *request, const struct sender *from, __u64 now)
{
	__u32 age = (__u32)((now + set->unix_offset) / 1000000000) - bpf_ntohl(AT(word, request, 59));
	__u64 seconds_and_port = (little64(AT(wide, request, 57)) & 0xffffffffffffULL) | (__u64)little16(from->port) << 48;

	if ((age > OLDEST && age < -(__u32)AHEAD) || AT(wide, request, 71) || AT(half, request, 79) ||
	    mac_of(set->keys[AT(byte, request, 58) & 1], seconds_and_port, from->high, from->low) != little64(AT(wide, request, 63)))
		return BAD;
	return age > RENEW && age <= OLDEST ? OLD : GOOD;
}

#endif
