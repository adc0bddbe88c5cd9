package paceline.cc;

/** What Copa knows of the path: one smoothed RTT and four windowed extremes ({@code core/cc/src/copa/delays.rs}). */
final class CopaDelays {
    /** Part of the swing below which the queue counts as nearly empty: a tenth (NSDI 2018, section 3.3). */
    private static final long EMPTY = 10;
    /** An RTT is near the smallest when it is above it by one part in this many at most (our choice) ... */
    private static final long NEAR = 256;
    /** ... and a queue that has not come near it for this many round trips stands (our choice: four times Copa's 5). */
    private static final long STANDS = 20;

    /** What the queue did in the last 5 RTT. */
    enum Queue {
        /** It was nearly empty, as it is when only a few Copa flows share it. */
        EMPTIED,
        /** It did not empty, but most of it went: many Copa flows, or a competitor. */
        SWUNG,
        /** It hardly went down: another flow fills it. */
        STOOD
    }

    private final boolean release;
    private final long minWindow;
    private final WindowedFilter min = WindowedFilter.smallest();
    private final WindowedFilter standing = WindowedFilter.smallest();
    private final WindowedFilter near = WindowedFilter.smallest();
    private final WindowedFilter max = WindowedFilter.largest();
    /** The newest sample. */
    long latest;
    /** Smoothed RTT. */
    long srtt;
    /** When the RTT was last near its smallest. */
    private long emptied;
    /** How often the smallest RTT rose because the window had dropped it: the sign of drift. */
    long rises;

    CopaDelays(boolean release, long minWindow) {
        this.release = release;
        this.minWindow = minWindow;
    }

    /** Takes an RTT sample. With {@code keep} the smallest RTT does not age: a drain renews it. */
    void update(long now, long rtt, boolean keep) {
        latest = rtt;
        // RFC 6298, the paper is silent; rtt-window.cc.
        long gain = release ? 16 : 8;
        srtt = srtt == 0 ? rtt : Units.plus(Units.times(srtt, gain - 1, gain), rtt / gain);
        // NSDI 2018 section 3.3, for the largest RTT there 4: see Copa; the release.
        long window = release ? Math.max(minWindow, Units.times(min(), 20, 1)) : minWindow;
        long modeWindow = Math.min(Units.times(srtt, release ? 4 : 5, 1), window);
        boolean known = known();
        long before = min();
        long age = keep && known ? Units.since(now, min.seen()) : 0;
        min.update(now, rtt, Math.max(window, age));
        standing.update(now, rtt, Math.min(srtt / 2, window));
        near.update(now, rtt, modeWindow);
        max.update(now, rtt, modeWindow);
        if (Units.since(rtt, min()) <= min() / NEAR) {
            emptied = now;
        }
        if (known && min() > before) {
            rises++;
        }
    }

    /** Takes the smallest RTT of another flow over the same path. */
    void learn(long now, long rtt) {
        if (known() && rtt < min()) {
            min.update(now, rtt, minWindow);
        }
    }

    /** The smallest RTT was last seen longer ago than it is to be remembered. */
    boolean stale(long now) {
        return known() && Units.since(now, min.seen()) > minWindow;
    }

    /** The RTT has not come near its smallest for some round trips. */
    boolean stands(long now) {
        return Units.since(now, emptied) > Units.times(srtt, STANDS, 1);
    }

    /** Replaces the smallest RTT by one seen in a drain. */
    void renew(long seen, long rtt) {
        min.clear();
        min.update(seen, rtt, minWindow);
    }

    /** There has been a sample. */
    boolean known() {
        return !min.isEmpty();
    }

    /** Smallest RTT of the last 10 s: the path without its queue. */
    long min() {
        return min.get();
    }

    /** Smallest RTT of the last half RTT: the path with its queue, without jitter. */
    long standing() {
        return standing.get();
    }

    /** Queueing delay. */
    long queueing() {
        return Units.since(standing(), min());
    }

    /**
     * What the queue did in the last 5 RTT. {@code tolerance} is how much of the smallest RTT sample counts as empty in any
     * case, {@code part} the part of the swing (one in this many) that stays in a queue that stands.
     */
    Queue queue(long tolerance, long part) {
        long left = Units.since(near.get(), min());
        long swing = Units.since(max.get(), min());
        if (release) {
            return left < swing / EMPTY ? Queue.EMPTIED : Queue.STOOD;
        }
        // Equal extremes, as at the first acknowledgements, are an empty queue.
        if (swing == 0 || left < Math.max(swing / EMPTY, tolerance)) {
            return Queue.EMPTIED;
        }
        return left < swing / part ? Queue.SWUNG : Queue.STOOD;
    }

    void clear() {
        latest = 0;
        srtt = 0;
        emptied = 0;
        min.clear();
        standing.clear();
        near.clear();
        max.clear();
    }
}
