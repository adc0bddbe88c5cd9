package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.math.BigInteger;
import java.util.Random;
import org.junit.jupiter.api.Test;

class UnitsTest {
    private static final BigInteger SECOND = BigInteger.valueOf(Units.SECOND);
    private static final BigInteger END = BigInteger.valueOf(Units.NEVER);

    /** Numbers of every length, few of them near the ends. */
    private static long any(Random random) {
        return random.nextLong() >>> (1 + random.nextInt(63));
    }

    private static long bounded(BigInteger number) {
        return number.min(END).longValue();
    }

    @Test
    void productsOf128BitsAreExact() {
        Random random = new Random(1);
        for (int round = 0; round < 200_000; round++) {
            long a = any(random);
            long b = any(random);
            long c = Math.max(any(random), 1);
            BigInteger wide = BigInteger.valueOf(a).multiply(BigInteger.valueOf(b));
            assertEquals(bounded(wide.divide(BigInteger.valueOf(c))), Units.times(a, b, c), a + " * " + b + " / " + c);
            BigInteger nanos = BigInteger.valueOf(a).multiply(SECOND);
            assertEquals(bounded(nanos.divide(BigInteger.valueOf(c))), Units.rate(a, c));
            BigInteger up = nanos.add(BigInteger.valueOf(c - 1)).divide(BigInteger.valueOf(c));
            assertEquals(bounded(up), Units.timeFor(a, c));
        }
    }

    @Test
    void extremesSaturate() {
        assertEquals(Units.NEVER, Units.timeFor(1, 0));
        assertEquals(0, Units.timeFor(Units.NEVER, Units.NEVER));
        assertEquals(Units.NEVER, Units.timeFor(Units.NEVER, 1));
        assertEquals(Units.NEVER, Units.rate(1, 0));
        assertEquals(0, Units.since(0, Units.SECOND));
        assertEquals(Units.NEVER, Units.plus(Units.NEVER, Units.SECOND));
        assertEquals(0, Units.fromSeconds(Double.NaN));
        assertEquals(0, Units.fromSeconds(-1.0));
        assertEquals(Units.NEVER, Units.times(7, 1, 0));
        assertEquals(Units.NEVER, Units.whole(1e300));
        assertEquals(0, Units.timesIn(0, 5));
    }
}
