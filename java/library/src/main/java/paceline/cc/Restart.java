package paceline.cc;

/** The flow sends again after a silence with nothing in flight. May be used again. */
public final class Restart {
    /** Now, in nanoseconds. */
    public long now;
    /** Time since the last packet left, in nanoseconds. */
    public long idle;
    /** The flow's retransmission timeout at present, without back-off, in nanoseconds. */
    public long rto;

    /** Everything is zero. */
    public Restart() {}
}
