package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** What Rust's {@code rand_pcg} 0.10, {@code rand} 0.10 and {@code libm} 0.2 give. */
class SameAsRustTest {
    /** Three draws of 64 bits, twelve below 7, and two fractions. */
    private static void check(long seed, long[] words, int[] numbers, double[] fractions) {
        Pcg64 random = new Pcg64(seed);
        for (long word : words) {
            assertEquals(word, random.next());
        }
        int[] drawn = new int[numbers.length];
        for (int draw = 0; draw < drawn.length; draw++) {
            drawn[draw] = random.below(7);
        }
        assertArrayEquals(numbers, drawn);
        for (double fraction : fractions) {
            assertEquals(fraction, random.fraction());
        }
    }

    @Test
    void randomNumbers() {
        check(
                1,
                new long[] {0xd701f5c824062d47L, 0x046daf9b8abaaf57L, 0x1d28a998490db5a0L},
                new int[] {4, 6, 0, 6, 2, 0, 3, 3, 1, 0, 0, 1},
                new double[] {0.24790004044048752, 0.6304555646118313});
        check(
                -1,
                new long[] {0xd78e73f247b68a71L, 0xbd948ee639a5d81aL, 0xf59a0d7da765df21L},
                new int[] {2, 0, 2, 1, 2, 4, 1, 5, 5, 4, 3, 2},
                new double[] {0.46128529038339916, 0.2582694106424094});
    }

    /** A million arguments; the sums are those of the same loop in Rust. */
    @Test
    void cubeRootsAndLogarithms() {
        Pcg64 random = new Pcg64(9);
        long roots = 0;
        long logarithms = 0;
        for (int round = 0; round < 1_000_000; round++) {
            double any = Double.longBitsToDouble((random.next() >>> 2) % (0x7ff0L << 46));
            roots = roots * 31 + Double.doubleToRawLongBits(CubeRoot.of(any));
            double window = 1.0 + random.fraction() * 40000.0;
            roots = roots * 31 + Double.doubleToRawLongBits(CubeRoot.of(window));
            logarithms = logarithms * 31 + Double.doubleToRawLongBits(Log10.of(window));
        }
        assertEquals(0x486c4c8e27466fa0L, roots);
        assertEquals(0x8436d3c4d1e4be29L, logarithms);
    }
}
