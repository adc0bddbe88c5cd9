package paceline.alcc;

/** Round-trip times in buckets of 1.6 % width, of bounded memory: smallest, largest and quantiles. */
final class RttHistogram {
    /** Steps of a factor of two: 2^5, each 1/32 to 1/64 of the value wide (our choice: below the error of a clock's tick). */
    private static final int BITS = 5;
    private static final int STEPS = 1 << BITS;
    /** Microseconds below {@code STEPS} count exactly; the largest bucket begins at 2^40 us, 12 days. */
    private final int[] counts = new int[STEPS * (40 - BITS + 2)];
    private long total;
    private long min = Long.MAX_VALUE;
    private long max;

    void add(long nanos) {
        long clean = Math.max(nanos, 0);
        min = Math.min(min, clean);
        max = Math.max(max, clean);
        int bucket = Math.min(bucket(clean / 1000), counts.length - 1);
        if (counts[bucket] < Integer.MAX_VALUE) {
            counts[bucket]++;
            total++;
        }
    }

    long min() {
        return total == 0 ? 0 : min;
    }

    long max() {
        return max;
    }

    /** The value below which this share of all lies, in nanoseconds; 0 without any. */
    long quantile(double share) {
        long rank = (long) Math.ceil(share * total);
        long seen = 0;
        for (int bucket = 0; bucket < counts.length; bucket++) {
            seen += counts[bucket];
            if (seen >= rank && seen > 0) {
                return Math.min(Math.max(middle(bucket), min), max);
            }
        }
        return 0;
    }

    private static int bucket(long micros) {
        if (micros < STEPS) {
            return (int) micros;
        }
        int shift = 63 - BITS - Long.numberOfLeadingZeros(micros);
        return STEPS * (shift + 1) + (int) (micros >>> shift) - STEPS;
    }

    private static long middle(int bucket) {
        if (bucket < STEPS) {
            return bucket * 1000L + 500;
        }
        int shift = bucket / STEPS - 1;
        long low = (long) (bucket % STEPS + STEPS) << shift;
        return low * 1000 + (500L << shift);
    }
}
