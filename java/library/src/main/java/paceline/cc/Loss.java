package paceline.cc;

/** Packets were declared lost, not by a timeout: that is {@link Timeout}. May be used again. */
public final class Loss {
    /** Now, in nanoseconds. */
    public long now;
    /** The packets, in sending order. At least one. */
    public final Packets<Lost> packets = new Packets<>(Lost::new);
    /** Payload bytes lost (the sum over the packets). */
    public long bytes;
    /** Bytes in flight before the packets were taken off. */
    public long priorInFlight;
    /** Bytes in flight now. */
    public long inFlight;
    /** First loss of an episode: recovery starts here. A reduction is due once per episode. */
    public boolean newEpisode;

    /** No packet. */
    public Loss() {}
}
