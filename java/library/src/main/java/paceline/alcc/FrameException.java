package paceline.alcc;

import java.io.IOException;

/** The peer broke the format of frames: the connection is over. The message says how, in one line. */
public final class FrameException extends IOException {
    private static final long serialVersionUID = 1;

    /** The rules (docs/design/alcc-wire.md, "What ends a connection"). */
    public enum Rule {
        /** Another version, or a peer that does not speak frames at all. */
        VERSION,
        /** An unknown first byte of a frame. */
        KIND,
        /** A number in more bytes than it takes. */
        LONG,
        /** A payload above {@link Frames#MAX_PAYLOAD}. */
        PAYLOAD,
        /** Feedback of 0 or more than {@link Frames#MAX_FEEDBACK} bytes. */
        FEEDBACK,
        /** A delay above {@link Frames#MAX_DELAY_MICROS}. */
        DELAY,
        /** A note of 0, which stands for none. */
        NOTE,
        /** Data at another position than the one before ended at. */
        POSITION,
        /** A stream of 2^62 bytes or more. */
        BEYOND,
        /** An acknowledgement beyond what was sent. */
        UNSENT,
        /** An acknowledgement below one before. */
        BACKWARDS,
        /** The end of the stream within a frame. */
        SHORT
    }

    /** Which rule. */
    private final Rule rule;

    FrameException(Rule rule, String message) {
        super(message);
        this.rule = rule;
    }

    /**
     * Which rule was broken.
     *
     * @return the rule
     */
    public Rule rule() {
        return rule;
    }

    static FrameException version(int found) {
        return new FrameException(Rule.VERSION, String.format("the peer begins with byte 0x%02x instead of framing version %d;"
                + " connect to a server that speaks frames (paceline alcc serve)", found, Frames.VERSION));
    }

    static FrameException longNumber(String name) {
        return new FrameException(Rule.LONG, "the peer wrote " + name + " in more bytes than it takes");
    }
}
