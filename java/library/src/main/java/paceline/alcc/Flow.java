package paceline.alcc;

import paceline.cc.Controller;
import paceline.cc.Units;

/**
 * A controller above TCP: what may be handed over, and what an acknowledgement says. No socket, no clock; it allocates nothing
 * once its rings have grown. It does what the Rust {@code paceline_transport::Above} does. Not safe for several threads.
 *
 * <p>The driver says what the application {@link #queued}, asks what may be handed over ({@link #poll}) after every other
 * call and at {@link #nextWake}, says what {@link #handed was}, and what was {@link #acknowledged}. Times are nanoseconds from an
 * origin of the caller's, never negative; positions count bytes from the first one handed over.
 *
 * <p>TCP below repairs losses without a word, and an application on Android cannot ask it. Two signs are left:
 * <ul>
 * <li>Silence for as long as TCP's own timeout takes is a timeout, with the same back-off.
 * <li>One acknowledgement for chunks that left over a whole round trip: they waited behind a hole that was repaired. This is
 *     reported as one lost packet, and the RTT of these chunks is not used.
 * </ul>
 */
public final class Flow {
    /** Fewer packets that come at once are not a sign of a hole. 4: what one chunk may have. */
    private static final int HOLE_PACKETS = 4;
    /** Nor a shorter time, twice as long as an acknowledgement may wait at the receiver. */
    private static final long HOLE_SPAN = 2 * Frames.ACK_EVERY_NANOS;
    /** A chunk has as many packets as leave in 1 ms (Linux {@code tcp_tso_autosize}), one to four. */
    private static final double CHUNK_SECONDS = 0.001;
    private static final long MAX_CHUNK = 4;

    private final Driver driver;
    private final long mss;
    private final ChunkRing chunks = new ChunkRing();
    private final RttHistogram histogram = new RttHistogram();
    private long chunk;
    private long next;
    private long end;
    private long una;
    private long episode;
    private long wakeAt = Units.NEVER;
    /** When silence becomes a timeout, and how many there were in a row. */
    private long silentAt = Units.NEVER;
    private int silences;
    /** Chunks below this position were on the way at a timeout: their RTT is the repair's. */
    private long repairedBelow;
    private long losses;
    private long timeouts;

    /**
     * A flow that has handed over nothing.
     *
     * @param controller decides; belongs to this flow from now on
     * @param mss payload bytes of a full packet
     */
    public Flow(Controller controller, int mss) {
        driver = new Driver(controller);
        this.mss = mss;
        chunk = mss;
    }

    /**
     * The handshake of TCP was answered.
     *
     * @param now time
     * @param sample how long after it left
     */
    public void connected(long now, long sample) {
        driver.connected(now, sample);
    }

    /**
     * The application queues bytes.
     *
     * @param bytes how many more
     */
    public void queued(long bytes) {
        end = Units.plus(end, bytes);
        driver.refresh();
    }

    /** The application takes back everything that has not been handed over. */
    public void cut() {
        end = next;
    }

    /**
     * What may be handed over now.
     *
     * @param now time
     * @return bytes of one chunk; 0 when none, until {@link #nextWake} or another call
     */
    public int poll(long now) {
        wakeAt = Units.NEVER;
        long window = driver.window();
        long inFlight = inFlight();
        long fits = Math.max(window - inFlight, 0) / mss * mss;
        long bytes = Math.min(end - next, Math.min(chunk, Math.max(fits, mss)));
        if (bytes == 0) {
            if (inFlight + mss <= window) {
                driver.runDry(now, inFlight);
                chunks.endBurst(false);
            }
            return 0;
        }
        if (inFlight + bytes > window) {
            chunks.endBurst(true);
            return 0;
        }
        if (driver.due() > now) {
            wakeAt = driver.due();
            return 0;
        }
        return (int) Math.min(bytes, Frames.MAX_PAYLOAD);
    }

    /**
     * The next bytes were handed over.
     *
     * @param time now
     * @param bytes as {@link #poll} permitted, or fewer
     */
    public void handed(long time, int bytes) {
        long now = driver.advance(time);
        if (chunks.size() == 0) {
            driver.restart(now);
            listen(now);
        }
        Chunk made = chunks.push();
        made.seq = next;
        made.bytes = bytes;
        long unsent = end == Units.NEVER ? Units.NEVER : end - next - bytes;
        driver.sent(now, made, inFlight() + bytes, unsent);
        next += bytes;
    }

