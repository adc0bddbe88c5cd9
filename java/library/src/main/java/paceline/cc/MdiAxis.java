package paceline.cc;

/** Equally spaced whole numbers: the moves of the delay or of the window ({@code core/cc/src/mdi/grid.rs}). */
final class MdiAxis {
    /** Largest absolute value of the bounds (our choice: moves are in percent times at most 5). */
    static final long FARTHEST = 1_000_000;

    final int count;
    private final double min;
    private final double max;
    private final double step;

    private MdiAxis(long min, long max, long step) {
        this.min = min;
        this.max = max;
        this.step = step;
        count = (int) ((max - min) / step) + 1;
    }

    /** From {@code min} to {@code max} by {@code step}; null when these are not the ends of such an axis. */
    static MdiAxis of(long min, long max, long step) {
        boolean fits = -FARTHEST <= min && min <= max && max <= FARTHEST && 1 <= step && step <= 2 * FARTHEST;
        return fits && (max - min) % step == 0 ? new MdiAxis(min, max, step) : null;
    }

    /** The value of this index. */
    double value(int index) {
        return min + index * step;
    }

    /** The index of the nearest value; beyond the ends, that of the end. {@code release} takes the next lower one. */
    int bin(double value, boolean release) {
        long index = Units.whole((value - min) / step + (release ? 0.0 : 0.5));
        return (int) Math.min(index, count - 1);
    }

    /** -1 for a value that is more than half a step below the first, 1 for one above the last, else 0. */
    int side(double value) {
        double half = step / 2.0;
        return value > max + half ? 1 : value < min - half ? -1 : 0;
    }
}
