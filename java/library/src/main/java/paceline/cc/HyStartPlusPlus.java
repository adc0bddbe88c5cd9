package paceline.cc;

/**
 * HyStart++ (RFC 9406): slow start that turns to <em>conservative slow start</em> (CSS) when the RTT rises from one round
 * to the next, and ends after five such rounds; back to slow start when the RTT falls again. It runs in the first slow
 * start only (section 4.3 recommends it).
 */
final class HyStartPlusPlus extends StartUp {
    /** Growth of conservative slow start relative to slow start (RFC 9406 CSS_GROWTH_DIVISOR). */
    private static final double CSS_DIVISOR = 4.0;
    /** Rounds of conservative slow start (RFC 9406 CSS_ROUNDS). */
    private static final int CSS_ROUNDS = 5;
    /** Packets by which one acknowledgement may raise the window of an unpaced flow (RFC 9406 L). */
    private static final double LIMIT = 8.0;

    private final double limit;
    private final HyStartRound round = new HyStartRound();
    private long mss;
    /** RFC 9406 lastRoundMinRTT; {@link Units#NEVER} where there was none. */
    private long lastMin = Units.NEVER;
    private boolean conservative;
    /** RFC 9406 cssBaselineMinRtt. */
    private long baseline;
    /** Conservative rounds that have ended, the one in which it began included. */
    private int rounds;

    HyStartPlusPlus(Env env) {
        limit = env.paced ? Double.POSITIVE_INFINITY : LIMIT;
        mss = env.mss;
    }

    /** Takes an acknowledgement: into CSS or out of it, and to the next round. False at the end of the last. */
    private boolean goesOn(Ack ack) {
        if (ack.bytes == 0) {
            // The answer to a handshake begins no round: nothing has been sent.
            return true;
        }
        if (round.none) {
            round.begin(ack);
        }
        if (ack.rtt != Units.NEVER) {
            round.sample(ack.rtt);
        }
        if (round.samples >= HyStartRound.SAMPLES) {
            if (conservative) {
                conservative = round.min >= baseline;
            } else if (lastMin < Units.NEVER && round.min >= Units.plus(lastMin, HyStartRound.rise(lastMin))) {
                conservative = true;
                baseline = round.min;
                rounds = 0;
            }
        }
        if (ack.una < round.end) {
            return true;
        }
        lastMin = round.min;
        round.begin(ack);
        return !conservative || ++rounds < CSS_ROUNDS;
    }

    @Override
    void onAck(Ack ack, Window window) {
        double growth = Math.min(ack.packetsOf(mss), limit);
        if (window.ssthresh == Double.POSITIVE_INFINITY) {
            if (!goesOn(ack)) {
                window.ssthresh = window.cwnd;
                return;
            }
            if (conservative) {
                growth /= CSS_DIVISOR;
            }
        }
        if (ack.windowLimited) {
            window.open(growth);
        }
    }

    @Override
    double limit(Window window, double maxFlight) {
        boolean slower = conservative && window.ssthresh == Double.POSITIVE_INFINITY;
        return maxFlight + maxFlight / (slower ? CSS_DIVISOR : 1.0);
    }

    @Override
    void onMss(long mss) {
        this.mss = mss;
    }

    @Override
    void describe(Variables variables) {
        variables.take("css_round", conservative ? rounds + 1 : 0);
    }
}
