package paceline.cc;

/** Finds the first window. In charge while the window is below the slow-start threshold. */
abstract class StartUp {
    /** Something was delivered: grow the window, or end the start-up by a threshold that is not above the window. */
    abstract void onAck(Ack ack, Window window);

    /** The start-up is over for another reason: a loss, a mark or a timeout. */
    void onCongestion(Signal signal) {}

    /** limit(maxFS) of {@link MaxFlight} in packets, while the start-up is in charge. */
    double limit(Window window, double maxFlight) {
        return 2.0 * maxFlight;
    }

    /** The slow-start threshold at the start of the flow in packets, where the start-up sets one. */
    double threshold() {
        return Double.POSITIVE_INFINITY;
    }

    /** Full packets have {@code mss} payload bytes from now on. */
    abstract void onMss(long mss);

    /** As {@link Controller#describe}. */
    void describe(Variables variables) {}
}
