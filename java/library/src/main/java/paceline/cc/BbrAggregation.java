package paceline.cc;

/**
 * How much more than the estimated bandwidth explains may be acknowledged at once (Linux {@code tcp_bbr.c},
 * {@code bbr_update_ack_aggregation}): the windowed maximum of excess packets, over the last 5 to 10 rounds.
 */
final class BbrAggregation {
    /** Rounds that one of the two slots covers ({@code bbr_extra_acked_win_rtts}). */
    private static final int SLOT_ROUNDS = 5;
    /** Packets after which an epoch ends anyway ({@code bbr_ack_epoch_acked_reset_thresh}). */
    private static final double EPOCH_PACKETS = 1 << 20;
    /** Longest time whose worth of data is added to the window in seconds ({@code bbr_extra_acked_max_us}). */
    private static final double MAX_SECONDS = 0.1;

    private final double[] extra = new double[2];
    private long epochStart;
    private double epochAcked;
    private int slot;
    private int slotRounds;

    /**
     * One acknowledgement of {@code acked} packets, more than zero, which may start a round; the bandwidth is in packets per
     * second, the window {@code cwnd} in packets limits an excess.
     */
    void update(long now, boolean roundStart, double acked, double bandwidth, double cwnd) {
        if (roundStart && ++slotRounds >= SLOT_ROUNDS) {
            slotRounds = 0;
            slot = 1 - slot;
            extra[slot] = 0.0;
        }
        double expected = Math.floor(bandwidth * Units.seconds(Units.since(now, epochStart)));
        if (epochAcked <= expected || epochAcked + acked >= EPOCH_PACKETS) {
            restart(now);
            expected = 0.0;
        }
        epochAcked += acked;
        extra[slot] = Math.max(extra[slot], Math.min(epochAcked - expected, cwnd));
    }

    /** Starts a new epoch. */
    void restart(long now) {
        epochStart = now;
        epochAcked = 0.0;
    }

    /** Packets to add to the window at a bandwidth of this many packets per second. */
    double allowance(double bandwidth) {
        return Math.floor(Math.min(Math.max(extra[0], extra[1]), Math.floor(bandwidth * MAX_SECONDS)));
    }
}
