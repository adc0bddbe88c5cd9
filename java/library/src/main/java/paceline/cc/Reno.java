package paceline.cc;

/** NewReno's window (RFC 5681, RFC 6582): one packet per round trip up, half down. */
final class Reno extends Policy {
    /** Multiplicative decrease (RFC 5681, equation 4). */
    private static final double BETA = 0.5;

    private final Ecn ecn;
    private long mss;

    Reno(Env env, Ecn ecn) {
        this.ecn = ecn;
        mss = env.mss;
    }

    @Override
    void grow(Ack ack, Window window) {
        window.cwnd += ack.packetsOf(mss) / window.cwnd;
    }

    /**
     * RFC 5681 equation 4 takes the flight; as in Linux we take the window, which grows only while it is used: when losses
     * are found the flight may be nearly empty.
     */
    @Override
    double reduce(Window window) {
        return BETA * window.cwnd;
    }

    @Override
    void onMss(long mss, double scale) {
        this.mss = mss;
    }

    @Override
    Ecn ecn() {
        return ecn;
    }
}
