package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.Random;
import org.junit.jupiter.api.Test;

class CubeRootTest {
    /** The root is not below the middle to the next smaller number, nor above that to the next larger one. */
    private static void check(double x) {
        double root = CubeRoot.of(x);
        BigDecimal exact = new BigDecimal(x);
        BigDecimal half = new BigDecimal("0.5");
        BigDecimal low = new BigDecimal(Math.nextDown(root)).add(new BigDecimal(root)).multiply(half);
        BigDecimal high = new BigDecimal(Math.nextUp(root)).add(new BigDecimal(root)).multiply(half);
        assertTrue(low.pow(3).compareTo(exact) <= 0 && exact.compareTo(high.pow(3)) <= 0, x + " gave " + root);
    }

    @Test
    void isCorrectlyRounded() {
        Random random = new Random(1);
        for (int round = 0; round < 20_000; round++) {
            check(random.nextDouble() * 1e5);
            check(Math.exp(random.nextDouble() * 200.0 - 100.0));
        }
        // The hardest cases of the algorithm's authors.
        for (double hard : new double[] {0x1.9b78223aa307cp+1, 0x1.a202bfc89ddffp+2, Double.MIN_VALUE, Double.MAX_VALUE}) {
            check(hard);
        }
    }

    @Test
    void cubesHaveWholeRoots() {
        for (int root = 0; root < 100_000; root++) {
            assertEquals(root, CubeRoot.of((double) root * root * root));
        }
    }
}
