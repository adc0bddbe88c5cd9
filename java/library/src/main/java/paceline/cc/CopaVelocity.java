package paceline.cc;

/** How fast Copa's window moves: v, which doubles while the direction persists ({@code core/cc/src/copa/velocity.rs}). */
final class CopaVelocity {
    /** RTTs in one direction before v doubles (Arun and Balakrishnan, NSDI 2018, section 2.2). */
    private static final int PERSISTENCE = 3;

    private final boolean release;
    /** v: packets of window a packet acknowledged, times delta times the window. */
    double value = 1.0;
    private long epoch;
    /** Paper: the direction of the last RTT's window change: 1 up, -1 down, 0 none yet. */
    private int direction;
    /** Paper: for how many RTTs it has been that. */
    private int same;
    /** Release: steps up less steps down in this RTT, and the sign to compare it with. */
    private long balance = 1;
    private long sign = 1;

    CopaVelocity(boolean release) {
        this.release = release;
    }

    /**
     * v for one acknowledged packet. The windows are in packets, now and when the packet was sent; {@code up}: the window is
     * below its target; {@code rtt}: length of an epoch, the smoothed RTT (release: the newest).
     */
    double step(long now, double cwnd, double cwndAtSend, boolean up, double delta, long rtt) {
        if (release) {
            release(now, cwnd, up, delta, rtt);
        } else {
            paper(now, cwnd, cwndAtSend, up, delta, rtt);
        }
        return value;
    }

    /** Forgets the direction; the next epoch ends an RTT from now. */
    void restart(long now, long rtt) {
        reset(release ? epoch : Units.plus(now, rtt));
    }

    /** As at the start, with an epoch that ends at a time. */
    void reset(long end) {
        epoch = end;
        value = 1.0;
        direction = 0;
        same = 0;
        balance = 1;
        sign = 1;
    }

    private void paper(long now, double cwnd, double cwndAtSend, boolean up, double delta, long rtt) {
        if (now >= epoch) {
            int moved = cwnd > cwndAtSend ? 1 : -1;
            if (direction == moved) {
                same++;
                if (same >= PERSISTENCE) {
                    value *= 2.0;
                }
            } else {
                slowDown();
            }
            direction = moved;
            epoch = Units.plus(now, rtt);
        }
        if (value > 1.0 && direction != (up ? 1 : -1)) {
            slowDown();
        }
        value = Math.max(Math.min(value, cwnd * delta), 1.0);
    }

    private void slowDown() {
        value = 1.0;
        same = 0;
    }

    /**
     * markoviancc.cc, {@code update_intersend_time}: no persistence, v cut to a whole number before it doubles, halved above
     * its cap.
     */
    private void release(long now, double cwnd, boolean up, double delta, long rtt) {
        if (Units.plus(epoch, rtt) < now) {
            if (sign * balance > 0) {
                value = 2.0 * Math.floor(value);
            } else {
                value = 1.0;
                sign = -sign;
            }
            epoch = now;
            balance = 0;
        }
        if (value > cwnd * delta) {
            value /= 2.0;
        }
        value = Math.max(value, 1.0);
        balance += up ? 1 : -1;
    }
}
