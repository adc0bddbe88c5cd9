package paceline.cc;

/** One packet declared lost. */
public final class Lost {
    /** As {@link Sent#seq}. */
    public long seq;
    /** Payload bytes. */
    public long bytes;
    /** When it was (last) sent, in nanoseconds. */
    public long sentAt;
    /** What {@link Controller#onSent} answered for it. */
    public long tag;

    Lost() {}
}
