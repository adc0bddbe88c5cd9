package paceline.cc;

/** What a controller is given once, when it is made. */
public final class Env {
    /** Payload bytes of a full packet (TCP's MSS): from 1 to 2^32-1. */
    public final long mss;
    /** Seeds the controller's own generator, when it needs one (BBR's probing phase). All 64 bits count. */
    public final long seed;
    /**
     * The caller paces what the controller leaves free (Linux with fq), so that acknowledgements come
     * spread over the round trip.
     */
    public final boolean paced;

    /** 1448 bytes (1500 less IPv4, TCP and time-stamp headers), seed 1, unpaced. */
    public Env() {
        this(1448, 1, false);
    }

    /**
     * An environment.
     *
     * @param mss payload bytes of a full packet
     * @param seed of the controller's generator
     * @param paced whether the caller spreads what the controller leaves free
     * @throws IllegalArgumentException when {@code mss} is not from 1 to 2^32-1
     */
    public Env(long mss, long seed, boolean paced) {
        if (mss < 1 || mss > 0xffff_ffffL) {
            throw new IllegalArgumentException("mss=" + mss + " is not a number of bytes from 1 to 4294967295");
        }
        this.mss = mss;
        this.seed = seed;
        this.paced = paced;
    }
}
