package paceline.cc;

/**
 * The random numbers that the Rust code draws: {@code rand_pcg::Pcg64} (O'Neill, "PCG: A Family of Simple Fast
 * Space-Efficient Statistically Good Algorithms for Random Number Generation", 2014: PCG XSL RR 128/64, LCG), seeded as
 * {@code rand_core} 0.10 does, and the ways in which {@code rand} 0.10 makes ranges and fractions of them.
 */
final class Pcg64 {
    /** PCG's multiplier for a state of 128 bits. */
    private static final long MULTIPLIER_HIGH = 0x2360_ED05_1FC6_5DA4L;
    private static final long MULTIPLIER_LOW = 0x4385_DF64_9FCC_F645L;
    /** PCG32's multiplier and increment, by which {@code SeedableRng::seed_from_u64} stretches a seed. */
    private static final long SEED_MULTIPLIER = 0x5851_F42D_4C95_7F2DL;
    private static final long SEED_INCREMENT = 0xA176_54E4_6FBE_17F3L;
    /** 2^-53: a fraction has 53 bits. */
    private static final double FRACTION = 1.0 / (1L << 53);

    private final long incrementHigh;
    private final long incrementLow;
    private long high;
    private long low;
    private long seed;

    /** A generator that begins at {@code seed}, of which all 64 bits count. */
    Pcg64(long seed) {
        this.seed = seed;
        low = seedWord();
        high = seedWord();
        incrementLow = seedWord() | 1;
        incrementHigh = seedWord();
        add(incrementHigh, incrementLow);
        step();
    }

    private long seedWord() {
        return seedHalf() | seedHalf() << 32;
    }

    private long seedHalf() {
        seed = seed * SEED_MULTIPLIER + SEED_INCREMENT;
        int shifted = (int) ((seed >>> 18 ^ seed) >>> 27);
        return Integer.rotateRight(shifted, (int) (seed >>> 59)) & 0xffff_ffffL;
    }

    private void step() {
        long product = high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH + upper(low, MULTIPLIER_LOW);
        low *= MULTIPLIER_LOW;
        high = product;
        add(incrementHigh, incrementLow);
    }

    private void add(long otherHigh, long otherLow) {
        long sum = low + otherLow;
        boolean carry = sum + Long.MIN_VALUE < low + Long.MIN_VALUE;
        low = sum;
        high += otherHigh + (carry ? 1 : 0);
    }

    /** The upper 64 bits of the product of two numbers without sign. */
    private static long upper(long a, long b) {
        long al = a & 0xffff_ffffL;
        long ah = a >>> 32;
        long bl = b & 0xffff_ffffL;
        long bh = b >>> 32;
        long first = ah * bl + (al * bl >>> 32);
        long second = al * bh + (first & 0xffff_ffffL);
        return ah * bh + (first >>> 32) + (second >>> 32);
    }

    /** 64 random bits ({@code next_u64}). */
    long next() {
        step();
        return Long.rotateRight(high ^ low, (int) (high >>> 58));
    }

    /** 32 random bits ({@code next_u32}), as a number from 0. */
    private long nextHalf() {
        return next() & 0xffff_ffffL;
    }

    /**
     * A whole number from 0 up to, but without, {@code bound}: {@code random_range(0..bound)} for a {@code usize} or
     * {@code u32} (Canon's method with one more draw where the first is biased).
     */
    int below(int bound) {
        long product = nextHalf() * bound;
        long result = product >>> 32;
        long order = product & 0xffff_ffffL;
        if (order > (-bound & 0xffff_ffffL)) {
            long more = nextHalf() * bound >>> 32;
            if (order + more > 0xffff_ffffL) {
                result++;
            }
        }
        return (int) result;
    }

    /** A number from 0 up to, but without, 1: {@code random::<f64>()}. */
    double fraction() {
        return (next() >>> 11) * FRACTION;
    }
}
