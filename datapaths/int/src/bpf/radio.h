/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the link behind a hop's queue says of itself: user space writes it, or a program that emulates the link, to which the loader gives
 * the hop's map.
 */
#ifndef PACELINE_INT_RADIO_H
#define PACELINE_INT_RADIO_H

#include "kernel.h"

struct radio {
	__u64 lost;
	__u32 rate_100k;
	__s8 rssi_dbm;
	__u8 mcs;
	__u16 knows_lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct radio);
} pl_int_radio SEC(".maps");

#endif
