package paceline.cc;

/** A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation; Linux {@code tcp_rate.c}). */
public final class RateSample {
    /** Whether there is one. Nothing else counts where there is none. */
    public boolean valid;
    /** Bytes delivered over the interval. */
    public long delivered;
    /** Length of the interval in nanoseconds: the longer of the sending and the acknowledging interval. Never zero. */
    public long interval;
    /**
     * The flow's delivered bytes when the sampled packet was sent: a round trip ends when this passes the delivered count
     * noted at its start.
     */
    public long priorDelivered;
    /** The sampled packet was sent while the application limited the flow. */
    public boolean appLimited;
    /** The sampled packet was a retransmission. */
    public boolean retransmission;

    RateSample() {}
}
