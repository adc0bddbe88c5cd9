package paceline.cc;

/** Where the datapath's loss recovery stands. */
public enum Phase {
    /** No loss is being repaired. */
    OPEN,
    /** Reducing after an ECN echo (RFC 3168), nothing to repair. */
    CWR,
    /** Fast recovery: from the first loss until everything sent before it has been acknowledged. */
    RECOVERY,
    /** After a retransmission timeout, until everything sent before it has been acknowledged. */
    LOSS
}
