package paceline.alcc;

import java.nio.ByteBuffer;

/** Numbers of variable length (RFC 9000 section 16), in as few bytes as they take. */
public final class Varint {
    /** Numbers are below this. */
    public static final long LIMIT = 1L << 62;
    /** {@link #read}: more bytes are needed. */
    public static final long SHORT = -1;
    /** {@link #read}: the number could have been written in fewer bytes. */
    public static final long LONG = -2;

    private Varint() {}

    /**
     * How many bytes a number takes.
     *
     * @param value from 0 to below {@link #LIMIT}
     * @return 1, 2, 4 or 8
     */
    public static int length(long value) {
        if (value < 0x40) {
            return 1;
        }
        if (value < 0x4000) {
            return 2;
        }
        return value < 0x4000_0000L ? 4 : 8;
    }

    /**
     * Writes a number.
     *
     * @param value from 0 to below {@link #LIMIT}
     * @param out with room for it
     * @throws IllegalArgumentException when the value is outside
     */
    public static void write(long value, ByteBuffer out) {
        if (value < 0 || value >= LIMIT) {
            throw new IllegalArgumentException("a number of a frame is from 0 to below 2^62, not " + value);
        }
        int length = length(value);
        int mark = length == 1 ? 0 : length == 2 ? 0x40 : length == 4 ? 0x80 : 0xc0;
        int first = (int) (value >>> 8 * (length - 1));
        out.put((byte) (first | mark));
        for (int shift = 8 * (length - 2); shift >= 0; shift -= 8) {
            out.put((byte) (value >>> shift));
        }
    }

    /**
     * Reads a number; the buffer moves on only when there is a whole and well written one.
     *
     * @param in where it begins
     * @return the number, {@link #SHORT} or {@link #LONG}
     */
    public static long read(ByteBuffer in) {
        if (!in.hasRemaining()) {
            return SHORT;
        }
        int at = in.position();
        int first = in.get(at) & 0xff;
        int length = 1 << (first >> 6);
        if (in.remaining() < length) {
            return SHORT;
        }
        long value = first & 0x3f;
        for (int i = 1; i < length; i++) {
            value = value << 8 | in.get(at + i) & 0xff;
        }
        if (length(value) != length) {
            return LONG;
        }
        in.position(at + length);
        return value;
    }
}
