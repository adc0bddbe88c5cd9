package paceline.cc;

/** How a controller uses explicit congestion notification. */
public enum Ecn {
    /** Packets are not ECN-capable. */
    OFF,
    /** ECT(0); the receiver latches ECE until CWR (RFC 3168). */
    CLASSIC
}