    /**
     * TCP takes nothing although the controller permits: growth stops as when the application writes too little.
     *
     * @param time now
     */
    public void blocked(long time) {
        wakeAt = Units.NEVER;
        driver.runDry(driver.advance(time), inFlight());
        chunks.endBurst(false);
    }

    /**
     * The peer acknowledged.
     *
     * @param time now
     * @param upto everything below this position has come
     * @param delay how long the newest frame waited at the receiver for this acknowledgement
     */
    public void acknowledged(long time, long upto, long delay) {
        int count = 0;
        long bytes = 0;
        while (count < chunks.size() && chunks.get(count).end() <= upto) {
            bytes += chunks.get(count++).bytes;
        }
        if (count == 0) {
            return;
        }
        long prior = inFlight();
        // News of an earlier moment moves the chunks with it, so that their RTT is what it was.
        long at = Math.max(time - delay, 0);
        long now = driver.advance(at);
        Chunk oldest = chunks.get(0);
        boolean hole = isRepairedHole(oldest, chunks.get(count - 1), bytes);
        if (hole) {
            losses++;
            boolean newEpisode = una >= episode;
            if (newEpisode) {
                episode = next;
            }
            driver.lose(now, oldest, Math.min(oldest.bytes, mss), prior, newEpisode);
        }
        boolean repaired = hole || oldest.seq < repairedBelow;
        long sample = driver.delivered(now, chunks, count, Units.since(now, at), repaired);
        if (!repaired) {
            histogram.add(sample);
        }
        una = chunks.get(count - 1).end();
        chunks.pop(count);
        silences = 0;
        listen(time);
        driver.acknowledge(prior, inFlight(), una, next);
        long packets = Math.round(driver.rate.rate() * CHUNK_SECONDS / mss);
        chunk = mss * Math.min(Math.max(packets, 1), MAX_CHUNK);
    }

    /**
     * Runs the controller's clock and listens to silence. To be called at {@link #nextWake}.
     *
     * @param time now
     */
    public void tick(long time) {
        driver.tick(time);
        if (silentAt <= time && chunks.size() > 0) {
            silences++;
            timeouts++;
            repairedBelow = next;
            driver.timeout(time, inFlight(), silences);
            listen(time);
        }
    }

    /**
     * When it wants to be called: {@link #tick}, then {@link #poll}.
     *
     * @return time; {@link Long#MAX_VALUE} while there is nothing to send and nothing on the way
     */
    public long nextWake() {
        if (next == end && chunks.size() == 0) {
            return Units.NEVER;
        }
        return Math.min(wakeAt, Math.min(driver.nextTick(), chunks.size() == 0 ? Units.NEVER : silentAt));
    }

    /**
     * Bytes handed over that have not been acknowledged.
     *
     * @return bytes
     */
    public long inFlight() {
        return next - una;
    }

    /**
     * Bytes queued and not handed over.
     *
     * @return bytes
     */
    public long unsent() {
        return end - next;
    }

    /**
     * What the controller permits to be in flight.
     *
     * @return bytes
     */
    public long window() {
        return driver.window();
    }

    /**
     * The controller.
     *
     * @return the controller that was given
     */
    public Controller controller() {
        return driver.controller();
    }

    /** Payload bytes of a full packet. */
    int packet() {
        return (int) mss;
    }

    long next() {
        return next;
    }

    /** Smoothed RTT in nanoseconds; 0 before the first. */
    long smoothedRtt() {
        return driver.rtt.smoothed();
    }

    void report(AlccStatistics.Builder to) {
        to.rtt(histogram);
        to.delivered = una;
        to.losses = losses;
        to.timeouts = timeouts;
        to.window = driver.window();
        to.inFlight = inFlight();
    }

    private boolean isRepairedHole(Chunk oldest, Chunk newest, long bytes) {
        long span = newest.sentAt - oldest.sentAt;
        long smoothed = driver.rtt.smoothed();
        return driver.rtt.isKnown() && bytes >= HOLE_PACKETS * mss && span >= HOLE_SPAN && span >= smoothed - smoothed / 8;
    }

    /** From now on silence counts, while something is on the way. */
    private void listen(long now) {
        long wait = driver.rtt.rto();
        for (int i = 0; i < silences && wait < RttEstimator.MAX_RTO; i++) {
            wait *= 2;
        }
        silentAt = Units.plus(now, Math.min(wait, RttEstimator.MAX_RTO));
    }
}
