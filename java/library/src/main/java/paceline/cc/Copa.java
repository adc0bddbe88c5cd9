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
    /** Share of losses from which to cut, the factor, and the packets that make a share (the release's ReduceOnLoss). */
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
    private double mss;
    /** Congestion window in packets. */
    private double cwnd = INITIAL_CWND;
    private boolean slowStart = true;
    private long drains;
    private long acked;
    private long lastAck = NONE;
    /** The window before the last time-out, for undo; {@link #NONE} when there is nothing to undo. */
    private double before = NONE;
    /** Packets, and of those the lost ones, since a time. */
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
            cwnd = Math.max(cwnd - change, MIN_CWND);
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
            cwnd = Math.max(drain.finish(delays), MIN_CWND);
            velocity.restart(now, delays.srtt);
            mode.relent(now);
        } else if (!slowStart && mode.doubtful(now) && delays.stale(now)) {
            drain.begin(now, cwnd, delays);
            drains++;
            cwnd = MIN_CWND;
        }
        return drain.active;
    }

    /** Finds the path again from at most the initial window; the mode stays. */
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
            mode.reset();
            acked = 0;
            lastAck = NONE;
        }
    }

    /**
     * Cuts the window when nearly a third of the packets is lost, whatever the delay says. Behind a buffer too small for
     * delay to show nothing else limits the window: no more is kept of it than arrived, and its growth begins again (our
     * choice; the release keeps 0.7 of it).
     */
    private void cutOnHeavyLoss(long now, int delivered, int lost) {
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
        if (share <= LOSS_SHARE) {
            return;
        }
        double arrived = LOSS_FACTOR;
        if (!release) {
            slowStart = false;
            velocity.restart(now, delays.srtt);
            arrived = 1.0 - share;
        }
        cwnd = Math.max(Math.min(arrived, LOSS_FACTOR) * cwnd, MIN_CWND);
    }

    /** The tag is the window, against which the direction is judged when the packet is acknowledged. */
    @Override
    public long onSent(Sent sent) {
        return Double.doubleToRawLongBits(cwnd);
    }

    @Override
    public void onAck(Ack ack) {
        restartIfSilent(ack.now);
        lastAck = ack.now;
        if (ack.rtt != Units.NEVER) {
            boolean keep = drain.active || mode.doubtful(ack.now);
            delays.update(ack.now, Math.max(ack.rtt, 1), keep);
        }
        if (!delays.known() || drains(ack.now)) {
            return;
        }
        updateMode(ack.now);
        int count = ack.packets.count();
        for (int index = 0; index < count; index++) {
            acked++;
            if (!release || acked > RELEASE_PROBES) {
                Acked packet = ack.packets.get(index);
                updateWindow(ack.now, packet.bytes / mss, Double.longBitsToDouble(packet.tag), ack.windowLimited);
            }
        }
        cutOnHeavyLoss(ack.now, count, 0);
    }

    @Override
    public void onSharedRtt(long now, long min) {
        delays.learn(now, min);
    }

    @Override
    public void onLoss(Loss loss) {
        mode.onLoss(loss.now, delays.latest);
        cutOnHeavyLoss(loss.now, 0, loss.packets.count());
    }

    /**
     * The paper is silent. Here the window falls to its smallest, and a second time-out in a row, which says that nothing in
     * flight arrived, starts slow start. The release knows only its 2 s of silence.
     */
    @Override
    public void onTimeout(Timeout timeout) {
        if (release) {
            restartIfSilent(timeout.now);
            return;
        }
        double window = drain.active ? drain.cwnd : cwnd;
        drain.active = false;
        if (timeout.count == 1) {
            before = window;
        } else {
            slowStart = true;
        }
        cwnd = MIN_CWND;
        velocity.restart(timeout.now, delays.srtt);
    }

    @Override
    public void onSpurious(long now) {
        if (before != NONE) {
            cwnd = Math.max(cwnd, before);
            before = NONE;
        }
    }

    @Override
    public void onRestart(Restart restart) {
        if (restart.idle > STALE) {
            restart();
        }
    }

    @Override
    public void onMss(long now, long bytes) {
        long size = Math.max(bytes, 1);
        double scale = mss / size;
        mss = size;
        cwnd = Math.max(cwnd * scale, 1.0);
        if (before != NONE) {
            before *= scale;
        }
    }

    @Override
    public long window() {
        return Units.whole(cwnd * mss);
    }

    /** Twice the window each RTTstanding, so that pacing smooths and the window limits. */
    @Override
    public void pacing(Pacing answer) {
        if (!delays.known() || (release && acked <= RELEASE_PROBES)) {
            answer.free();
            return;
        }
        long bytes = Units.whole(2.0 * cwnd * mss);
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
