package paceline.cc;

/** Who shapes the sending rate while losses are repaired. */
public enum Recovery {
    /** The datapath glides to the controller's reduced window by proportional rate reduction (RFC 6937). */
    PRR,
    /** The controller's window counts at every moment (BBR, Copa, MDI). */
    CONTROLLER
}
