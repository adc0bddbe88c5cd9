/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The Hop-by-Hop header of telemetry, in octets from its first: Next Header, length, PadN of no octets, the trace option with room for
 * the hops, the edge option.
 *
 * Source: RFC 8200 section 4.3, RFC 9197 section 4.4, RFC 9486 section 3; docs/design/telemetry-wire.md for what is ours.
 */
#ifndef PACELINE_INT_WIRE_H
#define PACELINE_INT_WIRE_H

/* The namespace whose private fields have our meaning. */
#define NAMESPACE 0x8001
/* The one in which data rates are floats, and which has the word. */
#define WIDE_NAMESPACE 0x8002

/* Option types, and IOAM's type of a pre-allocated trace. */
#define OPT_PAD1 0
#define OPT_PADN 1
#define OPT_IOAM_CHANGES 0x31
#define OPT_IOAM_FIXED 0x11
#define OPT_EDGE 0x1e
#define IOAM_PREALLOCATED 0

/* The trace option begins here in what a source of ours writes. */
#define TRACE_AT 4
/* From the option's first octet. */
#define TRACE_NAMESPACE 4
#define TRACE_WORD 6
#define TRACE_TYPE 8
#define TRACE_DATA 12
/* Of the 16 bits at TRACE_WORD: words of a record, overflow, words that are free. */
#define TRACE_NODE_LEN(word) ((word) >> 11)
#define TRACE_REMAINING(word) ((word) & 0x7f)
#define TRACE_OVERFLOW 0x0400

/* The profiles: trace type (24 bits and 8 reserved), words of a record. */
#define TYPE_LEAN 0xc6000000
#define TYPE_TIMED 0xf6000000
#define TYPE_COUNTED 0xc6100000
#define TYPE_FULL 0xfe300000
#define TYPE_WORD 0x00100000
#define WORDS_LEAN 4
#define WORDS_COUNTED 5
#define WORDS_TIMED 6
#define WORDS_FULL 10
#define WORDS_WORD 1

/* The edge option: octets with type and length, version, flags. */
#define EDGE_SHORT 16
#define EDGE_LONG 24
#define EDGE_VERSION 0x10
#define EDGE_TCP 8
#define EDGE_IS_LONG 4
#define EDGE_SEGMENTS 2
#define EDGE_SAMPLED 1

/* Longest header that is read (our choice: what a hop is asked to look at). */
#define HEADER_MAX 256
/* Options of a header that are looked at: what Linux takes by default is 8 (net.ipv6.max_hbh_opts_number), padding aside. */
#define OPTIONS_MAX 8

#define UNKNOWN16 0xffff
#define UNKNOWN32 0xffffffff
#define RSSI_UNKNOWN 0x80

#endif
