package paceline.cc;

/**
 * A drain: for about two round trips the window is at its smallest, so that RTTmin can be seen again (our choice, as BBR's
 * ProbeRTT; Cardwell et al., ACM Queue 2016). Like flows drain at the same time, and together they empty the queue.
 */
final class CopaDrain {
    /** A drain is in progress. */
    boolean active;
    /** The window before it in packets. */
    double cwnd;
    /** maxFS before it, which comes back with the window. */
    double maxFlight;
    private long until;
    private long standing;
    /** When the smallest RTT of the drain was seen, and that RTT. */
    private long seen;
    private long lowest;

    /** Lasts until what was in flight has arrived, and one smallest RTT. */
    void begin(long now, double cwnd, double maxFlight, CopaDelays delays) {
        active = true;
        this.cwnd = cwnd;
        this.maxFlight = maxFlight;
        until = Units.plus(Units.plus(now, delays.latest), delays.min());
        standing = delays.standing();
        seen = now;
        lowest = delays.latest;
    }

    /** Takes an RTT; true when the drain is over. */
    boolean update(long now, long rtt) {
        if (rtt <= lowest) {
            seen = now;
            lowest = rtt;
        }
        return now >= until;
    }

    /** Renews RTTmin, and answers the window that keeps the rate from before the drain without the queue. */
    double finish(CopaDelays delays) {
        active = false;
        delays.renew(seen, lowest);
        return cwnd * Units.seconds(delays.min()) / Units.seconds(standing);
    }
}
