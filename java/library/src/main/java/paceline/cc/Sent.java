package paceline.cc;

/** A packet has just left. The object belongs to the caller, who may use it again for the next packet. */
public final class Sent {
    /** Now, in nanoseconds. */
    public long now;
    /** Position of the packet's first payload byte in the stream. */
    public long seq;
    /** Payload bytes. */
    public long bytes;
    /** Bytes in flight, this packet included. */
    public long inFlight;
    /** The payload was sent before. */
    public boolean retransmission;
    /** The application had less to send than the window allows. */
    public boolean appLimited;
    /** Bytes handed over by the application and not sent, these not included; {@link Units#NEVER}: without end. */
    public long unsent;

    /** Everything is zero. */
    public Sent() {}
}
