package paceline.cc;

/** Grows and reduces the window after the start-up. */
abstract class Policy {
    /** Something was delivered outside start-up and recovery, and the window limited the flow: grow. */
    abstract void grow(Ack ack, Window window);

    /** limit(maxFS) of {@link MaxFlight} in packets, while the policy is in charge. */
    double limit(Window window, double maxFlight) {
        return maxFlight + 1.0;
    }

    /** Every acknowledgement, before anything else. */
    void observe(Ack ack) {}

    /** A reduction is due: the new slow-start threshold in packets, before the floor of {@link Window#MINIMUM}. */
    abstract double reduce(Window window);

    /** The retransmission timer fired: what it makes forgotten. */
    void onTimeout() {}

    /** The last reduction was a mistake; the window has been restored. */
    void undo() {}

    /** Full packets have {@code mss} payload bytes from now on; {@code scale} packets of that size are what one was. */
    abstract void onMss(long mss, double scale);

    /** The flow was idle for {@code idle} nanoseconds. */
    void onRestart(long now, long idle) {}

    /** Use of ECN. */
    abstract Ecn ecn();

    /** As {@link Controller#describe}. */
    void describe(Variables variables) {}
}
