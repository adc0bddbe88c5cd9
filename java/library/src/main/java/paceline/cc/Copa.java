package paceline.cc;

/**
 * Copa: a window that aims at the rate 1/(delta x queueing delay) (Arun and Balakrishnan, "Copa: Practical Delay-Based
 * Congestion Control for the Internet", NSDI 2018, sections 2 and 3). What differs from the paper, and why, is at the head
 * of {@code core/cc/src/copa.rs}; {@code rules=release} follows the authors' release where the two differ.
 */
final class Copa extends Controller {
    /** Initial window in packets (RFC 6928; the release's {@code num_probe_pkts}). */
    private static final double INITIAL_CWND = 10.0;
    /** Smallest window in packets (the release). */
    private static final double MIN_CWND = 2.0;
    /** Acknowledgements before the release's window moves ({@code 2 * num_probe_pkts - 1}). */
    private static final long RELEASE_PROBES = 19;
    /** Silence after which the release starts again (ctcp.hh). */
    private static final long RELEASE_SILENCE = 2 * Units.SECOND;
    /** Below this a queueing delay counts as none in nanoseconds (our choice: a clock's resolution). */
    private static final long NO_QUEUE = 1_000;
    /** Silence after which the smallest RTT is stale and the window is found again (our choice: RTTmin's window). */
    private static final long STALE = 10 * Units.SECOND;
    /** Smallest window after heavy loss in packets (our choice: 500 flows share a path that holds 32). */
    private static final double LEAST_CWND = 1.0 / 16.0;
    /** What is kept of the window at heavy loss, at most, where a queue makes it (our choice: Reno's half). */
    private static final double MOST_KEPT = 0.5;
    /** Share of losses from which the release cuts, the factor, and the packets that make a share (ReduceOnLoss). */
    private static final double LOSS_SHARE = 0.3;
    private static final double LOSS_FACTOR = 0.7;
    private static final long LOSS_PACKETS = 20;
    /** No time, no window. */
    private static final long NONE = -1;

    private final boolean release;
    /** Packets of queue that count as none. */
    private final double tolerance;
    private final CopaDelays delays;
    private final CopaMode mode;
    private final CopaVelocity velocity;
    private final CopaDrain drain = new CopaDrain();
    private final CopaOutage outage = new CopaOutage();
    private final Ceiling ceiling = new Ceiling();
    private double mss;
    /** Congestion window in packets. */
    private double cwnd = INITIAL_CWND;
    private boolean slowStart = true;
    private long drains;
    private long acked;
    private long lastAck = NONE;
    /** The window before the last timeout or heavy loss, for undo; {@link #NONE} when there is nothing to undo. */
    private double before = NONE;
    private final MaxFlight maxFlight = new MaxFlight(INITIAL_CWND);
    /** maxFS before the last timeout or heavy loss. */
    private double flightBefore;
    /** The release's guard: packets, and of those the lost ones, since a time. */
    private long guardSince;
    private long guardPackets;
    private long guardLost;

    Copa(Env env, Params params) {
        release = params.word("rules").equals("release");
        tolerance = params.number("tol");
        String allowed = params.word("mode");
        mode = new CopaMode(
                release,
                CopaMode.Allowed.valueOf(allowed.toUpperCase(java.util.Locale.ROOT)),
                params.number("delta"));
        delays = new CopaDelays(release, Units.fromSeconds(params.number("rttmin_window")));
        velocity = new CopaVelocity(release);
        mss = env.mss;
    }

    /** The window at which the rate is 1/(delta d_q), in packets. */
    private double target() {
        long queueing = delays.queueing();
        if (queueing < NO_QUEUE) {
            return Double.POSITIVE_INFINITY;
        }
        return Units.seconds(delays.standing()) / (mode.delta * Units.seconds(queueing));
    }

    private void updateMode(long now) {
        long packets = Units.whole(Units.real(delays.standing()) * (tolerance / cwnd));
        // Our choice: a flow of few packets must not call a quarter of the RTT an empty queue.
        long empty = Math.min(packets, delays.min() / 4);
        mode.onAck(now, delays.latest, delays.queue(empty, mode.standing(now)));
    }

    /** Moves the window for one delivered packet of {@code size} full packets. */
    private void updateWindow(long now, double size, double cwndAtSend, boolean mayRise) {
        double target = target();
        boolean up = cwnd <= target;
        if (slowStart) {
            if (up && mayRise) {
                cwnd += size;
            }
            // The paper leaves at the next packet that finds the window above its target; it makes no cut.
            if (release ? cwnd >= target : !up) {
                slowStart = false;
                velocity.restart(now, delays.srtt);
            }
            return;
        }
        long rtt = release ? delays.latest : delays.srtt;
        double v = velocity.step(now, cwnd, cwndAtSend, up, mode.delta, rtt);
        double change = v * size / (mode.delta * cwnd);
        if (!up) {
            cwnd = Math.max(cwnd - change, least());
        } else if (mayRise) {
            cwnd += change;
        }
    }

