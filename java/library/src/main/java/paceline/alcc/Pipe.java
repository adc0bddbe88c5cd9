package paceline.alcc;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * Frames above a {@link Lower}: what an application writes becomes chunks as the flow permits, what comes is acknowledged.
 * Times are nanoseconds from when the connection began. Not safe for several threads.
 */
final class Pipe implements FrameSink {
    /** How long a chunk that is not full may wait for more while others are in flight (as the Rust engine). */
    private static final long FILL = 1_000_000;
    /** Room in front of and behind a chunk: the version, a head, an acknowledgement. */
    private static final int FRAMING = 1 + Frames.MAX_HEADER + Frames.MAX_ACK;
    /** What one call reads at most before it writes again. */
    private static final int TURN = 1 << 20;
    /** Inboxes that wait for the application at most while the peer owes acknowledgements (our choice, as in Rust). */
    private static final int MOST_INBOXES = 16;

    final Flow flow;
    final ByteQueue queue;
    final ByteQueue inbox;
    private final Lower lower;
    private final FramedEnd end = new FramedEnd();
    private final FrameDecoder decoder = new FrameDecoder();
    private final boolean noDelay;
    private final long silenceLimit;
    /** Frames that TCP has not taken; ready to be read. */
    private ByteBuffer wire = empty(FRAMING);
    private long now;
    private boolean started;
    private boolean shaken;
    /** TCP took nothing; it will say when it does. */
    private boolean blocked;
    private boolean peerEnded;
    /** The inbox was full; reading goes on when a quarter of it is free. */
    private boolean inboxFull;
    /** What was read ended before what has come did. */
    private boolean readAgain;
    private boolean shut;
    private boolean shutSent;
    private long fillUntil = Long.MAX_VALUE;
    /** When bytes last moved. */
    private long progress;
    private long received;

    Pipe(Lower lower, AlccOptions options) {
        this.lower = lower;
        flow = new Flow(options.make(), options.packet());
        queue = new ByteQueue(options.queue);
        inbox = new ByteQueue(options.inbox);
        noDelay = options.noDelay;
        silenceLimit = options.silenceNanos;
    }

    private static ByteBuffer empty(int capacity) {
        ByteBuffer buffer = ByteBuffer.allocate(capacity);
        buffer.limit(0);
        return buffer;
    }

    /** The application writes; says how much was taken. */
    int write(ByteBuffer from) {
        int taken = queue.put(from);
        flow.queued(taken);
        return taken;
    }

    /** What is queued does not wait for more. */
    void push(long time) {
        if (!queue.isEmpty()) {
            fillUntil = time;
        }
    }

    boolean isShaken() {
        return shaken;
    }

    /** Nothing more is written. */
    void shut() {
        shut = true;
    }

    boolean isShut() {
        return shut;
    }

    /** Our end has left, after everything that was written. */
    boolean isShutSent() {
        return shutSent;
    }

    /** The peer sends no more. */
    boolean peerEnded() {
        return peerEnded;
    }

    /** Everything written has been acknowledged, or can be no more. */
    boolean isSettled() {
        return shutSent && (peerEnded || end.acked() == end.sent());
    }

    /** TCP holds bytes back, or may: something of ours waits for it. */
    boolean isBusy() {
        return !queue.isEmpty() || wire.hasRemaining() || blocked;
    }

    /** Wants to know when TCP takes bytes. */
    boolean wantsWrite() {
        return blocked;
    }

    /** The application has to read before more is acknowledged. */
    boolean isInboxFull() {
        return inboxFull;
    }

    /** Wants to know when bytes come. */
    boolean wantsRead() {
        if (inboxFull && inbox.free() >= inbox.capacity() / 4) {
            inboxFull = false;
        }
        return !peerEnded && (!inboxFull || waitsForAcks());
    }

    /**
     * The peer's acknowledgements come behind its data: while it owes us some, reading goes on although the application does not
     * read. What comes then is not acknowledged, so that it is a window of the peer's at most; a peer that sends without being
     * acknowledged has an end at {@link #MOST_INBOXES}.
     */
    private boolean waitsForAcks() {
        boolean room = inbox.size() / MOST_INBOXES < inbox.capacity();
        return room && flow.inFlight() > 0 && !queue.isEmpty();
    }

    long progress() {
        return progress;
    }

    /** When {@link #run} wants to be called. */
    long nextWake() {
        if (!started || readAgain && wantsRead()) {
            return 0;
        }
        if (!shaken) {
            return Long.MAX_VALUE;
        }
        long wake = blocked || shutSent || inboxFull ? Long.MAX_VALUE : end.nextAck();
        if (!queue.isEmpty() || flow.inFlight() > 0 && !peerEnded) {
            wake = Math.min(wake, flow.nextWake());
            // Once that time has come, only the flow keeps the rest back.
            wake = Math.min(wake, queue.isEmpty() || blocked || fillUntil <= now ? Long.MAX_VALUE : fillUntil);
        }
        return Math.min(wake, failsAt());
    }

    private long failsAt() {
        boolean waits = flow.inFlight() > 0 || wire.hasRemaining() || !queue.isEmpty();
        return silenceLimit > 0 && waits ? progress + silenceLimit : Long.MAX_VALUE;
    }

