package paceline.alcc;

/** A piece of the stream that was handed to TCP in one frame. Reused. */
final class Chunk {
    /** Position of its first byte. */
    long seq;
    long bytes;
    long sentAt;
    /** The controller's own; comes back with the acknowledgement. */
    long tag;
    boolean appLimited;
    boolean windowLimited;
    /** State of the rate sampler as it left. */
    long priorDelivered;
    long priorDeliveredAt;
    long firstSentAt;

    long end() {
        return seq + bytes;
    }
}
