package paceline.cc;

/** Slow start (RFC 5681 section 3.1 with appropriate byte counting): one packet for each packet acknowledged. */
final class SlowStart extends StartUp {
    private final double threshold;
    private long mss;

    /** Slow start that ends at {@code threshold} packets, which may be infinite. */
    SlowStart(Env env, double threshold) {
        this.threshold = threshold;
        mss = env.mss;
    }

    @Override
    void onAck(Ack ack, Window window) {
        if (ack.windowLimited) {
            window.open(ack.packetsOf(mss));
        }
    }

    @Override
    double threshold() {
        return threshold;
    }

    @Override
    void onMss(long mss) {
        this.mss = mss;
    }
}
