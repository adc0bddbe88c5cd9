package paceline.alcc;

import java.nio.ByteBuffer;
import paceline.alcc.FrameException.Rule;

/** One end of a framed connection: checks acknowledgements, and knows when one of its own is due. No socket, no clock. */
final class FramedEnd {
    /** This many frames are acknowledged at once: acknowledgements clock the sender then (RFC 5681 section 4.2). */
    private static final int EACH = 2;

    private boolean open;
    private long sent;
    private long acked;
    /** One past the last byte of the newest complete frame, and when it came. */
    private long position;
    private long cameAt;
    /** Frames that no acknowledgement covers. */
    private int news;
    /** Before this no acknowledgement of a single frame leaves. */
    private long ackFrom = Long.MIN_VALUE;

    /** Payload bytes framed so far. */
    long sent() {
        return sent;
    }

    /** Those of them that have been acknowledged. */
    long acked() {
        return acked;
    }

    /** Writes what goes in front of the next {@code length} bytes of payload; 0 bytes are a heartbeat. */
    void writeData(int length, long note, ByteBuffer out) {
        begin(out);
        Frames.writeData(sent, length, note, out);
        sent += length;
    }

    /** Writes an acknowledgement, if one is due at {@code now}; says whether. */
    boolean writeAck(long now, ByteBuffer out) {
        if (now < nextAck()) {
            return false;
        }
        begin(out);
        Frames.writeAck(position, now - cameAt, out);
        news = 0;
        ackFrom = now + Frames.ACK_EVERY_NANOS;
        return true;
    }

    /** When an acknowledgement is due; {@link Long#MAX_VALUE} until something arrives. */
    long nextAck() {
        if (news == 0) {
            return Long.MAX_VALUE;
        }
        return news >= EACH ? cameAt : Math.max(ackFrom, cameAt);
    }

    /** A data frame that ends at {@code end} was complete at {@code now}. */
    void took(long now, long end) {
        position = end;
        cameAt = now;
        news = Math.min(news + 1, EACH);
    }

    /** The peer acknowledged up to {@code upto}. */
    void heard(long upto) throws FrameException {
        if (upto > sent) {
            throw new FrameException(Rule.UNSENT,
                    "the peer acknowledged up to " + upto + " although " + sent + " bytes were sent");
        }
        if (upto < acked) {
            throw new FrameException(Rule.BACKWARDS, "the peer acknowledged up to " + upto + " after " + acked);
        }
        acked = upto;
    }

    private void begin(ByteBuffer out) {
        if (!open) {
            open = true;
            out.put((byte) Frames.VERSION);
        }
    }
}
