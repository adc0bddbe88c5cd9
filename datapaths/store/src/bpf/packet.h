/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A frame, as a program at an interface sees it (native XDP): its context, the lengths of its heads, whole words of it.
 *
 * Source: Linux include/uapi/linux/bpf.h.
 */
#ifndef PACELINE_STORE_PACKET_H
#define PACELINE_STORE_PACKET_H

#include "../../../kernel/src/bpf/types.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3 };
struct xdp_md {
	__u32 data;
	__u32 data_end;
};

#define ETHERNET 14
#define IPV4 20
#define IPV6 40
#define UDP 8

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

#endif
