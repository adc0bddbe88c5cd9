package paceline.cc;

/**
 * Arithmetic of times, sizes and rates as {@code long} numbers: nanoseconds, bytes, bytes per second, never negative.
 *
 * <p>It saturates instead of overflowing, as {@code core/cc/src/units.rs} does, and the largest number stands for never
 * or without end. (There it is 2^64-1, here {@link Long#MAX_VALUE}.)
 */
public final class Units {
    /** Later than every time, longer than every span, without limit. */
    public static final long NEVER = Long.MAX_VALUE;
    /** Nanoseconds of a second. */
    public static final long SECOND = 1_000_000_000L;
    /** Nanoseconds of a millisecond. */
    public static final long MILLISECOND = 1_000_000L;

    /** 2^64-1 as a floating-point number: what {@link #NEVER} is where a formula needs a number, as in Rust. */
    private static final double NEVER_AS_DOUBLE = 18446744073709551616.0;

    private Units() {}

    /**
     * A sum.
     *
     * @param a a number that is not negative
     * @param b another
     * @return their sum, at most {@link #NEVER}
     */
    public static long plus(long a, long b) {
        long sum = a + b;
        return sum < 0 ? NEVER : sum;
    }

    /**
     * Time passed, or the difference of two spans or sizes.
     *
     * @param later the later time
     * @param earlier the earlier time
     * @return {@code later - earlier}, zero when {@code earlier} is later
     */
    public static long since(long later, long earlier) {
        return later > earlier ? later - earlier : 0;
    }

    /**
     * A number of seconds.
     *
     * @param nanos nanoseconds
     * @return seconds
     */
    public static double seconds(long nanos) {
        return real(nanos) / 1e9;
    }

    /**
     * A number of milliseconds.
     *
     * @param nanos nanoseconds
     * @return milliseconds
     */
    public static double millis(long nanos) {
        return real(nanos) / 1e6;
    }

    /**
     * A time from seconds.
     *
     * @param seconds seconds; negative and not-a-number become zero
     * @return nanoseconds, rounded down
     */
    public static long fromSeconds(double seconds) {
        return whole(seconds * 1e9);
    }

    /**
     * A time from milliseconds.
     *
     * @param millis milliseconds; negative and not-a-number become zero
     * @return nanoseconds, rounded down
     */
    public static long fromMillis(double millis) {
        return whole(millis * 1e6);
    }

    /**
     * A whole number.
     *
     * @param number a number; negative and not-a-number become zero
     * @return the number rounded down, at most {@link #NEVER}
     */
    public static long whole(double number) {
        return number > 0 ? (long) number : 0;
    }

    /**
     * The number as Rust's code sees it.
     *
     * @param number a number that is not negative
     * @return the same, 2^64 for {@link #NEVER}
     */
    static double real(long number) {
        return number == NEVER ? NEVER_AS_DOUBLE : (double) number;
    }

    /**
     * A span times a fraction.
     *
     * @param span a span
     * @param numerator of the fraction
     * @param denominator of the fraction
     * @return {@code span * numerator / denominator}, rounded down; {@link #NEVER} for a denominator of zero
     */
    public static long times(long span, long numerator, long denominator) {
        if (denominator == 0) {
            return NEVER;
        }
        return numerator == 1 ? span / denominator : wide(span, numerator, denominator, false);
    }

    /**
     * How many whole times a span goes into another.
     *
     * @param part the shorter span
     * @param whole the longer one
     * @return {@code whole / part}; zero for a part of zero
     */
    public static long timesIn(long part, long whole) {
        return part == 0 ? 0 : whole / part;
    }

    /**
     * The rate that moves bytes in a span.
     *
     * @param bytes how many bytes
     * @param span nanoseconds
     * @return bytes per second, rounded down; {@link #NEVER} for a span of zero
     */
    public static long rate(long bytes, long span) {
        return span == 0 ? NEVER : wide(bytes, SECOND, span, false);
    }

    /**
     * Time that bytes take.
     *
     * @param bytes how many bytes
     * @param rate bytes per second
     * @return nanoseconds, rounded up; {@link #NEVER} for a rate of zero, zero for {@link #NEVER}
     */
    public static long timeFor(long bytes, long rate) {
        if (rate == NEVER || bytes == 0) {
            return 0;
        }
        return rate == 0 ? NEVER : wide(bytes, SECOND, rate, true);
    }

    /** {@code a * b / c} with 128 bits in between, rounded down or up. */
    private static long wide(long a, long b, long c, boolean up) {
        long high = multiplyHigh(a, b);
        long low = a * b;
        if (high == 0 && low >= 0) {
            long quotient = low / c;
            return up && quotient * c != low ? quotient + 1 : quotient;
        }
        if (high >= c) {
            return NEVER;
        }
        long rest = high;
        long quotient = 0;
        for (int bit = 63; bit >= 0; bit--) {
            rest = rest << 1 | (low >>> bit & 1);
            quotient <<= 1;
            // The rest was below c, which is below 2^63: a negative number here is one from 2^63 on.
            if (rest < 0 || rest >= c) {
                rest -= c;
                quotient |= 1;
            }
        }
        if (up && rest != 0) {
            quotient++;
        }
        return quotient < 0 ? NEVER : quotient;
    }

    /** The upper 64 bits of the product of two numbers that are not negative. ({@code Math.multiplyHigh} is Java 9.) */
    private static long multiplyHigh(long a, long b) {
        if ((a | b) >>> 31 == 0) {
            return 0;
        }
        long middle = (a >>> 32) * (b & 0xffff_ffffL);
        long carry = ((a & 0xffff_ffffL) * (b & 0xffff_ffffL)) >>> 32;
        long other = (a & 0xffff_ffffL) * (b >>> 32) + (middle & 0xffff_ffffL) + carry;
        return (a >>> 32) * (b >>> 32) + (middle >>> 32) + (other >>> 32);
    }
}
