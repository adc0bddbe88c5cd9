package paceline.alcc;

import java.nio.ByteBuffer;
import paceline.alcc.FrameException.Rule;

/** Reads one direction of a connection, in whatever pieces it comes. Payload is never copied here. */
public final class FrameDecoder {
    /** Most bytes of a frame that are kept until they are complete: an acknowledgement with the longest feedback. */
    private static final int KEPT = 1 + 3 * 8 + Frames.MAX_FEEDBACK;

    private boolean open;
    /** The beginning of a frame that is not complete; in the state of being filled. */
    private final ByteBuffer kept = ByteBuffer.allocate(KEPT);
    /** Payload bytes of the data frame under way that are still to come; -1 outside of one. */
    private int left = -1;
    private long note;
    /** Where the next data frame has to begin. */
    private long position;
    private FrameException failed;

    /** Before the first byte. */
    public FrameDecoder() {}

    /**
     * Reads all of {@code in}.
     *
     * @param in bytes of the peer; at its limit afterwards
     * @param sink takes what they hold
     * @throws FrameException the peer broke the format; every later call throws it again
     */
    public void read(ByteBuffer in, FrameSink sink) throws FrameException {
        if (failed != null) {
            throw failed;
        }
        try {
            readAll(in, sink);
        } catch (FrameException broken) {
            failed = broken;
            throw broken;
        }
    }

    /**
     * The stream has ended.
     *
     * @throws FrameException when that was within a frame, or the violation from before
     */
    public void end() throws FrameException {
        if (failed == null && (left >= 0 || kept.position() > 0)) {
            failed = new FrameException(Rule.SHORT, "the peer ended the connection within a frame");
        }
        if (failed != null) {
            throw failed;
        }
    }

    /**
     * Payload bytes of the frames that have begun.
     *
     * @return where the next frame has to begin
     */
    public long position() {
        return position;
    }

    private void readAll(ByteBuffer in, FrameSink sink) throws FrameException {
        if (!open && in.hasRemaining()) {
            int version = in.get() & 0xff;
            if (version != Frames.VERSION) {
                throw FrameException.version(version);
            }
            open = true;
        }
        while (true) {
            if (left == 0) {
                left = -1;
                sink.data(position, note);
            } else if (!in.hasRemaining()) {
                return;
            } else if (left > 0) {
                readPayload(in, sink);
            } else {
                readHead(in, sink);
            }
        }
    }

    private void readPayload(ByteBuffer in, FrameSink sink) {
        int count = Math.min(left, in.remaining());
        int limit = in.limit();
        in.limit(in.position() + count);
        sink.payload(in);
        in.position(in.limit());
        in.limit(limit);
        left -= count;
    }

    /** Reads a frame's head, or all of an acknowledgement; keeps what is not complete. */
    private void readHead(ByteBuffer in, FrameSink sink) throws FrameException {
        int before = kept.position();
        if (before == 0) {
            int start = in.position();
            if (!parse(in, sink)) {
                in.position(start);
                kept.put(in);
            }
            return;
        }
        // What was kept is completed from the input; what is too much goes back.
        int start = in.position();
        while (in.hasRemaining() && kept.hasRemaining()) {
            kept.put(in.get());
        }
        int filled = kept.position();
        kept.flip();
        boolean complete = parse(kept, sink);
        int taken = kept.position();
        kept.clear();
        if (complete) {
            in.position(start + taken - before);
        } else {
            kept.position(filled);
        }
    }

    /** Reads what a frame begins with; false when it is not complete. */
    private boolean parse(ByteBuffer in, FrameSink sink) throws FrameException {
        int kind = in.get() & 0xff;
        switch (kind) {
            case Frames.DATA:
            case Frames.DATA_WITH_NOTE:
                return parseData(in, kind == Frames.DATA_WITH_NOTE);
            case Frames.ACK:
            case Frames.ACK_WITH_FEEDBACK:
                return parseAck(in, kind == Frames.ACK_WITH_FEEDBACK, sink);
            default:
                throw new FrameException(Rule.KIND,
                        "the peer sent a frame of unknown kind " + kind + "; run the same version of paceline at both ends");
        }
    }

    private boolean parseData(ByteBuffer in, boolean hasNote) throws FrameException {
        long at = number(in, "a position");
        if (at == Varint.SHORT) {
            return false;
        }
        if (at != position) {
            throw new FrameException(Rule.POSITION, "the peer's data is at position " + at + " instead of " + position);
        }
        long found = 0;
        if (hasNote) {
            if (in.remaining() < 8) {
                return false;
            }
            for (int i = 0; i < 8; i++) {
                found = found << 8 | in.get() & 0xff;
            }
            if (found == 0) {
                throw new FrameException(Rule.NOTE, "the peer announced a note and sent none");
            }
        }
        long length = number(in, "a length");
        if (length == Varint.SHORT) {
            return false;
        }
        if (length > Frames.MAX_PAYLOAD) {
            throw new FrameException(Rule.PAYLOAD, "the peer announced a payload of " + length + " bytes; "
                    + Frames.MAX_PAYLOAD + " are allowed");
        }
        if (at + length >= Varint.LIMIT) {
            throw new FrameException(Rule.BEYOND, "the peer sent more than " + Varint.LIMIT + " bytes");
        }
        position = at + length;
        left = (int) length;
        note = found;
        return true;
    }

    private static boolean parseAck(ByteBuffer in, boolean hasFeedback, FrameSink sink) throws FrameException {
        long at = number(in, "a position");
        long delay = at == Varint.SHORT ? Varint.SHORT : number(in, "a delay");
        if (delay == Varint.SHORT) {
            return false;
        }
        if (delay > Frames.MAX_DELAY_MICROS) {
            throw new FrameException(Rule.DELAY,
                    "the peer says that an acknowledgement waited " + delay + " us; an hour is allowed");
        }
        if (!hasFeedback) {
            sink.ack(at, delay * 1000, null);
            return true;
        }
        long length = number(in, "a length");
        if (length == Varint.SHORT) {
            return false;
        }
        if (length < 1 || length > Frames.MAX_FEEDBACK) {
            throw new FrameException(Rule.FEEDBACK, "the peer announced a feedback of " + length + " bytes; 1 to "
                    + Frames.MAX_FEEDBACK + " are allowed");
        }
        if (in.remaining() < length) {
            return false;
        }
        int end = in.position() + (int) length;
        ByteBuffer feedback = in.duplicate();
        feedback.limit(end);
        in.position(end);
        sink.ack(at, delay * 1000, feedback);
        return true;
    }

    private static long number(ByteBuffer in, String name) throws FrameException {
        long value = Varint.read(in);
        if (value == Varint.LONG) {
            throw FrameException.longNumber(name);
        }
        return value;
    }
}
