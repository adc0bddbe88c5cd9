package paceline.cc;

/** One newly delivered packet. */
public final class Acked {
    /** Position of its first payload byte, as in {@link Sent#seq}. */
    public long seq;
    /** Payload bytes. */
    public long bytes;
    /** When it was (last) sent, in nanoseconds. */
    public long sentAt;
    /** What {@link Controller#onSent} answered for it. */
    public long tag;
    /** It was sent more than once, so its RTT is ambiguous (Karn). */
    public boolean retransmitted;
    /** It was sent while the application limited the flow. */
    public boolean appLimited;
    /** It carried a CE mark. */
    public boolean ce;

    Acked() {}
}
