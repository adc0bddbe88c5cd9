package paceline.cc;

/**
 * Classic HyStart as Linux runs it ({@code tcp_cubic.c}, {@code hystart_update}, after Ha and Rhee, "Taming the elephants",
 * 2011): slow start that ends when a train of acknowledgements has grown as long as half the smallest RTT (the whole, when
 * paced), or when the RTT has risen by an eighth.
 */
final class HyStart extends StartUp {
    /** Windows below this are left alone, in packets (Linux {@code hystart_low_window}). */
    private static final double LOW_WINDOW = 16.0;
    /** Acknowledgements nearer than this belong to one train (Linux {@code hystart_ack_delta_us}). */
    private static final long TRAIN_GAP = 2 * Units.MILLISECOND;
    /** Largest cushion for bursts in the train test (Linux {@code hystart_ack_delay}). */
    private static final long CUSHION_MAX = Units.MILLISECOND;
    /** Bytes that the cushion lets pass at the pacing rate: four GSO bursts of 64 KiB (Linux {@code hystart_ack_delay}). */
    private static final long CUSHION_BYTES = 4 * 65_536;
    /** Linux paces slow start at this many windows a round trip ({@code tcp_pacing_ss_ratio}, 200 %). */
    private static final double SLOW_START_PACE = 2.0;

    private final SlowStart slow;
    private final boolean paced;
    private final HyStartRound round = new HyStartRound();
    private long mss;
    /** Smallest RTT since the start or the last timeout, whose samples no longer count (Linux {@code bictcp_reset}). */
    private long min = Units.NEVER;
    private long roundStart;
    private long lastAck;
    private boolean found;

    HyStart(Env env) {
        slow = new SlowStart(env, Double.POSITIVE_INFINITY);
        paced = env.paced;
        mss = env.mss;
    }

    /** Whether {@code rtt}, a new sample, shows that the window is large enough. */
    private boolean detects(Ack ack, long rtt, Window window) {
        min = Math.min(min, rtt);
        if (round.none || ack.una > round.end) {
            roundStart = ack.now;
            lastAck = ack.now;
            round.begin(ack);
        }
        if (window.cwnd < LOW_WINDOW) {
            return false;
        }
        boolean train = false;
        if (Units.since(ack.now, lastAck) <= TRAIN_GAP) {
            lastAck = ack.now;
            long perRound = Units.whole(SLOW_START_PACE * window.cwnd * mss);
            long cushion = Math.min(Units.timeFor(CUSHION_BYTES, Units.rate(perRound, ack.srtt)), CUSHION_MAX);
            // Pacing by itself spreads a window over half a round trip.
            long share = paced ? 1 : 2;
            train = Units.since(ack.now, roundStart) > Units.plus(min, cushion) / share;
        }
        boolean ripe = round.samples >= HyStartRound.SAMPLES;
        round.sample(rtt);
        return train || (ripe && round.min > Units.plus(min, HyStartRound.rise(min)));
    }

    @Override
    void onAck(Ack ack, Window window) {
        if (ack.rtt != Units.NEVER && !found && detects(ack, ack.rtt, window)) {
            found = true;
            window.ssthresh = window.cwnd;
            return;
        }
        slow.onAck(ack, window);
    }

    @Override
    void onCongestion(Signal signal) {
        if (signal == Signal.TIMEOUT) {
            min = Units.NEVER;
            round.none = true;
            found = false;
        }
    }

    @Override
    void onMss(long mss) {
        slow.onMss(mss);
        this.mss = mss;
    }
}
