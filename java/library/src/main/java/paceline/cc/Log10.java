package paceline.cc;

/**
 * The decimal logarithm as Rust's {@code libm::log10} gives it, bit by bit; {@link StrictMath#log10} follows another
 * algorithm and may differ in the last bit.
 *
 * <p>From FreeBSD's {@code e_log10.c} by way of {@code libm} 0.2.16: Copyright (C) 1993 by Sun Microsystems, Inc. All rights
 * reserved. Developed at SunSoft, a Sun Microsystems, Inc. business. Permission to use, copy, modify, and distribute this
 * software is freely granted, provided that this notice is preserved.
 */
final class Log10 {
    private static final double INVERSE_HIGH = 4.34294481878168880939e-01;
    private static final double INVERSE_LOW = 2.50829467116452752298e-11;
    private static final double LOG10_2_HIGH = 3.01029995663611771306e-01;
    private static final double LOG10_2_LOW = 3.69423907715893078616e-13;
    private static final double LG1 = 6.666666666666735130e-01;
    private static final double LG2 = 3.999999999940941908e-01;
    private static final double LG3 = 2.857142874366239149e-01;
    private static final double LG4 = 2.222219843214978396e-01;
    private static final double LG5 = 1.818357216161805012e-01;
    private static final double LG6 = 1.531383769920937332e-01;
    private static final double LG7 = 1.479819860511658591e-01;
    /** The upper half of the bits of 1 and of the square root of a half. */
    private static final int ONE = 0x3ff00000;
    private static final int ROOT_HALF = 0x3fe6a09e;

    private Log10() {}

    /** The logarithm of a finite number from 1. */
    static double of(double number) {
        if (number == 1.0) {
            return 0.0;
        }
        // x is 2^k (1 + f), 1 + f between the roots of a half and of two.
        long bits = Double.doubleToRawLongBits(number);
        int high = (int) (bits >>> 32) + (ONE - ROOT_HALF);
        int k = (high >>> 20) - 0x3ff;
        high = (high & 0x000fffff) + ROOT_HALF;
        double f = Double.longBitsToDouble((long) high << 32 | bits & 0xffff_ffffL) - 1.0;
        double halfSquare = 0.5 * f * f;
        double s = f / (2.0 + f);
        double z = s * s;
        double w = z * z;
        double even = w * (LG2 + w * (LG4 + w * LG6));
        double odd = z * (LG1 + w * (LG3 + w * (LG5 + w * LG7)));
        double r = odd + even;

        // top + rest is nearly log(1 + f).
        double top = Double.longBitsToDouble(Double.doubleToRawLongBits(f - halfSquare) & 0xffff_ffff_0000_0000L);
        double rest = f - top - halfSquare + s * (halfSquare + r);
        double y = k * LOG10_2_HIGH;
        double sum = top * INVERSE_HIGH;
        double low = k * LOG10_2_LOW + (rest + top) * INVERSE_LOW + rest * INVERSE_HIGH;
        double all = y + sum;
        low += (y - all) + sum;
        return low + all;
    }
}
