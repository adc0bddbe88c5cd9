package paceline.cc;

/**
 * CUBIC (RFC 9438): after a reduction the window follows a cubic curve of <em>time</em> back to where it was, flat there,
 * then ever steeper; never slower than Reno would be. What differs from the RFC, and why, is at the head of
 * {@code core/cc/src/cubic.rs}.
 */
final class Cubic extends Policy {
    /** The window may grow by half in a round trip, no more (RFC 9438 section 4.2). */
    private static final double TARGET_LIMIT = 1.5;

    /** C in packets/s³: how steep the curve is (section 5.1). */
    private final double c;
    /** The factor of a reduction (section 4.6). */
    private final double beta;
    /** Give way to newcomers: aim below the last maximum when it was below the one before (section 4.7). */
    private final boolean fastConvergence;
    /** Never slower than Reno (section 4.3). */
    private final boolean renoFriendly;
    /** Least growth in a round trip until the first loss, as a share of the window (Linux: {@code cnt <= 20}). */
    private final double opening;
    /** Windows are of whole packets, and grow by the counts of Linux; null where they are not. */
    private final WholePackets whole;

    private final Ecn ecn;

    private final Curve curve = new Curve();
    /** The curve before the last reduction, for undo. */
    private final Curve before = new Curve();
    private long mss;
    /** Smallest RTT since the start or the last timeout (Linux {@code delay_min}). */
    private long minRtt = Units.NEVER;
    /** When the last acknowledgement came. */
    private long lastAck;

    /** What a reduction changes: the plateau, and one stage of congestion avoidance that begins after it. */
    private static final class Curve {
        /** W_max in packets, after fast convergence; zero before the first loss and after a timeout. */
        double max;
        /** cwnd_prior: the window before the last reduction. */
        double prior;
        /** Whether the stage has begun. */
        boolean begun;
        long start;
        /** K: seconds from the start of the stage to the plateau. */
        double k;
        /** The plateau: W_max, or the window where that is already larger. */
        double origin;
        /** W_est: the window Reno would have. */
        double reno;

        /** Section 4.2, equations 1 and 2. */
        void begin(long now, double cwnd, double c) {
            begun = true;
            start = now;
            k = CubeRoot.of(Math.max(max - cwnd, 0.0) / c);
            origin = Math.max(max, cwnd);
            reno = cwnd;
        }

        /** W_cubic(t), {@code t} in seconds since the start. */
        double at(double t, double c) {
            double fromPlateau = t - k;
            return origin + c * fromPlateau * fromPlateau * fromPlateau;
        }

        void copyFrom(Curve other) {
            max = other.max;
            prior = other.prior;
            begun = other.begun;
            start = other.start;
            k = other.k;
            origin = other.origin;
            reno = other.reno;
        }

        /** The stage begins again: its curve was drawn in packets of the old size. */
        void scale(double scale) {
            max *= scale;
            prior *= scale;
            begun = false;
        }
    }

    Cubic(Env env, Params params) {
        c = params.number("c");
        beta = params.number("beta");
        fastConvergence = params.on("fast_convergence");
        renoFriendly = params.on("reno_friendly");
        opening = params.number("opening") / 100.0;
        whole = params.word("packets").equals("whole") ? new WholePackets() : null;
        ecn = params.ecn();
        mss = env.mss;
    }

    boolean begun() {
        return curve.begun;
    }

    boolean renoFriendly() {
        return renoFriendly;
    }

    double beta() {
        return beta;
    }

    void begin(long now, double cwnd) {
        curve.begin(now, cwnd, c);
    }

    /** The window that the curve has {@code ahead} nanoseconds from now; its distance from the plateau is of whole packets. */
    double wholeTarget(long now, long ahead) {
        double t = Units.seconds(Units.plus(Units.since(now, curve.start), ahead));
        double above = curve.at(t, c) - curve.origin;
        return curve.origin + (above < 0.0 ? Math.ceil(above) : Math.floor(above));
    }

    /** Least growth in a round trip as a share of the window: zero after the first loss. */
    double least() {
        return curve.max > 0.0 ? 0.0 : opening;
    }

