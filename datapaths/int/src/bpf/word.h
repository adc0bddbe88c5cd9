/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One word for all hops: what each has to say, and whether it is worse. Pure arithmetic, compiled for the host too; the same in user space:
 * core/telemetry/src/wire/word.rs.
 *
 * Source: docs/design/telemetry-wire.md, "One word".
 */
#ifndef PACELINE_INT_WORD_H
#define PACELINE_INT_WORD_H

/* What a packet asks for: its number modulo SIGNALS. */
enum {
	AVAILABLE,
	AVAILABLE_SHARE,
	DELAY,
	SIGNALS,
};

/* What no hop has written. */
#define NOTHING 0xffff
/* Of a number in 16 bits: those of its mantissa, and the largest. */
#define MANTISSA 11
#define MOST (2047ULL << 30)
/* Bits of a packet of the reference size, in which arrivals count; and bit/s of a unit of rates. */
#define REFERENCE_BITS (1514 * 8)
#define UNIT 100000ULL
/* More than any link has, in units: so that nothing overflows. */
#define FASTEST (1U << 30)

/* A number in 16 bits: five of an exponent, eleven of a mantissa that it shifts. */
static inline __u32 short_float(__u64 value)
{
	__u32 exponent = 0;
	__u64 rest, rounded;

	if (value > MOST)
		value = MOST;
	rest = value >> MANTISSA;
	if (rest >> 16) {
		rest >>= 16;
		exponent += 16;
	}
	if (rest >> 8) {
		rest >>= 8;
		exponent += 8;
	}
	if (rest >> 4) {
		rest >>= 4;
		exponent += 4;
	}
	if (rest >> 2) {
		rest >>= 2;
		exponent += 2;
	}
	exponent += rest >> 1;
	/* Bits beyond the mantissa's. */
	exponent += rest != 0;
	exponent &= 31;
	rounded = exponent ? ((value >> (exponent - 1)) + 1) >> 1 : value;
	/* Rounding may have made the mantissa one bit longer. */
	if (rounded >> MANTISSA)
		return (exponent + 1) << MANTISSA | 1 << (MANTISSA - 1);
	return exponent << MANTISSA | rounded;
}

/*
 * What a hop has to say: of a link of so many units, to which come `rate` packets a second, in units of 2^-16, and at which octets wait. The
 * capacity is not 0 and at most FASTEST.
 */
static inline __u32 signal_of(__u32 signal, __u32 capacity, __u64 rate, __u64 octets)
{
	__u64 whole = capacity * UNIT, arrives = rate * REFERENCE_BITS >> 16, left = arrives < whole ? whole - arrives : 0;
	__u32 share;

	switch (signal) {
	case AVAILABLE:
		return short_float((left + UNIT / 2) / UNIT);
	case AVAILABLE_SHARE:
		share = (left * 65535 + whole / 2) / whole;
		return share < NOTHING ? share : NOTHING - 1;
	default:
		if (octets > 0xffffffff)
			octets = 0xffffffff;
		return short_float(octets * 80000 / capacity);
	}
}

/* Whether what a hop has to say stands in the place of what is there. */
static inline int is_worse(__u32 signal, __u32 own, __u32 there)
{
	return there == NOTHING || (signal == DELAY ? own > there : own < there);
}

#endif
