package paceline.cc;

/**
 * The answer to "when may the next packet leave?": the time from the start of the packet last sent to the start of the
 * next one. One object takes the answers of all calls: {@link Controller#pacing}.
 */
public final class Pacing {
    /** What {@link #value} means. */
    public enum Kind {
        /** The packet leaves as soon as the window allows. */
        FREE,
        /** On average this rate, in bytes per second; small bursts that keep the average are fine. */
        RATE,
        /** Exactly this gap in nanoseconds: no bursts, no catching up; {@link Units#NEVER} holds the flow. */
        GAP
    }

    /** What the value means. */
    public Kind kind = Kind.FREE;
    /** Bytes per second or nanoseconds; zero where the packet is free. */
    public long value;

    /** As soon as the window allows. */
    public Pacing() {}

    /** Answers: as soon as the window allows. */
    void free() {
        set(Kind.FREE, 0);
    }

    /** Answers: at this many bytes per second. */
    void rate(long rate) {
        set(Kind.RATE, rate);
    }

    /** Answers: after a gap of this many nanoseconds. */
    void gap(long nanos) {
        set(Kind.GAP, nanos);
    }

    private void set(Kind kind, long value) {
        this.kind = kind;
        this.value = value;
    }

    /**
     * The gap before the next packet.
     *
     * @param bytes payload of the packet last sent
     * @return nanoseconds; {@link Units#NEVER} holds the flow until another event
     */
    public long gapAfter(long bytes) {
        switch (kind) {
            case RATE:
                return Units.timeFor(bytes, value);
            case GAP:
                return value;
            default:
                return 0;
        }
    }

    @Override
    public String toString() {
        return kind == Kind.FREE ? "free" : kind.name().toLowerCase(java.util.Locale.ROOT) + " " + value;
    }
}
