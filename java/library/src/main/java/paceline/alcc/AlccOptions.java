package paceline.alcc;

import paceline.cc.Controller;
import paceline.cc.Controllers;
import paceline.cc.Env;

/** Options of a connection. Each has a default; setters answer the object itself. Not changed once it is connected. */
public final class AlccOptions {
    /** Makes a connection's controller. */
    public interface Maker {
        /**
         * One controller.
         *
         * @param env of the connection
         * @return a new one
         */
        Controller make(Env env);
    }

    /**
     * Payload of a full packet: 1448 (1500 less IPv4, TCP and time-stamp headers) less {@link Frames#MAX_HEADER}. Java cannot
     * ask TCP for it.
     */
    static final int MSS = 1448 - Frames.MAX_HEADER;
    /** TLS adds at most this much to a record (1.2 with AES-GCM: 5 + 8 + 16). */
    static final int TLS_OVERHEAD = 29;

    String spec = "copa";
    Maker maker;
    int mss = MSS;
    int queue = 1 << 20;
    int inbox = 1 << 20;
    long silenceNanos;
    boolean noDelay;
    long seed = 1;
    AlccTls tls;
    AlccListener listener;

    /** Copa, no TLS. */
    public AlccOptions() {}

    /**
     * Which controller. {@code copa} by default: low delay, and no knowledge of the network needed.
     *
     * @param spec a name and parameters, as {@code copa:delta=0.1} or {@code mdi}
     * @return this
     * @throws IllegalArgumentException when there is no such controller or parameter; the message has those that there are
     */
    public AlccOptions controller(String spec) {
        Controllers.create(spec, new Env());
        this.spec = spec;
        maker = null;
        return this;
    }

    /**
     * A controller that the caller makes, for one with a model of its own.
     *
     * @param name for statistics
     * @param maker called once for each connection
     * @return this
     */
    public AlccOptions controller(String name, Maker maker) {
        spec = name;
        this.maker = maker;
        return this;
    }

    /**
     * TLS below the frames.
     *
     * @param tls how; null for none, the default
     * @return this
     */
    public AlccOptions tls(AlccTls tls) {
        this.tls = tls;
        return this;
    }

    /**
     * Who is informed of progress.
     *
     * @param listener null for none, the default
     * @return this
     */
    public AlccOptions listener(AlccListener listener) {
        this.listener = listener;
        return this;
    }

    /**
     * Bytes that wait in each direction: written and not handed to TCP, and arrived and not read. 1 MB by default.
     *
     * @param bytes at least 16384
     * @return this
     */
    public AlccOptions buffers(int bytes) {
        if (bytes < Frames.MAX_PAYLOAD) {
            throw new IllegalArgumentException("a buffer has " + Frames.MAX_PAYLOAD + " bytes at least, not " + bytes);
        }
        queue = bytes;
        inbox = bytes;
        return this;
    }

    /**
     * After how long without any acknowledgement of what is on its way the connection fails. Never by default, as with TCP.
     *
     * @param millis milliseconds; 0 for never
     * @return this
     */
    public AlccOptions silenceLimit(long millis) {
        if (millis < 0) {
            throw new IllegalArgumentException("a limit is 0 or more milliseconds, not " + millis);
        }
        silenceNanos = millis * 1_000_000;
        return this;
    }

    /**
     * Payload bytes of a full packet, on paths with smaller packets than Ethernet's.
     *
     * @param bytes 100 to 16384
     * @return this
     */
    public AlccOptions packetSize(int bytes) {
        if (bytes < 100 || bytes > Frames.MAX_PAYLOAD) {
            throw new IllegalArgumentException("a packet has 100 to " + Frames.MAX_PAYLOAD + " bytes, not " + bytes);
        }
        mss = bytes;
        return this;
    }

    /**
     * A packet that is not full leaves at once, instead of waiting 1 ms for more while others are on their way.
     *
     * @param on off by default
     * @return this
     */
    public AlccOptions noDelay(boolean on) {
        noDelay = on;
        return this;
    }

    /**
     * Seeds the controller's own generator, where it has one.
     *
     * @param seed 1 by default
     * @return this
     */
    public AlccOptions seed(long seed) {
        this.seed = seed;
        return this;
    }

    /**
     * Which controller.
     *
     * @return its spec
     */
    public String controllerSpec() {
        return spec;
    }

    AlccOptions copy() {
        AlccOptions copy = new AlccOptions();
        copy.spec = spec;
        copy.maker = maker;
        copy.mss = mss;
        copy.queue = queue;
        copy.inbox = inbox;
        copy.silenceNanos = silenceNanos;
        copy.noDelay = noDelay;
        copy.seed = seed;
        copy.tls = tls;
        copy.listener = listener;
        return copy;
    }

    int packet() {
        return tls == null ? mss : Math.max(mss - TLS_OVERHEAD, 1);
    }

    Controller make() {
        Env env = new Env(packet(), seed, false);
        return maker == null ? Controllers.create(spec, env) : maker.make(env);
    }
}
