package paceline.cc;

/**
 * The end of an outage: nothing of what was in flight has arrived for long, and now something has. What was sent before
 * waited for the path, not in a queue. Reasons are at the head of {@code core/cc/src/copa/outage.rs}.
 */
final class CopaOutage {
    /** Beyond a smallest RTT a silence of more than this is an outage: TCP's first timeout (RFC 6298, section 2.1). */
    private static final long SILENCE = Units.SECOND;

    private static final long NONE = -1;

    private long since = NONE;
    private long ended = NONE;

    /** A packet leaves. To a timeout all that was in flight is lost: what it sends again begins the silence anew. */
    void onSent(Sent sent) {
        if (sent.inFlight <= sent.bytes) {
            since = sent.now;
        }
    }

    /**
     * Something arrives; true when that ends an outage. Before the first RTT, {@link Units#NEVER}, that is believed once, as a
     * long path looks like one.
     */
    boolean ends(long now, long rttMin) {
        long silence = since == NONE ? 0 : Units.since(now, since);
        since = now;
        boolean ends =
                rttMin == Units.NEVER ? ended == NONE && silence > SILENCE : silence > Units.plus(rttMin, SILENCE);
        if (ends) {
            ended = now;
        }
        return ends;
    }

    /** How many of these were sent since it ended: a path that is dark says nothing of how much it carries. */
    int lostSince(Packets<Lost> packets) {
        int lost = 0;
        for (int index = 0; index < packets.count(); index++) {
            if (ended == NONE || packets.get(index).sentAt >= ended) {
                lost++;
            }
        }
        return lost;
    }

    /** All of these were sent before it ended. */
    boolean delayed(Packets<Acked> packets) {
        int count = packets.count();
        for (int index = 0; index < count; index++) {
            if (ended == NONE || packets.get(index).sentAt >= ended) {
                return false;
            }
        }
        return count > 0;
    }
}
