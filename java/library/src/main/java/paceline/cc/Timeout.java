package paceline.cc;

/** The retransmission timer fired: what left a round trip ago or more is taken for lost. May be used again. */
public final class Timeout {
    /** Now, in nanoseconds. */
    public long now;
    /** The packets that it declares lost, in sending order, as far as the datapath knows them. */
    public final Packets<Lost> packets = new Packets<>(Lost::new);
    /** Bytes in flight before. */
    public long priorInFlight;
    /** Bytes still thought to be in flight: sent less than a round trip ago (RFC 8985 section 6.3). */
    public long inFlight;
    /** How many times in a row, from 1. */
    public long count;

    /** No packet. */
    public Timeout() {}
}