    /**
     * Does all that can be done now: reads where {@code readable}, acknowledges, sends unless TCP took nothing the last time and
     * is not {@code writable} again.
     */
    void run(long time, boolean readable, boolean writable, ByteBuffer buffer) throws IOException {
        now = time;
        started = true;
        if (!shaken) {
            shaken = lower.shake();
            blocked = !lower.flush();
            if (!shaken) {
                return;
            }
            progress = time;
            // What follows the handshake may have come with it.
            readAgain = true;
        }
        if ((readable || readAgain) && buffer != null) {
            read(buffer);
        }
        if (blocked && !writable) {
            flow.tick(now);
        } else {
            send(buffer);
        }
        if (now >= failsAt()) {
            throw new IOException("the peer has acknowledged nothing for " + silenceLimit / 1_000_000 + " ms; is it still there?");
        }
    }

    private void send(ByteBuffer buffer) throws IOException {
        try {
            pump();
        } catch (IOException failed) {
            boolean onlyAcks = queue.isEmpty() && (flow.inFlight() == 0 || peerEnded);
            queue.clear();
            flow.cut();
            wire.limit(0);
            wire.position(0);
            blocked = false;
            shut = true;
            shutSent = true;
            // The peer listens no more; what it has said can still be read.
            if (!onlyAcks) {
                if (buffer != null) {
                    readRest(buffer);
                }
                throw failed;
            }
        }
    }

    private void readRest(ByteBuffer buffer) {
        try {
            read(buffer);
        } catch (IOException gone) {
            peerEnded = true;
        }
    }

    private void read(ByteBuffer buffer) throws IOException {
        for (int turn = 0; wantsRead();) {
            buffer.clear();
            int count = lower.read(buffer);
            if (count == 0) {
                readAgain = false;
                return;
            }
            if (count < 0) {
                peerEnded = true;
                decoder.end();
                return;
            }
            turn += count;
            buffer.flip();
            decoder.read(buffer, this);
            inboxFull = inbox.free() <= 0;
            if (turn >= TURN || inboxFull && !waitsForAcks()) {
                readAgain = true;
                return;
            }
        }
    }

    /** Sends what the flow permits, and acknowledgements that are due. */
    private void pump() throws IOException {
        flow.tick(now);
        while (true) {
            if (!flush()) {
                blocked = true;
                flow.blocked(now);
                return;
            }
            blocked = false;
            int bytes = permitted();
            if (bytes > 0) {
                handOver(bytes);
            } else if (shutSent || !acknowledge()) {
                break;
            }
        }
        if (shut && !shutSent && queue.isEmpty()) {
            shutSent = lower.shutdownOutput();
            blocked = !shutSent;
        }
    }

    /** Bytes of the chunk that may leave now; 0 for none. */
    private int permitted() {
        if (shutSent) {
            return 0;
        }
        if (peerEnded) {
            // Who has ended acknowledges no more: what is left goes as fast as TCP takes it.
            return Math.min(queue.size(), Frames.MAX_PAYLOAD);
        }
        int bytes = flow.poll(now);
        return bytes > 0 && waitsForMore(bytes) ? 0 : bytes;
    }

    private boolean acknowledge() {
        if (inboxFull || end.nextAck() > now) {
            return false;
        }
        wire.clear();
        end.writeAck(now, wire);
        wire.flip();
        return true;
    }

    private boolean waitsForMore(int bytes) {
        if (bytes >= Math.min(flow.packet(), Frames.MAX_PAYLOAD) || noDelay || shut || flow.inFlight() == 0) {
            return false;
        }
        if (fillUntil == Long.MAX_VALUE) {
            fillUntil = now + FILL;
        }
        return fillUntil > now;
    }

    private void handOver(int bytes) {
        fillUntil = Long.MAX_VALUE;
        if (flow.inFlight() == 0) {
            progress = now;
        }
        if (wire.capacity() < bytes + FRAMING) {
            wire = ByteBuffer.allocate(bytes + FRAMING);
        }
        flow.handed(now, bytes);
        wire.clear();
        end.writeData(bytes, 0, wire);
        queue.take(wire, bytes);
        wire.flip();
    }

    private boolean flush() throws IOException {
        while (wire.hasRemaining()) {
            int before = wire.remaining();
            lower.write(wire);
            if (wire.remaining() == before) {
                return lower.flush() && !wire.hasRemaining();
            }
        }
        return lower.flush();
    }

    @Override
    public void payload(ByteBuffer bytes) {
        received += bytes.remaining();
        progress = now;
        inbox.append(bytes, bytes.remaining());
    }

    @Override
    public void data(long upto, long note) {
        end.took(now, upto);
    }

    @Override
    public void ack(long position, long delayNanos, ByteBuffer feedback) throws FrameException {
        if (position > end.acked()) {
            progress = now;
        }
        end.heard(position);
        flow.acknowledged(now, position, delayNanos);
    }

    void report(AlccStatistics.Builder to) {
        flow.report(to);
        to.written = flow.next() + queue.size();
        to.received = received;
    }
}
