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

    private void reduce(Signal signal) {
        before.copyFrom(window);
        reduced = true;
        start.onCongestion(signal);
        window.ssthresh = Math.max(policy.reduce(window), Window.MINIMUM);
        window.cwnd = window.ssthresh;
    }

    @Override
    public long onSent(Sent sent) {
        return 0;
    }

    @Override
    public void onAck(Ack ack) {
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
        } else if (ack.bytes > 0 && ack.windowLimited) {
            policy.grow(ack, window);
        }
    }

    @Override
    public void onLoss(Loss loss) {
        if (loss.newEpisode) {
            repairing = true;
            reduce(Signal.LOSS);
        } else if (window.starting()) {
            start.onCongestion(Signal.LOSS);
        }
    }

    /** A timeout while losses are repaired, or after another, is of the same congestion (Linux {@code tcp_enter_loss}). */
    @Override
    public void onTimeout(Timeout timeout) {
        double cwnd = window.cwnd;
        if (timeout.count == 1 && !repairing) {
            reduce(Signal.TIMEOUT);
        } else {
            start.onCongestion(Signal.TIMEOUT);
        }
        policy.onTimeout();
        // RFC 5681's loss window of one, beside what is still in flight (Linux tcp_enter_loss).
        window.cwnd = Math.min(timeout.inFlight / (double) mss + 1.0, Math.max(cwnd, 1.0));
    }

    @Override
    public void onSpurious(long now) {
        if (reduced) {
            reduced = false;
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
        window.ssthresh = Math.max(window.ssthresh, 0.75 * window.cwnd);
        double floor = Math.min(Window.INITIAL, window.cwnd);
        window.cwnd = Math.max(window.cwnd / (1L << halvings), floor);
    }

    /** Windows keep their bytes: what the path holds has not changed. */
    @Override
    public void onMss(long now, long bytes) {
        long size = Math.max(bytes, 1);
        double scale = mss / (double) size;
        mss = size;
        window.scale(scale);
        before.scale(scale);
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