    /** Begins and ends drains; true while the window is held for one. */
    private boolean drains(long now) {
        if (drain.active) {
            if (!drain.update(now, delays.latest)) {
                return true;
            }
            maxFlight.restore(drain.maxFlight);
            cwnd = Math.max(drain.finish(delays), least());
            velocity.restart(now, delays.srtt);
            mode.relent(now);
        } else if (!slowStart && mode.doubtful(now) && delays.stale(now)) {
            drain.begin(now, cwnd, maxFlight.largest, delays);
            drains++;
            cwnd = Math.min(cwnd, MIN_CWND);
        }
        return drain.active;
    }

    /** Finds the path again from at most the initial window; mode and ceiling stay. */
    private void restart() {
        cwnd = Math.min(cwnd, INITIAL_CWND);
        slowStart = true;
        velocity.reset(0);
        drain.active = false;
        delays.clear();
    }

    /** The release's restart after a silence: nothing stays. */
    private void restartIfSilent(long now) {
        if (release && lastAck != NONE && Units.since(now, lastAck) > RELEASE_SILENCE) {
            restart();
            cwnd = INITIAL_CWND;
            maxFlight.reset(INITIAL_CWND);
            mode.reset();
            acked = 0;
            lastAck = NONE;
        }
    }

    /** Heavy loss says what the delay does not ({@link Ceiling}): no more is kept of the window than arrived, or a quarter. */
    private void count(long now, int delivered, int lost) {
        if (release) {
            guard(now, delivered, lost);
            return;
        }
        Ceiling.Signs signs = Ceiling.Signs.UNCLEAR;
        if (slowStart) {
            signs = Ceiling.Signs.STARTING;
        } else if (delays.stands(now) && !mode.proven(now)) {
            signs = Ceiling.Signs.QUEUE;
        }
        Ceiling.Verdict verdict = ceiling.count(now, delays.latest, delivered, lost, signs);
        if (verdict == Ceiling.Verdict.LOSSY) {
            slowStart = false;
            velocity.restart(now, delays.srtt);
            before = cwnd;
            flightBefore = maxFlight.largest;
            double most = signs == Ceiling.Signs.UNCLEAR ? 1.0 : MOST_KEPT;
            cwnd = Math.max(Math.min(1.0 - ceiling.share, most) * cwnd, LEAST_CWND);
            ceiling.lower(cwnd);
        } else if (verdict == Ceiling.Verdict.CLEAN) {
            before = NONE;
        }
    }

    /** The release cuts the window when nearly a third of the packets is lost. */
    private void guard(long now, int delivered, int lost) {
        guardPackets += delivered + lost;
        guardLost += lost;
        boolean early = now <= Units.plus(Units.plus(guardSince, delays.latest), delays.latest);
        if (early || guardPackets <= LOSS_PACKETS) {
            return;
        }
        double share = guardLost / (double) guardPackets;
        guardSince = now;
        guardPackets = 0;
        guardLost = 0;
        if (share > LOSS_SHARE) {
            cwnd = Math.max(LOSS_FACTOR * cwnd, MIN_CWND);
        }
    }

    /** This many bytes are in flight. */
    private void flies(long inFlight) {
        maxFlight.update(inFlight / mss, cwnd);
    }

    /** limit(maxFS): the window doubles, or moves by v/delta, in a round trip. */
    private double limit() {
        return slowStart ? 2.0 * maxFlight.largest : maxFlight.largest + velocity.value / mode.delta;
    }

    /** An event is over that found the window at {@code window}. */
    private void bound(double window) {
        if (cwnd != window) {
            cwnd = maxFlight.bound(window, cwnd, limit());
        }
    }

    /** The smallest window: below {@link #MIN_CWND} where the path does not carry even that. */
    private double least() {
        return Math.min(MIN_CWND, ceiling.packets);
    }

    /** The tag is the window, against which the direction is judged when the packet is acknowledged. */
    @Override
    public long onSent(Sent sent) {
        outage.onSent(sent);
        flies(sent.inFlight);
        return Double.doubleToRawLongBits(cwnd);
    }

    @Override
    public void onAck(Ack ack) {
        flies(ack.inFlight);
        double window = cwnd;
        take(ack);
        bound(window);
    }

