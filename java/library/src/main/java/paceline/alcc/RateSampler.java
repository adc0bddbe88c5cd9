package paceline.alcc;

/** Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, Linux {@code tcp_rate.c}) in bytes. */
final class RateSampler {
    private long delivered;
    private long deliveredAt;
    private long firstSentAt;
    /** Chunks sent until {@code delivered} passes this are application-limited; 0 when not limited. */
    private long appLimitedUntil;
    /** The newest sample: bytes and nanoseconds. */
    private long sampleBytes;
    private long sampleInterval;

    /** A chunk is about to leave while nothing else is outstanding. */
    void restart(long now) {
        firstSentAt = now;
        deliveredAt = now;
    }

    /** The chunk takes the sampler's state with it. */
    void stamp(Chunk chunk) {
        chunk.priorDelivered = delivered;
        chunk.priorDeliveredAt = deliveredAt;
        chunk.firstSentAt = firstSentAt;
        chunk.appLimited = isAppLimited();
    }

    long delivered() {
        return delivered;
    }

    boolean isAppLimited() {
        return appLimitedUntil != 0;
    }

    /** The application ran dry with this many bytes on the way. */
    void markAppLimited(long inFlight) {
        appLimitedUntil = Math.max(delivered + inFlight, 1);
    }

    /**
     * Bytes were delivered, {@code newest} being the last sent among them, which left at {@code sentAt}. Says whether there is a
     * sample: there is none where the interval is none, or shorter than the smallest RTT.
     */
    boolean deliver(long now, long bytes, Chunk newest, long sentAt, long minRtt) {
        delivered += bytes;
        deliveredAt = now;
        firstSentAt = sentAt;
        if (delivered > appLimitedUntil) {
            appLimitedUntil = 0;
        }
        long send = Math.max(sentAt - newest.firstSentAt, 0);
        long interval = Math.max(send, Math.max(now - newest.priorDeliveredAt, 0));
        if (interval == 0 || minRtt != Long.MAX_VALUE && interval < minRtt) {
            return false;
        }
        sampleBytes = delivered - newest.priorDelivered;
        sampleInterval = interval;
        return true;
    }

    long sampleBytes() {
        return sampleBytes;
    }

    long sampleInterval() {
        return sampleInterval;
    }

    /** The newest sample in bytes per second; 0 before the first. */
    double rate() {
        return sampleInterval == 0 ? 0 : sampleBytes * 1e9 / sampleInterval;
    }
}
