package paceline.cc;

import java.util.Arrays;
import java.util.List;

/**
 * A model made ready to draw from: for each state and each next move of the delay, how likely each next move of the window
 * is ({@code core/cc/src/mdi/table.rs}). A state is a pair of moves; its number is the index of the delay's move times the
 * moves of the window, and the index of the window's move.
 *
 * <p>Where training never saw a block, the sum of the blocks for the same two moves of the delay stands for it, whatever the
 * last move of the window was; then the sum over all states; then the window stays.
 */
final class MdiTable {
    final MdiAxis windows;
    final MdiAxis delays;
    /** Length of an epoch in nanoseconds. */
    final long epoch;
    /** Round trip of training without a queue, in nanoseconds. On a longer one everything takes as much longer. */
    final long rtt;
    /** A move of the delay is one from the flow's smallest to the epoch's, not from one epoch's to the next one's. */
    final boolean level;
    /** Packets added to the window when the delay falls by more than the grid has, and the factor when it rises so. */
    final double up;
    final double down;

    /** Moves of the window, and the sum of the weights up to and including each. */
    private double[] moves = new double[64];
    private double[] sums = new double[64];
    private int length;
    /** Where the distribution of each block begins and ends in them, by state, then by move of the delay. */
    private final int[] from;
    private final int[] to;

    /** Of the rows of a matrix: one for each state, a block of window moves for each move of the delay. */
    MdiTable(
            MdiAxis windows,
            MdiAxis delays,
            List<double[]> rows,
            long epoch,
            long rtt,
            boolean level,
            double up,
            double down) {
        this.windows = windows;
        this.delays = delays;
        this.epoch = epoch;
        this.rtt = rtt;
        this.level = level;
        this.up = up;
        this.down = down;
        int blocks = rows.size() * delays.count;
        from = new int[blocks];
        to = new int[blocks];
        for (int next = 0; next < delays.count; next++) {
            fill(rows, next);
        }
        moves = Arrays.copyOf(moves, length);
        sums = Arrays.copyOf(sums, length);
    }

    /** The distributions for one next move of the delay. */
    private void fill(List<double[]> rows, int next) {
        int states = rows.size();
        int allFrom = length;
        add(summed(rows, 0, states, next), 0);
        int allTo = length;
        for (int last = 0; last < delays.count; last++) {
            int first = last * windows.count;
            int likeFrom = length;
            add(summed(rows, first, first + windows.count, next), 0);
            int likeTo = length;
            if (likeTo == likeFrom) {
                likeFrom = allFrom;
                likeTo = allTo;
            }
            for (int state = first; state < first + windows.count; state++) {
                int block = state * delays.count + next;
                from[block] = length;
                add(rows.get(state), next * windows.count);
                to[block] = length;
                if (from[block] == to[block]) {
                    from[block] = likeFrom;
                    to[block] = likeTo;
                }
            }
        }
    }

    /** The sum of the blocks for {@code next} over some rows, in their order. */
    private double[] summed(List<double[]> rows, int first, int end, int next) {
        double[] weights = new double[windows.count];
        for (int row = first; row < end; row++) {
            for (int window = 0; window < windows.count; window++) {
                weights[window] += rows.get(row)[next * windows.count + window];
            }
        }
        return weights;
    }

    /** Adds the distribution of the weights that begin at {@code start}. */
    private void add(double[] weights, int start) {
        double sum = 0.0;
        for (int window = 0; window < windows.count; window++) {
            double weight = weights[start + window];
            if (weight > 0.0) {
                if (length == moves.length) {
                    moves = Arrays.copyOf(moves, 2 * length);
                    sums = Arrays.copyOf(sums, 2 * length);
                }
                sum += weight;
                moves[length] = windows.value(window);
                sums[length] = sum;
                length++;
            }
        }
    }

    /** The number of a state. */
    int state(int delay, int window) {
        return delay * windows.count + window;
    }

    /**
     * The move of the window after {@code state} when the delay's next move is {@code next}: the first whose sum of weights
     * is above a random share of all. Nothing is drawn where no state says anything about that move; the window stays.
     */
    double draw(int state, int next, Pcg64 random) {
        int block = state * delays.count + next;
        int end = to[block];
        if (from[block] == end) {
            return 0.0;
        }
        double sought = random.fraction() * sums[end - 1];
        for (int step = from[block]; step < end; step++) {
            if (sums[step] > sought) {
                return moves[step];
            }
        }
        return moves[end - 1];
    }
}