    /** As windows are counted. */
    private double counted(double packets) {
        return whole == null ? packets : WholePackets.floor(packets);
    }

    /** Reno's growth that gives, with this beta, the throughput of Reno (section 4.3, equation 4). */
    private double alpha() {
        return curve.reno >= curve.prior ? 1.0 : 3.0 * (1.0 - beta) / (1.0 + beta);
    }

    /** Time in which the window could not grow does not count (section 4.2). */
    private void pause(long span) {
        if (curve.begun) {
            curve.start = Units.plus(curve.start, span);
        }
    }

    @Override
    void observe(Ack ack) {
        if (!ack.windowLimited) {
            pause(Units.since(ack.now, lastAck));
        }
        lastAck = ack.now;
        minRtt = Math.min(minRtt, ack.rtt);
    }

    @Override
    void grow(Ack ack, Window window) {
        double cwnd = window.cwnd;
        double acked = ack.packetsOf(mss);
        if (whole != null) {
            window.cwnd += whole.grow(ack.now, minRtt < Units.NEVER ? minRtt : 0, acked, cwnd, this);
            return;
        }
        if (!curve.begun) {
            curve.begin(ack.now, cwnd, c);
        }
        curve.reno += alpha() * acked / cwnd;

        double t = Units.seconds(Units.since(ack.now, curve.start));
        double grown;
        if (renoFriendly && curve.at(t, c) < curve.reno) {
            grown = curve.reno;
        } else {
            // Repairs give no RTT: after a timeout there may be none yet.
            long ahead = minRtt < Units.NEVER ? minRtt : ack.minRtt;
            double target = Math.max(cwnd, Math.min(curve.at(t + Units.seconds(ahead), c), TARGET_LIMIT * cwnd));
            grown = cwnd + acked * (target - cwnd) / cwnd;
        }
        window.cwnd = Math.max(grown, cwnd + acked * least());
    }

    /** The curve's time stands still while the window does not limit the flow. */
    @Override
    double limit(Window window, double maxFlight) {
        double k = curve.k;
        double origin = curve.origin;
        long t = curve.begun ? Units.since(lastAck, curve.start) : 0;
        if (!curve.begun) {
            k = CubeRoot.of(Math.max(curve.max - window.cwnd, 0.0) / c);
            origin = Math.max(curve.max, window.cwnd);
        }
        double ahead = Units.seconds(Units.plus(t, minRtt < Units.NEVER ? minRtt : 0));
        double fromPlateau = ahead - k;
        double curved = origin + c * fromPlateau * fromPlateau * fromPlateau;
        double target = Math.max(maxFlight, Math.min(curved, TARGET_LIMIT * maxFlight));
        return Math.max(Math.max(target, maxFlight + 1.0), (1.0 + least()) * maxFlight);
    }

    @Override
    double reduce(Window window) {
        double cwnd = counted(window.cwnd);
        before.copyFrom(curve);
        if (whole != null) {
            whole.forgetPart();
        }
        boolean shrinking = fastConvergence && cwnd < curve.max;
        curve.max = shrinking ? counted(cwnd * (1.0 + beta) / 2.0) : cwnd;
        curve.prior = cwnd;
        curve.begun = false;
        return counted(beta * cwnd);
    }

    @Override
    void onTimeout() {
        curve.max = 0.0;
        curve.begun = false;
        minRtt = Units.NEVER;
        if (whole != null) {
            whole.clear();
        }
    }

    @Override
    void undo() {
        curve.copyFrom(before);
    }

    @Override
    void onRestart(long now, long idle) {
        pause(idle);
        lastAck = now;
    }

    @Override
    void onMss(long mss, double scale) {
        this.mss = mss;
        curve.scale(scale);
        before.scale(scale);
    }

    @Override
    Ecn ecn() {
        return ecn;
    }

    @Override
    void describe(Variables variables) {
        variables.take("w_max_packets", curve.max);
        if (curve.begun) {
            variables.take("k_s", curve.k);
            variables.take("w_est_packets", curve.reno);
        }
    }
}
