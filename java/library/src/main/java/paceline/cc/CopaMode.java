package paceline.cc;

/**
 * How aggressive to be: delta, and the switching between Default and Competitive mode (Arun and Balakrishnan, NSDI 2018,
 * section 3.3; {@code core/cc/src/copa/mode.rs}).
 */
final class CopaMode {
    /** Upper limit of 1/delta in packets (our choice: without losses nothing else bounds Competitive mode). */
    private static final double MAX_AGGRESSIVENESS = 1000.0;
    /** A queue stands when a half of its swing stays (our choice: of 50 like flows in Default mode a quarter stays) ... */
    private static final long STANDING = 2;
    /** ... and when a fifth stays (our choice: beside CUBIC Copa's own swing may empty that much) ... */
    private static final long STANDING_IF_PROVEN = 5;
    /** ... for this long after a loss (our choice: as long as RTTmin is remembered) ... */
    private static final long PROVEN = 10 * Units.SECOND;
    /**
     * ... that came when 1/delta was at least this many times its default (our choice: like flows that a newcomer's slow
     * start has misled lose packets before they come so far).
     */
    private static final double PROOF = 8.0;
    /** A flow does not drain for this long after that loss (our choice: Reno's losses are rare on long paths). */
    private static final long UNDOUBTED = 30 * Units.SECOND;
    /**
     * This long after its first acknowledgement a flow takes no queue for a competitor's (our choice: as long as RTTmin is
     * remembered; it may have begun in a queue) ...
     */
    private static final long SETTLING = 10 * Units.SECOND;
    /** ... nor this long after a drain, before it has lost a packet (our choice: Default mode then empties the queue). */
    private static final long AFTER_DRAIN = 3 * Units.SECOND;
    /**
     * RTTs of growth that a flow makes up for at once when a queue that swung proves to stand (our choice: as many as the
     * mode test looks back).
     */
    private static final long MADE_UP = 5;

    /** Which modes a flow may use. */
    enum Allowed {
        AUTO,
        DEFAULT,
        COMPETITIVE
    }

    private final boolean release;
    private final Allowed allowed;
    private final double standard;
    /** Packets per RTT and second of queueing delay, inverted: small is aggressive. */
    double delta;
    boolean competitive;
    /** When delta was last moved (release: also reset); {@link #NONE} before that ... */
    private long lastChange;
    /** ... and when it last answered a loss. */
    private long lastCut;
    /** The last loss that showed a competitor, or {@link #NONE}. */
    private long proof;
    /** Until then the flow takes no queue for a competitor's; {@link #NONE} before the first acknowledgement ... */
    private long settles;
    /** ... nor until then, before it has lost a packet. */
    private long rests;

    private static final long NONE = -1;

    CopaMode(boolean release, Allowed allowed, double delta) {
        this.release = release;
        this.allowed = allowed;
        standard = delta;
        reset();
    }

    /** As at the start. */
    void reset() {
        delta = standard;
        competitive = allowed == Allowed.COMPETITIVE;
        lastChange = NONE;
        lastCut = 0;
        proof = NONE;
        settles = NONE;
        rests = 0;
    }

    /** What part of its swing, one in this many, stays in a queue that stands. */
    long standing(long now) {
        return proven(now) ? STANDING_IF_PROVEN : STANDING;
    }

    /** A loss has shown a competitor lately. */
    boolean proven(long now) {
        return proof != NONE && Units.since(now, proof) < PROVEN;
    }

    /**
     * An acknowledgement came; {@code queue} says what the queue did lately. One that swung without emptying proves
     * nothing: the mode stays, and 1/delta waits.
     */
    void onAck(long now, long rtt, CopaDelays.Queue queue) {
        if (settles == NONE) {
            settles = Units.plus(now, SETTLING);
        }
        boolean settled = now >= Math.max(rests, settles) || release;
        boolean was = competitive;
        competitive = competes(queue, settled);
        if (!competitive) {
            if (!release) {
                delta = standard;
            } else if (lastChange == NONE || Units.plus(lastCut, rtt) < now) {
                delta = standard;
                lastChange = now;
            }
        } else if (!release && (!was || lastChange == NONE)) {
            lastChange = now;
        } else if (allowed != Allowed.AUTO || queue != CopaDelays.Queue.SWUNG) {
            grow(now, rtt);
        }
    }

    private boolean competes(CopaDelays.Queue queue, boolean settled) {
        if (allowed != Allowed.AUTO) {
            return allowed == Allowed.COMPETITIVE;
        }
        switch (queue) {
            case EMPTIED:
                return false;
            case SWUNG:
                return competitive;
            default:
                return settled || competitive;
        }
    }

    /** Packets were lost. In Competitive mode 1/delta halves: additive increase, multiplicative decrease, as Reno. */
    void onLoss(long now, long rtt) {
        // The release's call leaves its RTT argument at zero: any number of halvings an RTT.
        long spacing = release ? 0 : rtt;
        rests = now;
        if (!competitive || now <= Units.plus(lastCut, spacing)) {
            return;
        }
        if (PROOF * delta <= standard) {
            proof = now;
        }
        delta = Math.min(2.0 * delta, standard);
        lastCut = now;
        if (!release) {
            lastChange = now;
        }
    }

    /**
     * The flow is in Competitive mode, by the mode test, and no loss has shown a competitor for long: it may mistake like
     * flows for one.
     */
    boolean doubtful(long now) {
        return competitive
                && allowed == Allowed.AUTO
                && !release
                && (proof == NONE || Units.since(now, proof) >= UNDOUBTED);
    }

    /** Returns to Default mode after a drain. */
    void relent(long now) {
        competitive = false;
        delta = standard;
        rests = Units.plus(now, AFTER_DRAIN);
    }

    /** Adds 1 to 1/delta each RTT, as Reno adds a packet. */
    private void grow(long now, long rtt) {
        if (lastChange != NONE && now <= Units.plus(lastChange, rtt)) {
            return;
        }
        double inverse = 1.0 / delta;
        if (release) {
            inverse += 1.0;
        } else {
            long waited = lastChange == NONE ? rtt : Units.since(now, lastChange);
            long grown = Math.max(1, Math.min(Units.timesIn(rtt, waited), MADE_UP));
            inverse = Math.min(inverse + grown, Math.max(MAX_AGGRESSIVENESS, 1.0 / standard));
        }
        delta = Math.min(1.0 / inverse, standard);
        lastChange = now;
    }
}
