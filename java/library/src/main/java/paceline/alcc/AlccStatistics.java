package paceline.alcc;

import java.util.Locale;

/** What a connection has measured so far. RTTs are those of acknowledgements, without what they waited at the receiver. */
public final class AlccStatistics {
    /** Smallest RTT in nanoseconds; 0 before the first. */
    public final long rttMin;
    /** Median RTT in nanoseconds, to 2 %. */
    public final long rttMedian;
    /** 95 % of the RTTs are below this; nanoseconds, to 2 %. */
    public final long rttP95;
    /** Largest RTT in nanoseconds. */
    public final long rttMax;
    /** Bytes that the application has written. */
    public final long written;
    /** Those of them that the peer has acknowledged. */
    public final long delivered;
    /** Bytes of the peer's stream that have come. */
    public final long received;
    /** Losses that the layer saw: TCP repaired a hole ({@link Flow}). */
    public final long losses;
    /** Silences as long as TCP's timeout. */
    public final long timeouts;
    /** What the controller permits to be in flight, in bytes. */
    public final long window;
    /** Bytes in flight. */
    public final long inFlight;
    /** Time since the connection stood, in nanoseconds. */
    public final long age;

    private AlccStatistics(Builder from) {
        rttMin = from.rttMin;
        rttMedian = from.rttMedian;
        rttP95 = from.rttP95;
        rttMax = from.rttMax;
        written = from.written;
        delivered = from.delivered;
        received = from.received;
        losses = from.losses;
        timeouts = from.timeouts;
        window = from.window;
        inFlight = from.inFlight;
        age = from.age;
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%d bytes delivered, %d received, RTT %.1f/%.1f/%.1f/%.1f ms, %d losses, %d timeouts",
                delivered, received, rttMin / 1e6, rttMedian / 1e6, rttP95 / 1e6, rttMax / 1e6, losses, timeouts);
    }

    /** Collects them. */
    static final class Builder {
        long written;
        long delivered;
        long received;
        long losses;
        long timeouts;
        long window;
        long inFlight;
        long age;
        private long rttMin;
        private long rttMedian;
        private long rttP95;
        private long rttMax;

        void rtt(RttHistogram histogram) {
            rttMin = histogram.min();
            rttMedian = histogram.quantile(0.5);
            rttP95 = histogram.quantile(0.95);
            rttMax = histogram.max();
        }

        AlccStatistics build() {
            return new AlccStatistics(this);
        }
    }
}
