package paceline.cc;

/**
 * The windowed maximum of the delivery rate (Linux {@code lib/win_minmax.c}, Kathleen Nichols' algorithm): the best, second
 * and third best sample, each from a later part of the window, which is counted in round trips.
 */
final class BbrFilter {
    private final long window;
    /** Rounds and values in bytes per second, the best first. */
    private final long[] rounds = new long[3];
    private final double[] values = new double[3];

    /** Over this many rounds. */
    BbrFilter(long window) {
        this.window = window;
    }

    /** The maximum; zero before the first sample. */
    double get() {
        return values[0];
    }

    /** Takes a sample of round {@code round}, which never decreases. */
    void update(long round, double value) {
        if (value >= values[0] || round - rounds[2] > window) {
            set(0, round, value);
            set(1, round, value);
            set(2, round, value);
            return;
        }
        if (value >= values[1]) {
            set(2, round, value);
            set(1, round, value);
        } else if (value >= values[2]) {
            set(2, round, value);
        }
        expire(round, value);
    }

    /** {@code minmax_subwin_update}. */
    private void expire(long round, double value) {
        long age = round - rounds[0];
        if (age > window) {
            shift(round, value);
            if (round - rounds[0] > window) {
                shift(round, value);
            }
        } else if (rounds[1] == rounds[0] && age > window / 4) {
            set(2, round, value);
            set(1, round, value);
        } else if (rounds[2] == rounds[1] && age > window / 2) {
            set(2, round, value);
        }
    }

    private void shift(long round, double value) {
        set(0, rounds[1], values[1]);
        set(1, rounds[2], values[2]);
        set(2, round, value);
    }

    private void set(int place, long round, double value) {
        rounds[place] = round;
        values[place] = value;
    }
}
