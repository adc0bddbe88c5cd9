// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Answers questions about the arithmetic of a hop, one a line, with a number. */
#include <stdio.h>
#include <string.h>

typedef unsigned char __u8;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#include "../../src/bpf/meter.h"
#include "../../src/bpf/word.h"

/* The rate after two seconds with a packet in each of this many nanoseconds. */
static __u64 steady(__u64 every)
{
	__u64 weight = 0;

	for (__u64 at = 0; at < 2000000000; at += every)
		weight = arrived(weight, every, 1);
	return rate_of(weight);
}

int main(void)
{
	unsigned long long a, b, c, d;
	char what[16], line[256];

	while (fgets(line, sizeof(line), stdin)) {
		a = b = c = d = 0;
		if (sscanf(line, "%15s %llu %llu %llu %llu", what, &a, &b, &c, &d) < 2)
			return 1;
		if (!strcmp(what, "code"))
			printf("%u\n", rate_code(a));
		else if (!strcmp(what, "decay"))
			printf("%llu\n", decay(a));
		else if (!strcmp(what, "steady"))
			printf("%llu\n", steady(a));
		else if (!strcmp(what, "enough"))
			printf("%u\n", enough(a, b));
		else if (!strcmp(what, "room"))
			printf("%u\n", room_left(a, b, c, d, 1514));
		else if (!strcmp(what, "share"))
			printf("%u\n", occupancy_of(a, b, c, d));
		else if (!strcmp(what, "short"))
			printf("%u\n", short_float(a));
		else if (!strcmp(what, "signal"))
			printf("%u\n", signal_of(a, b, c, d));
		else if (!strcmp(what, "worse"))
			printf("%u\n", is_worse(a, b, c));
		else
			return 1;
	}
	/* Used by the programs alone. */
	return mixed(0, 1) == mixed(0, 2);
}
