package paceline.cc;

/**
 * MDI: a table, trained by watching another controller, says how likely each next move of the window is; a random number
 * chooses one (Khan, Zaki et al., ACM CCR 51(1), 2021, and the project's sender {@code verus_server.cpp}). What differs from
 * the release, and why, is at the head of {@code core/cc/src/mdi.rs}. Delays in ms, windows in packets.
 */
final class Mdi extends Controller {
    /** Window at the beginning, in packets (the release). */
    private static final double FIRST_WINDOW = 10.0;
    /** Multiplicative decrease ({@code VERUS_M_DECREASE}). */
    private static final double M = 0.7;
    /** What a timeout leaves of the window (our choice: RFC 5681's half). */
    private static final double AFTER_TIMEOUT = 0.5;
    /** Weight of the old value in the RTT average (the release of Verus). */
    private static final double OLD_RTT = 0.875;
    /** Largest growth of the window in an epoch (our choice: small windows have large moves). */
    private static final double GROWTH = 4.0;
    /** Largest window in packets ({@code MAX_W_DELAY_CURVE} of Verus's release). */
    private static final double MAX_WINDOW = 40_000.0;
    /** Smallest delay in ms (our choice: a clock's step; moves are relative to it). */
    private static final double MIN_DELAY = 0.001;
    /** Most in flight, in windows (our choice: what Verus's rule comes to at three epochs a round trip). */
    private static final double MOST_IN_FLIGHT = 2.0;
    /**
     * A window in packets that makes no queue: if the delay stays above the smallest, the path has become longer (the release
     * of Verus has it so).
     */
    private static final double LITTLE_WINDOW = 2.0;
    /** How far the smallest delay then grows in an epoch, in ms (the release of Verus). */
    private static final double MIN_DELAY_GROWTH = 10.0;
    /** Round trips up to this many times those of training are the same (our choice: the smallest RTT has waiting in it). */
    private static final double SLACK = 1.25;
    /** Most epochs run by one late tick (our choice, as Verus: 20 ms is a bad timer, more is a stall). */
    private static final long MAX_EPOCHS = 4;
    /** Values are weighted as if they were at least this (our choice: the sender takes {@code log10(1 + 1)}). */
    private static final double SMALLEST = 2.0;
    /** No time, no delay. */
    private static final long NONE = -1;

    private final MdiTable table;
    private final double up;
    private final double down;
    private final boolean releaseBins;
    private final Pcg64 random;
    private long mss;
    /** The window, and those of the last two epochs. */
    private double w = FIRST_WINDOW;
    private double w1 = FIRST_WINDOW;
    private double w2 = FIRST_WINDOW;
    /** The largest RTTs of the last two epochs that had acknowledgements. */
    private double d1;
    private double d2;
    /** The smallest RTT. */
    private double smallest = Double.POSITIVE_INFINITY;
    /** The first RTT is known. */
    private boolean running;
    /** Neither a queue nor a loss has been seen. */
    private boolean opening = true;
    private double rttAverage;
    /** Largest RTT acknowledged in this epoch, or {@link #NONE}. */
    private double epochMax = NONE;
    private long lastAckAt;
    /** The last reduction, or {@link #NONE}; only packets sent since make another one. */
    private long reducedAt = NONE;
    /** Until one of those has arrived the window stays. */
    private boolean held;
    /** The window before the last reduction, for undo; {@link #NONE} when there is nothing to undo. */
    private double before = NONE;
    /** The first arrival after a timeout, or the timeout while there is none: an outage may have lasted until then; or {@link #NONE}. */
    private long darkUntil = NONE;
    /** Nothing has arrived since a timeout. */
    private boolean dark;
    private final Ceiling ceiling = new Ceiling();
    /** Bytes, as the datapath last said. */
    private long inFlight;
    /** Bytes that may still leave in this epoch. */
    private long allowance;
    /** Bytes per second; {@link #NONE} where packets are free to leave. */
    private long rate = NONE;
    private long nextEpoch = Units.NEVER;
    private boolean appLimited;
    /** The window limited the flow when the packet acknowledged last was sent. */
    private boolean windowLimited;
    /** The last moves, for reports. */
    private double delayMove;
    private double windowMove;

    Mdi(Env env, Params params) {
        table = params.model();
        up = params.number("up") > 0.0 ? params.number("up") : table.up;
        down = params.number("down") > 0.0 ? params.number("down") : table.down;
        releaseBins = params.word("bins").equals("release");
        random = new Pcg64(env.seed);
        mss = env.mss;
        open();
    }

    /** What a move from {@code value} is weighted by: a percent of a large value is a larger move. */
    private static double weight(double value) {
        return Log10.of(Math.max(value, SMALLEST));
    }

