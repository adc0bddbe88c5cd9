package paceline.cc;

/**
 * The cube root, correctly rounded, as Rust's {@code libm::cbrt} gives it; {@link Math#cbrt} may be one bit off.
 *
 * <p>The algorithm is CORE-MATH's (Alexei Sibidanov, {@code core-math/src/binary64/cbrt/cbrt.c}, 2021-2022, MIT; Rust in
 * {@code libm} 0.2.16), for rounding to nearest and numbers that are not negative. It neither allocates nor needs a fused
 * multiply-add.
 */
final class CubeRoot {
    /** 1, 2^(1/3), 2^(2/3). */
    private static final double[] SCALE = {1.0, 0x1.428a2f98d728bp+0, 0x1.965fea53d6e3dp+0};
    /** A cubic that is x^(1/3) on [1, 2] within 9.2e-5. */
    private static final double[] CUBIC = {
        0x1.1b0babccfef9cp-1, 0x1.2c9a3e94d1da5p-1, -0x1.4dc30b1a1ddbap-3, 0x1.7a8d3e4ec9b07p-6
    };
    /** 1/3 and 2/9: Newton's method of third order. */
    private static final double THIRD = 0x1.5555555555555p-2;
    private static final double NINTHS = 0x1.c71c71c71c71cp-3;
    /** 2^27+1: splits a number in two halves whose products are exact (Dekker 1971). */
    private static final double SPLIT = 134217729.0;
    private static final long MANTISSA = (1L << 52) - 1;

    private CubeRoot() {}

    /** The cube root of {@code x}, which is not negative. */
    static double of(double x) {
        long bits = Double.doubleToRawLongBits(x);
        long mantissa = bits & MANTISSA;
        int exponent = (int) (bits >>> 52) & 0x7ff;
        if (exponent == 0x7ff || bits == 0) {
            return x;
        }
        if (exponent == 0) {
            int shift = Long.numberOfLeadingZeros(bits) - 11;
            mantissa = mantissa << shift & MANTISSA;
            exponent -= shift - 1;
        }
        exponent += 3072;
        int third = exponent / 3;
        int rest = exponent % 3;
        double z = Double.longBitsToDouble(mantissa | 0x3ffL << 52);
        // x is zz * 2^(3 third - 4095), 1 <= zz < 8; z is zz / 2^rest.
        double zz = Double.longBitsToDouble(Double.doubleToRawLongBits(z) + ((long) rest << 52));
        double inverse = 1.0 / z;
        double inverseZz = inverse * (rest == 0 ? 1.0 : rest == 1 ? 0.5 : 0.25);
        double y = (CUBIC[0] + z * CUBIC[1]) + z * z * (CUBIC[2] + z * CUBIC[3]);
        double h = y * y * (y * inverse) - 1.0;
        y -= (h * y) * (THIRD - NINTHS * h);
        y *= SCALE[rest];

        double dy = correction(y, zz, inverseZz);
        double root = y - dy;
        dy = (y - root) - dy;
        if (nearMiddle(dy, 0x1p-75)) {
            double again = correction(root, zz, inverseZz);
            double better = root - again;
            dy = (root - better) - again;
            root = better;
            if (nearMiddle(dy, 0x1p-98)) {
                // The two hardest cases.
                if (zz == 0x1.9b78223aa307cp+1) {
                    root = 0x1.79d15d0e8d59cp+0;
                } else if (zz == 0x1.a202bfc89ddffp+2) {
                    root = 0x1.de87aa837820fp+0;
                }
            }
        }
        long rootBits = Double.doubleToRawLongBits(root);
        long result = rootBits + ((long) (third - 342 - 1023) << 52);
        long tail = result << 30;
        if ((tail ^ tail >>> 63) + Long.MIN_VALUE <= (1L << 30) + Long.MIN_VALUE) {
            // Few bits: the root may be exact.
            double exact = Double.longBitsToDouble(rootBits + (164L << 15) & ~0xffffL);
            if (Math.abs(exact - root - dy) < 0x1p-60 || zz == 1.0) {
                result = result + (1L << 15) & ~0xffffL;
            }
        }
        return Double.longBitsToDouble(result);
    }

    /** By how much {@code y} is above the cube root of {@code zz}. */
    private static double correction(double y, double zz, double inverseZz) {
        double square = y * y;
        double squareRest = productRest(y, y, square);
        double cube = square * y;
        double cubeRest = productRest(y, square, cube) + y * squareRest;
        return (cube - zz + cubeRest) * inverseZz * (y * THIRD);
    }

    /** What rounding took from {@code a * b}: exact (Dekker 1971). */
    private static double productRest(double a, double b, double product) {
        double aBig = a * SPLIT;
        double aHigh = aBig - (aBig - a);
        double aLow = a - aHigh;
        double bBig = b * SPLIT;
        double bHigh = bBig - (bBig - b);
        double bLow = b - bHigh;
        return aLow * bLow - (product - aHigh * bHigh - aLow * bHigh - aHigh * bLow);
    }

    /** The root is so near the middle of two numbers that its last bit is not certain. */
    private static boolean nearMiddle(double dy, double near) {
        double size = Math.abs(dy);
        return Math.abs(size - 0x1p-53) < near || Math.abs(size - (0x1p-52 + 0x1p-53)) < near;
    }
}
