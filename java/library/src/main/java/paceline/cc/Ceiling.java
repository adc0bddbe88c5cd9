package paceline.cc;

/**
 * A ceiling over the window of a controller that is steered by delay, learnt from heavy loss. Why it is wanted, and where it
 * comes from, is at the head of {@code core/cc/src/ceiling.rs}.
 */
final class Ceiling {
    /** Packets of a cycle at the least: two losses among them are the 5 % (mvfst: 2 over its tolerance) ... */
    private static final long PACKETS = 40;
    /** ... below a low ceiling those of this many round trips, but not fewer than these (our choice), ... */
    private static final double ROUND_TRIPS = 20.0;
    private static final double LEAST_PACKETS = 8.0;
    /** ... or this many losses among fewer (our choice: a tenth of them). */
    private static final long LOSSES = 4;
    /** Packets of a cycle at the least while a flow starts (our choice: the initial window). */
    private static final long FIRST_PACKETS = 10;
    /** Cycles in a row without a clear answer, after which half of their packets is forgotten (our choice). */
    private static final int MANY = 64;
    /** One packet in this many may be lost: 5 % (mvfst, {@code lossToleranceParam_}), and 2 % beside a queue (BBRv3). */
    private static final long TOLERATED = 20;
    private static final long TOLERATED_IN_QUEUES = 50;
    /** How far losses must be beyond that: squares of standard deviations, times the square of the above, per packet. */
    private static final long DOUBT = 10 * 19;
    private static final long DOUBT_IN_QUEUES = 49;
    /** The largest share that a cycle calls lost (our choice: losses of a burst are known before what arrives of it). */
    private static final double MOST_LOST = 0.75;
    /** Shares of loss up to which the ceiling rises (as above: 2 %), and up to which its steps double (our choice). */
    private static final double RISES = 0.02;
    private static final double DOUBLES = 0.01;
    /** The first step up is this part of the ceiling, and at least this many packets (our choice). */
    private static final double FIRST_STEP = 1.0 / 32.0;
    private static final double LEAST_STEP = 1.0 / 16.0;
    /** Packets that are counted at most (our choice: squares of them stay far from overflow). */
    private static final long MOST = 1 << 24;

    /** What else says that losses come from a queue that is full. */
    enum Signs {
        /** The window still doubles: many may be starting. */
        STARTING,
        /** The delay has not gone down to its smallest for long. */
        QUEUE,
        /** Nothing does. */
        UNCLEAR
    }

    /** What a cycle showed. */
    enum Verdict {
        /** It is not over. */
        NONE,
        /** No more loss than is tolerated. */
        CLEAN,
        /** More: {@link #share} says how much. */
        LOSSY
    }

    /** The largest window in packets; infinite while no loss has shown one. */
    double packets = Double.POSITIVE_INFINITY;
    /** Share of the packets lost in the last cycle that was lossy. */
    double share;

    private double step;
    /** The ceiling was lowered in the last cycle; before that it and its step were so. */
    private boolean lowered;
    private double packetsBefore;
    private double stepBefore;
    private long since;
    /** Cycles whose packets are counted, the present one left out. */
    private int cycles;
    private long counted;
    private long lost;

    private static double firstStep(double ceiling) {
        return Math.max(FIRST_STEP * ceiling, LEAST_STEP);
    }

    /** No ceiling yet. */
    void reset() {
        packets = Double.POSITIVE_INFINITY;
        step = 0.0;
        lowered = false;
        since = 0;
        begin();
    }

    /** Packets of a cycle at the least. */
    private long enough() {
        return (long) Math.max(Math.min(ROUND_TRIPS * packets, PACKETS), LEAST_PACKETS);
    }

    /** What was counted so far says nothing of the path any more. */
    void begin() {
        cycles = 0;
        counted = 0;
        lost = 0;
    }

    /**
     * Counts packets delivered and lost. A cycle ends after two round trips (one while the flow starts) and some packets: the
     * ceiling rises where it was clean, and the caller is to reduce and to {@link #lower} it where it was not.
     */
    Verdict count(long now, long rtt, long delivered, long missing, Signs signs) {
        counted = Math.min(counted + delivered + missing, MOST);
        lost = Math.min(lost + missing, MOST);
        boolean starting = signs == Signs.STARTING;
        long end = Units.plus(since, starting ? rtt : Units.plus(rtt, rtt));
        if (now <= end || (counted < (starting ? FIRST_PACKETS : enough()) && lost < LOSSES)) {
            return Verdict.NONE;
        }
        since = now;
        boolean queue = signs == Signs.QUEUE;
        long excess = Math.max((queue ? TOLERATED_IN_QUEUES : TOLERATED) * lost - counted, 0);
        double part = lost / (double) counted;
        if (excess * excess > (queue ? DOUBT_IN_QUEUES : DOUBT) * counted) {
            share = Math.min(part, MOST_LOST);
            begin();
            return Verdict.LOSSY;
        }
        lowered = false;
        if (part > RISES) {
            cycles++;
            if (cycles >= MANY) {
                cycles = MANY / 2;
                counted /= 2;
                lost /= 2;
            }
            step = firstStep(packets);
            return Verdict.CLEAN;
        }
        begin();
        if (part > DOUBLES) {
            step = firstStep(packets);
        }
        packets += step;
        step *= 2.0;
        return Verdict.CLEAN;
    }

    /** The path carries no more than {@code window} packets. */
    void lower(double window) {
        lowered = true;
        packetsBefore = packets;
        stepBefore = step;
        packets = window;
        step = firstStep(window);
    }

    /** The last losses were spurious: packets came late. */
    void forgive() {
        if (lowered) {
            packets = packetsBefore;
            step = stepBefore;
            lowered = false;
        }
        lost = 0;
    }

    /** Packets have another size: {@code scale} of them are what one was. */
    void scale(double scale) {
        packets *= scale;
        step *= scale;
        packetsBefore *= scale;
        stepBefore *= scale;
    }
}