    /** The move from {@code last} to {@code now}: percent, times the decimal logarithm of {@code last}. */
    static double change(double last, double now) {
        return 100.0 * (now / last - 1.0) * weight(last);
    }

    /** Where a move leads from {@code last}: it may be 0 or less. */
    static double moved(double last, double move) {
        return last * (1.0 + move / (100.0 * weight(last)));
    }

    private static double clamp(double window) {
        return Math.max(1.0, Math.min(window, MAX_WINDOW));
    }

    /** How many times longer the round trip is than it was in training. */
    private double stretch() {
        return running ? Math.max(smallest / (SLACK * Units.millis(table.rtt)), 1.0) : 1.0;
    }

    private long epoch() {
        return Units.whole(table.epoch * stretch());
    }

    private double flight() {
        return inFlight / (double) mss;
    }

    private void allow(double packets) {
        allowance = Units.whole(packets) * mss;
    }

    /** Before the first RTT the window alone counts. */
    private void open() {
        allow(w - flight());
        rate = NONE;
    }

    private void openUnlessRunning() {
        if (!running) {
            open();
        }
    }

    /** The window, from which the next epoch goes on as if it had not moved. */
    private void settle(double window) {
        w = clamp(Math.min(window, ceiling.packets));
        w1 = w;
        w2 = w;
    }

    private void onRtt(long now, long nanos) {
        double rtt = Math.max(Units.millis(nanos), MIN_DELAY);
        smallest = Math.min(smallest, rtt);
        if (!running) {
            running = true;
            d1 = rtt;
            d2 = rtt;
            rttAverage = rtt;
            nextEpoch = Units.plus(now, epoch());
        }
        rttAverage = OLD_RTT * rttAverage + (1.0 - OLD_RTT) * rtt;
        epochMax = Math.max(epochMax, rtt);
    }

    /** What was sent at {@code at} says something of the path: it has not waited for the end of an outage, nor been lost in one. */
    private boolean isFresh(long at) {
        return darkUntil == NONE || at > darkUntil;
    }

    /** The window after this epoch. */
    private double nextWindow(double d) {
        double stretch = stretch();
        double lastDelay = d1 / stretch;
        double last = change((table.level ? smallest : d2) / stretch, lastDelay);
        delayMove = change(table.level ? smallest / stretch : lastDelay, d / stretch);
        windowMove = 0.0;
        int side = table.delays.side(delayMove);
        if (side != 0) {
            return side > 0 ? down * w : w + up;
        }
        int state = table.state(table.delays.bin(last, releaseBins), table.windows.bin(change(w2, w1), releaseBins));
        windowMove = table.draw(state, table.delays.bin(delayMove, releaseBins), random);
        return Math.min(moved(w1, windowMove), GROWTH * w1);
    }

    private void runEpochs(long now, long count) {
        for (long epoch = 0; epoch < count; epoch++) {
            boolean seen = epochMax != NONE;
            double d = seen ? epochMax : Math.max(d1, Units.millis(Units.since(now, lastAckAt)));
            epochMax = NONE;
            if (!held && (windowLimited || !appLimited)) {
                w = clamp(Math.min(nextWindow(d), ceiling.packets));
            }
            w2 = w1;
            w1 = w;
            if (seen) {
                opening = opening && d <= SLACK * smallest;
                if (w <= LITTLE_WINDOW) {
                    // The smallest delay was another path's.
                    smallest = Math.min(smallest + MIN_DELAY_GROWTH, d);
                }
                d2 = d1;
                d1 = d;
            }
        }
        allow(share());
        rate = allowance > 0 ? Units.rate(allowance, epoch()) : NONE;
    }

    /** Packets to send in an epoch: what is missing in flight, and what returns during the epoch (Verus section 4). */
    private double share() {
        double flight = flight();
        double epochs = Math.ceil(rttAverage / Units.millis(epoch()));
        double share = epochs > 1.0 ? w + flight * (2.0 - epochs) / (epochs - 1.0) : w - flight;
        return Math.floor(Math.max(Math.min(share, MOST_IN_FLIGHT * w - flight), 0.0));
    }

    /** Heavy loss says what no model has seen. */
    private void count(long now, int delivered, int lost) {
        Ceiling.Verdict verdict = ceiling.count(now, Units.whole(rttAverage * 1e6), delivered, lost, Ceiling.Signs.UNCLEAR);
        if (verdict == Ceiling.Verdict.LOSSY) {
            ceiling.lower((1.0 - ceiling.share) * w);
            settle(w);
        } else if (verdict == Ceiling.Verdict.CLEAN) {
            before = NONE;
        }
    }

