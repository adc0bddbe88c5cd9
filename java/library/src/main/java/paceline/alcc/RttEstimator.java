package paceline.alcc;

/**
 * Smoothed RTT and the timeout, as the Rust {@code paceline-transport} has them (RFC 6298 with the bounds of Linux:
 * the least timeout bounds what is added to the smoothed RTT, the addition rises at once and falls by a quarter of the way per
 * round trip, and a sample far below the mean counts for an eighth).
 */
final class RttEstimator {
    /** Least addition, 200 ms: Linux {@code TCP_RTO_MIN}. */
    static final long MIN_RTO = 200_000_000L;
    /** 120 s: Linux {@code TCP_RTO_MAX}. */
    static final long MAX_RTO = 120_000_000_000L;
    /** Before the first sample, 1 s: RFC 6298 section 2.1. */
    static final long INITIAL_RTO = 1_000_000_000L;

    private long smoothed = -1;
    private long deviation;
    private long peak;
    private long margin;
    private long round;
    private long min = Long.MAX_VALUE;

    boolean isKnown() {
        return smoothed >= 0;
    }

    /** Smoothed RTT in nanoseconds; 0 before the first sample. */
    long smoothed() {
        return Math.max(smoothed, 0);
    }

    /** Smallest RTT; {@link Long#MAX_VALUE} before the first. */
    long min() {
        return min;
    }

    void observe(long sample) {
        min = Math.min(min, sample);
    }

    void sample(long sample) {
        if (smoothed < 0) {
            smoothed = sample;
            deviation = sample / 2;
        } else {
            long error = Math.abs(smoothed - sample);
            int share = sample < smoothed && error > deviation ? 5 : 2;
            deviation = deviation - (deviation >> share) + (error >> share);
            smoothed = smoothed - smoothed / 8 + sample / 8;
        }
        peak = Math.max(peak, 4 * deviation);
        margin = Math.max(margin, peak);
    }

    /** Everything below {@code acknowledged} has been; once a round trip the timeout may come down. */
    void advance(long acknowledged, long next) {
        if (acknowledged > round) {
            long least = Math.max(peak, MIN_RTO);
            peak = 0;
            margin -= Math.max(margin - least, 0) / 4;
            round = next;
        }
    }

    /** Timeout without back-off. */
    long rto() {
        return smoothed < 0 ? INITIAL_RTO : Math.min(smoothed + Math.max(margin, MIN_RTO), MAX_RTO);
    }
}
