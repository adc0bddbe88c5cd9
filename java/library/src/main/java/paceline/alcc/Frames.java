package paceline.alcc;

import java.nio.ByteBuffer;

/**
 * Frames as they are written (docs/design/alcc-wire.md). Each direction of a connection begins with {@link #VERSION}; then frames
 * follow, data and acknowledgements of the other direction's data mixed. A frame has one form.
 */
public final class Frames {
    /** The first byte of each direction. */
    public static final int VERSION = 1;
    /** Largest payload of a data frame in bytes: a dozen packets, so that nothing waits long behind one. */
    public static final int MAX_PAYLOAD = 16 * 1024;
    /** Largest feedback of a receiver half in bytes. */
    public static final int MAX_FEEDBACK = 64;
    /** Longest wait that an acknowledgement states, in microseconds: an hour. */
    public static final long MAX_DELAY_MICROS = 3_600_000_000L;
    /** Least time between two acknowledgements that cover one frame, in nanoseconds: 5 ms. */
    public static final long ACK_EVERY_NANOS = 5_000_000;
    /** Most bytes in front of a payload: kind, position, note, length. */
    public static final int MAX_HEADER = 1 + 8 + 8 + 4;
    /** Most bytes of an acknowledgement. */
    public static final int MAX_ACK = 1 + 8 + 4 + 2 + MAX_FEEDBACK;

    static final int DATA = 1;
    static final int DATA_WITH_NOTE = 2;
    static final int ACK = 3;
    static final int ACK_WITH_FEEDBACK = 4;

    private Frames() {}

    /**
     * Writes the head of a data frame; its payload follows it.
     *
     * @param position of the first payload byte
     * @param length payload bytes, at most {@link #MAX_PAYLOAD}; 0 for a heartbeat
     * @param note the controller's message to its receiver half, 0 for none
     * @param out with room for {@link #MAX_HEADER} bytes
     * @throws IllegalArgumentException when this end would break the format; nothing is written
     */
    public static void writeData(long position, int length, long note, ByteBuffer out) {
        if (length < 0 || length > MAX_PAYLOAD) {
            throw new IllegalArgumentException("a payload has 0 to " + MAX_PAYLOAD + " bytes, not " + length);
        }
        if (position < 0 || position + length >= Varint.LIMIT) {
            throw new IllegalArgumentException("a stream has less than 2^62 bytes; position " + position + " is outside");
        }
        out.put((byte) (note == 0 ? DATA : DATA_WITH_NOTE));
        Varint.write(position, out);
        if (note != 0) {
            for (int shift = 56; shift >= 0; shift -= 8) {
                out.put((byte) (note >>> shift));
            }
        }
        Varint.write(length, out);
    }

    /**
     * Writes an acknowledgement without feedback: no controller of this library has a receiver half.
     *
     * @param position one past the last byte of the newest complete data frame
     * @param delayNanos how long that frame has waited; whole microseconds are stated, an hour at most
     * @param out with room for {@link #MAX_ACK} bytes
     */
    public static void writeAck(long position, long delayNanos, ByteBuffer out) {
        out.put((byte) ACK);
        Varint.write(position, out);
        Varint.write(Math.min(Math.max(delayNanos, 0) / 1000, MAX_DELAY_MICROS), out);
    }
}
