package paceline.cc;

/**
 * Detection of a token-bucket policer (Linux {@code tcp_bbr.c}, {@code bbr_lt_bw_sampling}): two consecutive intervals, both
 * with heavy loss, that delivered at about the same rate.
 */
final class BbrPolicer {
    /** Shortest interval in rounds ({@code bbr_lt_intvl_min_rtts}). */
    private static final int MIN_ROUNDS = 4;
    /** Longest interval in rounds: four times the shortest. */
    private static final int MAX_ROUNDS = 4 * MIN_ROUNDS;
    /** Loss over delivery from which an interval counts ({@code bbr_lt_loss_thresh}: 50/256). */
    private static final double LOSS_THRESHOLD = 50.0 / 256.0;
    /** Relative difference below which two intervals agree ({@code bbr_lt_bw_ratio}: 32/256). */
    private static final double RATIO = 1.0 / 8.0;
    /** Difference below which two intervals agree in bytes per second ({@code bbr_lt_bw_diff}: 4 kbit/s). */
    private static final double DIFFERENCE = 4000.0 / 8.0;
    /** Rounds for which a detected rate is used ({@code bbr_lt_bw_max_rtts}). */
    private static final int KEPT_ROUNDS = 48;
    /** Shortest interval in seconds: one tick of Linux's millisecond stamp. */
    private static final double MIN_SECONDS = 0.001;

    /** A policed rate is believed in. */
    boolean inUse;
    /** Rate of the last interval, or the mean of the two that agreed, in bytes per second; zero for none. */
    double bandwidth;
    private boolean sampling;
    private int rounds;
    private long start;
    private long startDelivered;
    private long startLost;

    /**
     * Takes a sample; counts are bytes since the flow began, {@code losses} says that something was found lost with this
     * sample. True when the policed rate has just served its time: the gain cycle starts afresh.
     */
    boolean update(
            long now, long delivered, long lost, boolean losses, boolean appLimited, boolean roundStart, boolean probing) {
        if (inUse) {
            if (probing && roundStart && ++rounds >= KEPT_ROUNDS) {
                reset(now, delivered, lost);
                return true;
            }
            return false;
        }
        if (!sampling) {
            // Only from the first loss on: by then the policer's bucket is empty.
            if (!losses) {
                return false;
            }
            startInterval(now, delivered, lost);
            sampling = true;
        }
        if (roundStart && !appLimited) {
            rounds++;
        }
        if (appLimited || rounds > MAX_ROUNDS) {
            reset(now, delivered, lost);
        } else if (rounds >= MIN_ROUNDS && losses) {
            endInterval(now, delivered, lost);
        }
        return false;
    }

    /** Forgets everything. */
    void reset(long now, long delivered, long lost) {
        bandwidth = 0.0;
        inUse = false;
        sampling = false;
        startInterval(now, delivered, lost);
    }

    private void startInterval(long now, long delivered, long lost) {
        start = now;
        startDelivered = delivered;
        startLost = lost;
        rounds = 0;
    }

    private void endInterval(long now, long delivered, long lost) {
        double share = Units.since(lost, startLost);
        double moved = Units.since(delivered, startDelivered);
        double elapsed = Units.seconds(Units.since(now, start));
        if (moved == 0.0 || share < LOSS_THRESHOLD * moved || elapsed < MIN_SECONDS) {
            return;
        }
        double rate = moved / elapsed;
        double difference = Math.abs(rate - bandwidth);
        if (bandwidth > 0.0 && (difference <= RATIO * bandwidth || difference <= DIFFERENCE)) {
            bandwidth = (rate + bandwidth) / 2.0;
            inUse = true;
            rounds = 0;
            return;
        }
        bandwidth = rate;
        startInterval(now, delivered, lost);
    }
}
