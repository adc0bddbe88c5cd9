package paceline.cc;

/**
 * A start-up and a policy joined to a controller ({@code core/cc/src/window/joined.rs}): which of the two is in charge, one
 * reduction an episode, undo, timeouts, idle restarts (RFC 5681).
 */
final class WindowController extends Controller {
    private final Window window = new Window();
    /** The window before the last reduction, for undo. */
    private final Window before = new Window();
    private final StartUp start;
    private final Policy policy;
    private final MaxFlight maxFlight = new MaxFlight(Window.INITIAL);
    /** maxFS before the last reduction. */
    private double flightBefore;
    private boolean reduced;
    private long mss;
    /** Between a loss and the end of its repair. */
    private boolean repairing;

    WindowController(Env env, StartUp start, Policy policy) {
        this.start = start;
        this.policy = policy;
        mss = env.mss;
        window.ssthresh = start.threshold();
    }

    /** This many bytes are in flight. */
    private void flies(long inFlight) {
        maxFlight.update(inFlight / (double) mss, window.cwnd);
    }

    /** limit(maxFS), of the start-up where it is in charge. */
    private double limit(boolean starting) {
        return starting ? start.limit(window, maxFlight.largest) : policy.limit(window, maxFlight.largest);
    }

    /** An event is over that found the window at {@code cwnd}, and the start-up in charge or not. */
    private void bound(double cwnd, boolean starting) {
        if (window.cwnd != cwnd) {
            // The floor of a reduction does not count as growth.
            window.cwnd = maxFlight.bound(cwnd, window.cwnd, Math.max(limit(starting), Window.MINIMUM));
        }
    }

    private void reduce(Signal signal) {
        before.copyFrom(window);
        flightBefore = maxFlight.largest;
        reduced = true;
        start.onCongestion(signal);
        window.ssthresh = Math.max(policy.reduce(window), Window.MINIMUM);
        window.cwnd = window.ssthresh;
    }

    @Override
    public long onSent(Sent sent) {
        flies(sent.inFlight);
        return 0;
    }

    @Override
    public void onAck(Ack ack) {
        flies(ack.inFlight);
        double cwnd = window.cwnd;
        boolean starting = window.starting();
        boolean limited = ack.windowLimited;
        // At limit(maxFS): to start-up and policy the window does not limit the flow.
        boolean unused = limited && maxFlight.largest < cwnd && limit(starting) <= cwnd;
        ack.windowLimited = limited && !unused;
        take(ack);
        ack.windowLimited = limited;
        bound(cwnd, starting);
    }

    private void take(Ack ack) {
        repairing &= ack.phase != Phase.OPEN;
        policy.observe(ack);
        if (ack.echo && policy.ecn() != Ecn.OFF) {
            reduce(Signal.ECN);
        } else if (ack.phase == Phase.OPEN || ack.phase == Phase.LOSS) {
            grow(ack);
        }
    }

    private void grow(Ack ack) {
        if (window.starting()) {
            start.onAck(ack, window);
            // It has not passed limit(maxFS), and the rest of a window's acknowledgements is still to come.
            if (!window.starting() && ack.windowLimited) {
                maxFlight.restore(window.cwnd);
            }
        } else if (ack.bytes > 0 && ack.windowLimited) {
            policy.grow(ack, window);
        }
    }

    @Override
    public void onLoss(Loss loss) {
        flies(loss.inFlight);
        double cwnd = window.cwnd;
        boolean starting = window.starting();
        if (loss.newEpisode) {
            repairing = true;
            reduce(Signal.LOSS);
        } else if (window.starting()) {
            start.onCongestion(Signal.LOSS);
        }
        bound(cwnd, starting);
    }

    /** A timeout while losses are repaired, or after another, is of the same congestion (Linux {@code tcp_enter_loss}). */
    @Override
    public void onTimeout(Timeout timeout) {
        flies(timeout.inFlight);
        double cwnd = window.cwnd;
        boolean starting = window.starting();
        if (timeout.count == 1 && !repairing) {
            reduce(Signal.TIMEOUT);
        } else {
            start.onCongestion(Signal.TIMEOUT);
        }
        policy.onTimeout();
        // RFC 5681's loss window of one, beside what is still in flight (Linux tcp_enter_loss).
        window.cwnd = Math.min(timeout.inFlight / (double) mss + 1.0, Math.max(cwnd, 1.0));
        bound(cwnd, starting);
    }

    @Override
    public void onSpurious(long now) {
        if (reduced) {
            reduced = false;
            maxFlight.restore(flightBefore);
            window.cwnd = Math.max(window.cwnd, before.cwnd);
            window.ssthresh = Math.max(window.ssthresh, before.ssthresh);
            policy.undo();
        }
    }

    /**
     * RFC 5681 section 4.1 in Linux's form ({@code tcp_cwnd_restart}): halve once for each RTO of silence, not below the
     * initial window.
     */
    @Override
    public void onRestart(Restart restart) {
        policy.onRestart(restart.now, restart.idle);
        long halvings = Math.min(Units.timesIn(restart.rto, restart.idle), 32);
        if (halvings == 0) {
            return;
        }
        double cwnd = window.cwnd;
        boolean starting = window.starting();
        window.ssthresh = Math.max(window.ssthresh, 0.75 * window.cwnd);
        double floor = Math.min(Window.INITIAL, window.cwnd);
        window.cwnd = Math.max(window.cwnd / (1L << halvings), floor);
        bound(cwnd, starting);
    }

    /** Windows keep their bytes: what the path holds has not changed. */
    @Override
    public void onMss(long now, long bytes) {
        long size = Math.max(bytes, 1);
        double scale = mss / (double) size;
        mss = size;
        window.scale(scale);
        before.scale(scale);
        maxFlight.scale(scale);
        flightBefore *= scale;
        policy.onMss(size, scale);
        start.onMss(size);
    }

    @Override
    public long window() {
        return Units.whole(Math.max(window.cwnd, 1.0) * mss);
    }

    @Override
    public boolean outlastsDepartures() {
        return !window.starting();
    }

    @Override
    public long threshold() {
        return Units.whole(window.ssthresh * mss);
    }

    @Override
    public Ecn ecn() {
        return policy.ecn();
    }

    @Override
    public void describe(Variables variables) {
        variables.take("cwnd_packets", window.cwnd);
        if (window.ssthresh < Double.POSITIVE_INFINITY) {
            variables.take("ssthresh_packets", window.ssthresh);
        }
        variables.take("starting", window.starting() ? 1 : 0);
        start.describe(variables);
        policy.describe(variables);
    }
}
