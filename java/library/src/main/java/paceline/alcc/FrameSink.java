package paceline.alcc;

import java.nio.ByteBuffer;

/** Takes what a {@link FrameDecoder} reads, in the order of the stream. */
public interface FrameSink {
    /**
     * The next bytes of the application's stream; they can be used at once.
     *
     * @param bytes holds them up to its limit; all of them have to be taken
     */
    void payload(ByteBuffer bytes);

    /**
     * A data frame is complete: all of its payload has been given.
     *
     * @param end one past its last byte
     * @param note the peer's controller's message, 0 for none
     * @throws FrameException when it breaks a rule
     */
    void data(long end, long note) throws FrameException;

    /**
     * An acknowledgement.
     *
     * @param position everything below it has come
     * @param delayNanos how long the newest frame waited for it at the receiver
     * @param feedback the receiver half's bytes, null without; valid during this call
     * @throws FrameException when it breaks a rule
     */
    void ack(long position, long delayNanos, ByteBuffer feedback) throws FrameException;
}
