package paceline.cc;

/**
 * An acknowledgement arrived and delivered something, or carried news of congestion. The object belongs to the caller, who
 * may use it again: set every field.
 */
public final class Ack {
    /** Now, in nanoseconds. */
    public long now;
    /**
     * The packets newly delivered, in sending order; none for an acknowledgement that only carried marks, and for the
     * answer to a handshake, which brings the first RTT before any data has left.
     */
    public final Packets<Acked> packets = new Packets<>(Acked::new);
    /** Payload bytes newly delivered (the sum over the packets). */
    public long bytes;
    /** RTT in nanoseconds of the newest packet that was never retransmitted; {@link Units#NEVER} where there is none. */
    public long rtt = Units.NEVER;
    /** Smoothed RTT in nanoseconds (RFC 6298); zero before the first sample. */
    public long srtt;
    /** Smallest RTT in nanoseconds since the flow began; {@link Units#NEVER} before the first sample. */
    public long minRtt = Units.NEVER;
    /** Delivery-rate sample, when a valid one could be made. */
    public final RateSample rate = new RateSample();
    /** Bytes in flight before this acknowledgement. */
    public long priorInFlight;
    /** Bytes in flight now. */
    public long inFlight;
    /** Bytes found lost by this acknowledgement (already reported through {@link Controller#onLoss}). */
    public long lostBytes;
    /** Newly delivered bytes that carried a CE mark. With classic feedback: all bytes when ECE was set. */
    public long ceBytes;
    /** Packets behind {@link #ceBytes}. */
    public long cePackets;
    /** First congestion echo of this round trip: a controller that answers marks by a reduction reduces now. */
    public boolean echo;
    /** Payload bytes delivered since the flow began, these included. */
    public long delivered;
    /** Everything below this position has been delivered. */
    public long una;
    /** Position of the next new byte to send. */
    public long next;
    /** Where loss recovery stands after this acknowledgement. */
    public Phase phase = Phase.OPEN;
    /**
     * The window, not the application, limited the flow when the newest of these packets was sent. Windows grow only then
     * (RFC 9438 section 4.2, RFC 5681 section 4.1 by way of RFC 7661).
     */
    public boolean windowLimited;

    /** No packet, no RTT. */
    public Ack() {}

    /** Newly delivered packets, counted in units of {@code mss} bytes. */
    double packetsOf(long mss) {
        return bytes / (double) mss;
    }
}
