package paceline.transfer;

import paceline.alcc.AlccStatistics;

/** What a transfer did. */
public final class Summary {
    /** Bytes that this attempt has moved. */
    public final long bytes;
    /** From which byte on. */
    public final long resumedFrom;
    /** From the request to the last answer, in nanoseconds. */
    public final long nanos;
    /** Of the connection. */
    public final AlccStatistics statistics;

    Summary(long bytes, long resumedFrom, long nanos, AlccStatistics statistics) {
        this.bytes = bytes;
        this.resumedFrom = resumedFrom;
        this.nanos = nanos;
        this.statistics = statistics;
    }

    /**
     * Throughput of what was moved.
     *
     * @return megabits (10^6) per second
     */
    public double mbps() {
        return nanos == 0 ? 0 : bytes * 8e3 / nanos;
    }
}
