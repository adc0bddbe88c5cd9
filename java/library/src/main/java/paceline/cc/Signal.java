package paceline.cc;

/** What asks for a reduction. */
enum Signal {
    /** Packets lost, found by acknowledgements. */
    LOSS,
    /** A congestion echo. */
    ECN,
    /** The retransmission timer. */
    TIMEOUT
}
