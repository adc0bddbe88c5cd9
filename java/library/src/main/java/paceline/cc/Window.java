package paceline.cc;

/** The congestion window and the slow-start threshold, in packets of one MSS. */
final class Window {
    /** Initial window in packets (RFC 6928). */
    static final double INITIAL = 10.0;
    /** Smallest window after a reduction in packets (RFC 5681 section 3.1). */
    static final double MINIMUM = 2.0;

    /** Congestion window in packets. */
    double cwnd = INITIAL;
    /** Below this the start-up is in charge. Infinite until the first reduction or the start-up's exit. */
    double ssthresh = Double.POSITIVE_INFINITY;

    /** The start-up is in charge. */
    boolean starting() {
        return cwnd < ssthresh;
    }

    /** Grows by {@code packets}, but not past the slow-start threshold: the policy takes over there. */
    void open(double packets) {
        cwnd = Math.min(cwnd + packets, Math.max(ssthresh, cwnd));
    }

    void copyFrom(Window other) {
        cwnd = other.cwnd;
        ssthresh = other.ssthresh;
    }

    /** The same bytes in packets of another size. */
    void scale(double scale) {
        cwnd = Math.max(cwnd * scale, 1.0);
        ssthresh = Math.max(ssthresh * scale, 1.0);
    }
}