    private void take(Ack ack) {
        restartIfSilent(ack.now);
        lastAck = ack.now;
        if (!release) {
            if (outage.ends(ack.now, delays.known() ? delays.min() : Units.NEVER)) {
                restart();
            }
            if (outage.delayed(ack.packets)) {
                return;
            }
        }
        if (ack.rtt != Units.NEVER) {
            boolean keep = drain.active || mode.doubtful(ack.now);
            delays.update(ack.now, Math.max(ack.rtt, 1), keep);
        }
        if (!delays.known() || drains(ack.now)) {
            return;
        }
        updateMode(ack.now);
        boolean mayRise = ack.windowLimited && (maxFlight.largest >= cwnd || limit() > cwnd);
        int count = ack.packets.count();
        for (int index = 0; index < count; index++) {
            acked++;
            if (!release || acked > RELEASE_PROBES) {
                Acked packet = ack.packets.get(index);
                updateWindow(ack.now, packet.bytes / mss, Double.longBitsToDouble(packet.tag), mayRise);
            }
        }
        cwnd = Math.min(cwnd, ceiling.packets);
        count(ack.now, count, 0);
    }

    @Override
    public void onSharedRtt(long now, long min) {
        delays.learn(now, min);
    }

    @Override
    public void onLoss(Loss loss) {
        flies(loss.inFlight);
        double window = cwnd;
        mode.onLoss(loss.now, delays.latest);
        count(loss.now, 0, outage.lostSince(loss.packets));
        bound(window);
    }

    /**
     * The paper is silent. Here the window falls to its smallest, and a second timeout in a row, which says that nothing in
     * flight arrived, starts slow start. The release knows only its 2 s of silence.
     */
    @Override
    public void onTimeout(Timeout timeout) {
        if (release) {
            restartIfSilent(timeout.now);
            return;
        }
        flies(timeout.inFlight);
        double found = cwnd;
        // One packet: where windows are that small, losses are found by timeouts alone.
        if (timeout.count == 1) {
            count(timeout.now, 0, 1);
        }
        double window = drain.active ? drain.cwnd : cwnd;
        drain.active = false;
        if (timeout.count == 1) {
            before = window;
            flightBefore = maxFlight.largest;
        } else {
            slowStart = true;
        }
        cwnd = Math.min(window, MIN_CWND);
        velocity.restart(timeout.now, delays.srtt);
        bound(found);
    }

    @Override
    public void onSpurious(long now) {
        ceiling.forgive();
        if (before != NONE) {
            cwnd = Math.max(cwnd, before);
            maxFlight.restore(flightBefore);
            before = NONE;
        }
    }

    @Override
    public void onRestart(Restart restart) {
        if (restart.idle > STALE) {
            double window = cwnd;
            ceiling.reset();
            restart();
            bound(window);
        }
    }

    @Override
    public void onMss(long now, long bytes) {
        long size = Math.max(bytes, 1);
        double scale = mss / size;
        mss = size;
        cwnd = Math.max(cwnd * scale, LEAST_CWND);
        ceiling.scale(scale);
        maxFlight.scale(scale);
        flightBefore *= scale;
        if (before != NONE) {
            before *= scale;
        }
    }

    @Override
    public long window() {
        return Units.whole(Math.max(cwnd, 1.0) * mss);
    }

    /**
     * Twice the window each RTTstanding, so that pacing smooths and the window limits. Below a ceiling it is the window: a
     * buffer that is too short loses what comes faster, and a window of less than a packet is kept by pacing alone.
     */
    @Override
    public void pacing(Pacing answer) {
        if (!delays.known() || (release && acked <= RELEASE_PROBES)) {
            answer.free();
            return;
        }
        double gain = ceiling.packets < 2.0 * cwnd ? 1.0 : 2.0;
        long bytes = Units.whole(gain * cwnd * mss);
        // A rate that rounds to no bytes at all would hold the flow for ever.
        answer.rate(Math.max(Units.rate(bytes, delays.standing()), 1));
    }

    @Override
    public Recovery recovery() {
        return Recovery.CONTROLLER;
    }

    @Override
    public void describe(Variables variables) {
        variables.take("cwnd_packets", cwnd);
        variables.take("delta", mode.delta);
        variables.take("velocity", velocity.value);
        variables.take("competitive", mode.competitive ? 1 : 0);
        variables.take("slow_start", slowStart ? 1 : 0);
        if (delays.known()) {
            variables.take("rtt_min_ms", Units.millis(delays.min()));
            variables.take("rtt_standing_ms", Units.millis(delays.standing()));
            variables.take("queueing_ms", Units.millis(delays.queueing()));
        }
        variables.take("drains", drains);
        variables.take("rtt_min_rises", delays.rises);
    }
}