    /** A smaller window, until the path has answered it. */
    private void reduce(long now, double window) {
        before = w;
        reducedAt = now;
        held = true;
        settle(window);
    }

    private boolean paused() {
        return appLimited && inFlight == 0;
    }

    /** Epochs run again after a pause, and nothing has moved. */
    private void resume(long now) {
        lastAckAt = now;
        epochMax = NONE;
        settle(w);
        d2 = d1;
        if (running) {
            nextEpoch = Units.plus(now, epoch());
        } else {
            open();
        }
    }

    @Override
    public long onSent(Sent sent) {
        if (paused()) {
            resume(sent.now);
        }
        appLimited = sent.appLimited;
        inFlight = sent.inFlight;
        allowance = Units.since(allowance, sent.bytes);
        return Units.whole(w);
    }

    @Override
    public void onAck(Ack ack) {
        if (dark) {
            dark = false;
            darkUntil = ack.now;
            ceiling.begin();
        }
        int count = ack.packets.count();
        for (int index = 0; index < count; index++) {
            Acked packet = ack.packets.get(index);
            held = held && reducedAt != NONE && packet.sentAt <= reducedAt;
            if (!packet.retransmitted && isFresh(packet.sentAt)) {
                onRtt(ack.now, Units.since(ack.now, packet.sentAt));
            }
        }
        inFlight = ack.inFlight;
        if (count == 0 && ack.rtt != Units.NEVER) {
            onRtt(ack.now, ack.rtt);
        }
        if (ack.bytes > 0 || ack.rtt != Units.NEVER) {
            lastAckAt = ack.now;
        }
        if (count > 0) {
            windowLimited = ack.windowLimited;
            if (opening && windowLimited && stretch() > 1.0) {
                settle(w + count);
            }
            count(ack.now, count, 0);
        }
        openUnlessRunning();
    }

    @Override
    public void onLoss(Loss loss) {
        inFlight = loss.inFlight;
        boolean reduced = false;
        int fresh = 0;
        for (int index = 0; index < loss.packets.count(); index++) {
            Lost packet = loss.packets.get(index);
            if (!isFresh(packet.sentAt)) {
                continue;
            }
            fresh++;
            if (!reduced && (reducedAt == NONE || packet.sentAt > reducedAt)) {
                reduced = true;
                opening = false;
                reduce(loss.now, Math.min(w, M * Math.max(packet.tag, 1)));
            }
        }
        count(loss.now, 0, fresh);
        openUnlessRunning();
    }

    @Override
    public void onTimeout(Timeout timeout) {
        inFlight = 0;
        reduce(timeout.now, AFTER_TIMEOUT * w);
        darkUntil = timeout.now;
        dark = true;
        opening = true;
        if (running) {
            allowance = 0;
        } else {
            open();
        }
    }

    @Override
    public void onSpurious(long now) {
        ceiling.forgive();
        held = false;
        if (before != NONE) {
            settle(Math.max(before, w));
            before = NONE;
        }
    }

    @Override
    public void onRestart(Restart restart) {
        resume(restart.now);
    }

    @Override
    public void onAppLimited(long now, long flight) {
        appLimited = true;
        inFlight = flight;
    }

    @Override
    public long nextTick() {
        return paused() ? Units.NEVER : nextEpoch;
    }

    @Override
    public void onTick(long now) {
        if (now < nextTick()) {
            return;
        }
        long epoch = epoch();
        long due = 1 + Units.since(now, nextEpoch) / epoch;
        runEpochs(now, Math.min(due, MAX_EPOCHS));
        nextEpoch = Units.plus(nextEpoch, Units.times(epoch, due, 1));
    }

    @Override
    public void onMss(long now, long bytes) {
        long size = Math.max(bytes, 1);
        double scale = mss / (double) size;
        mss = size;
        w = clamp(w * scale);
        w1 = clamp(w1 * scale);
        w2 = clamp(w2 * scale);
        if (before != NONE) {
            before *= scale;
        }
        ceiling.scale(scale);
        openUnlessRunning();
    }

    @Override
    public long window() {
        return Math.max(Units.plus(inFlight, allowance), mss);
    }

    @Override
    public boolean windowIsBudget() {
        return running;
    }

    @Override
    public void pacing(Pacing answer) {
        if (rate == NONE) {
            answer.free();
        } else {
            answer.rate(rate);
        }
    }

    @Override
    public Recovery recovery() {
        return Recovery.CONTROLLER;
    }

    @Override
    public void describe(Variables variables) {
        variables.take("cwnd_packets", w);
        variables.take("delay_move", delayMove);
        variables.take("window_move", windowMove);
        if (running) {
            variables.take("delay_ms", d1);
            variables.take("epoch_ms", Units.millis(epoch()));
        }
    }
}
