package paceline.cc;

/** The RTT samples of one round trip. It ends when everything sent before its start has been delivered. */
final class HyStartRound {
    /** RTT samples before a round may end the start-up (Linux {@code HYSTART_MIN_SAMPLES}, RFC 9406 N_RTT_SAMPLE). */
    static final long SAMPLES = 8;
    /** Smallest rise of the RTT that counts as a queue (Linux {@code HYSTART_DELAY_MIN}, RFC 9406 MIN_RTT_THRESH). */
    private static final long RISE_MIN = 4 * Units.MILLISECOND;
    /** Largest rise that is still tolerated (Linux {@code HYSTART_DELAY_MAX}, RFC 9406 MAX_RTT_THRESH). */
    private static final long RISE_MAX = 16 * Units.MILLISECOND;
    /** Share of the RTT that counts as a rise, between the two bounds (Linux {@code >> 3}, RFC 9406 MIN_RTT_DIVISOR). */
    private static final long RISE_DIVISOR = 8;

    /** No round has begun. */
    boolean none = true;
    /** {@link Ack#next} at its start. */
    long end;
    /** Smallest RTT in it; {@link Units#NEVER} before a sample. */
    long min;
    long samples;

    void begin(Ack ack) {
        none = false;
        end = ack.next;
        min = Units.NEVER;
        samples = 0;
    }

    void sample(long rtt) {
        min = Math.min(min, rtt);
        samples++;
    }

    /** The rise over {@code base} that is taken for a queue. */
    static long rise(long base) {
        return Math.max(RISE_MIN, Math.min(base / RISE_DIVISOR, RISE_MAX));
    }
}
