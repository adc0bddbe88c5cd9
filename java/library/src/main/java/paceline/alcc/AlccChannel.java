package paceline.alcc;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;

/**
 * A framed connection that never waits, for NIO. Either an {@link AlccLoop} serves it ({@link AlccLoop#add}), or a selector of the
 * caller's: register {@link #socketChannel} for {@link #interestOps}, call {@link #process} with what is ready, and at
 * {@link #nextWake} at the latest; after every call of this object both may have changed.
 *
 * <p>Several threads may use it.
 */
public final class AlccChannel implements Closeable {
    /** Time between two calls of a listener. */
    private static final long REPORT_EVERY = 100_000_000;
    private static final int READ = 64 * 1024;
    private static final ThreadLocal<ByteBuffer> SCRATCH = new ThreadLocal<ByteBuffer>() {
        @Override
        protected ByteBuffer initialValue() {
            return ByteBuffer.allocateDirect(READ);
        }
    };

    /** Of the loop that serves it. */
    int heapIndex = -1;
    volatile long scheduled = Long.MAX_VALUE;
    volatile int registeredOps;
    volatile AlccLoop loop;
    AlccHandler handler;
    boolean isPending;

    private final Link link;
    private long reportedAt;
    private long reportedBytes = -1;

    private AlccChannel(SocketChannel channel, AlccOptions options) throws IOException {
        link = new Link(channel, options);
    }

    /**
     * A channel that is not connected.
     *
     * @param options of the connection
     * @return the channel
     * @throws IOException when the system has no more sockets
     */
    public static AlccChannel open(AlccOptions options) throws IOException {
        return new AlccChannel(SocketChannel.open(), options);
    }

    /**
     * Takes a connection of TCP, from the first byte on; at a server, one that was accepted.
     *
     * @param connected a connected socket channel; belongs to this object from now on
     * @param host the name of the peer that its certificate has to have; not used without TLS and at a server
     * @param options of the connection
     * @return the channel
     * @throws IOException when it is closed
     */
    public static AlccChannel of(SocketChannel connected, String host, AlccOptions options) throws IOException {
        AlccChannel made = new AlccChannel(connected, options);
        synchronized (made) {
            made.link.take(host);
        }
        return made;
    }

    /**
     * Begins to connect; {@link #process} completes it.
     *
     * @param address a resolved address; its host name is what a certificate has to have
     * @throws IOException when that cannot be
     */
    public void connect(SocketAddress address) throws IOException {
        synchronized (this) {
            if (!(address instanceof InetSocketAddress)) {
                throw new SocketException("an internet address is needed, not " + address);
            }
            InetSocketAddress to = (InetSocketAddress) address;
            if (to.isUnresolved()) {
                throw new java.net.UnknownHostException("there is no host of the name " + to.getHostName());
            }
            try {
                link.connect(to);
            } finally {
                notifyAll();
            }
        }
        touch();
    }

    /**
     * The socket channel, to be registered with a selector. Code that reads or writes it breaks the connection.
     *
     * @return the channel below
     */
    public SocketChannel socketChannel() {
        return link.channel;
    }

    /**
     * What a selector has to wait for.
     *
     * @return operations of {@link SelectionKey}; 0 when it is over
     */
    public synchronized int interestOps() {
        return link.interestOps();
    }

    /**
     * When {@link #process} has to be called although nothing is ready.
     *
     * @return {@link System#nanoTime} of that moment; {@link Long#MAX_VALUE} for never, as while the connection is idle
     */
    public synchronized long nextWake() {
        return link.nextWake();
    }

    /**
     * Does all that can be done without waiting. Never throws for what the peer or the network did: {@link #read} and
     * {@link #write} say so.
     *
     * @param readyOps what a selector found; 0 when the time has come
     */
    public void process(int readyOps) {
        AlccStatistics report = null;
        synchronized (this) {
            if (link.isOver()) {
                return;
            }
            try {
                link.process(readyOps, SCRATCH.get());
                report = dueReport();
            } finally {
                notifyAll();
            }
        }
        if (report != null) {
            link.options.listener.progress(report);
        }
    }

    /** What an application's call permits happens, and who waits looks again. */
    private void run() {
        try {
            link.run();
        } finally {
            notifyAll();
        }
    }

    private AlccStatistics dueReport() {
        if (link.options.listener == null || link.pipe() == null || link.time() - reportedAt < REPORT_EVERY) {
            return null;
        }
        AlccStatistics now = statistics();
        if (now.delivered + now.received == reportedBytes) {
            return null;
        }
        reportedBytes = now.delivered + now.received;
        reportedAt = link.time();
        return now;
    }

    /**
     * Reads bytes of the peer's stream. What was complete before an error comes first.
     *
     * @param to takes them
     * @return how many; 0 when there are none yet, -1 at the end
     * @throws FrameException when the peer broke the format
     * @throws IOException the connection's error
     */
    public int read(ByteBuffer to) throws IOException {
        int taken;
        boolean stopped;
        synchronized (this) {
            link.checkReadable();
            Pipe pipe = link.pipe();
            stopped = pipe.isInboxFull();
            taken = pipe.inbox.take(to, to.remaining());
            if (taken == 0 && to.hasRemaining()) {
                if (link.failure() != null) {
                    throw link.failure();
                }
                return pipe.peerEnded() ? -1 : 0;
            }
        }
        if (stopped && taken > 0) {
            touch();
        }
        return taken;
    }

    /** The application has closed it, and what it has written is still leaving. */
    synchronized boolean isClosing() {
        return link.isClosing() && !link.isOver();
    }

    /**
     * Writes bytes: takes those for which there is room. What the controller permits leaves at once.
     *
     * @param from holds them
     * @return how many were taken; 0 when the buffer is full
     * @throws IOException the connection's error
     */
    public int write(ByteBuffer from) throws IOException {
        int taken;
        synchronized (this) {
            link.checkWritable();
            if (link.pipe().isShut()) {
                throw new SocketException("the output is shut down");
            }
            taken = link.pipe().write(from);
            run();
        }
        touch();
        return taken;
    }

    /** What was written leaves without waiting for more. */
    public void flush() {
        synchronized (this) {
            if (link.pipe() == null || link.isOver()) {
                return;
            }
            link.pipe().push(link.time());
            run();
        }
        touch();
    }

    /**
     * Ends our direction behind everything that was written. Acknowledgements end with it: a peer that still sends does so
     * without them, as fast as TCP takes it.
     *
     * @throws IOException when the connection does not stand
     */
    public void shutdownOutput() throws IOException {
        synchronized (this) {
            link.checkWritable();
            link.pipe().shut();
            run();
        }
        touch();
    }

    /**
     * Closes: at once for the application; what was written still leaves, and is given up after 60 s in which the peer accepts
     * nothing. Without a loop the caller has to go on until {@link #isOver}.
     */
    @Override
    public void close() {
        synchronized (this) {
            link.close();
            notifyAll();
        }
        touch();
    }

    /** Closes by a reset: what was written and has not left is lost. */
    public void abort() {
        abort(null);
    }

    /** The same for a reason, which reads and writes then give. */
    void abort(IOException reason) {
        synchronized (this) {
            link.abort(reason);
            notifyAll();
        }
        touch();
    }

    /**
     * The socket below is closed: nothing more will happen.
     *
     * @return whether that is so
     */
    public synchronized boolean isOver() {
        return link.isOver();
    }

    /**
     * The connection stands, or stood, TLS included.
     *
     * @return whether that is so
     */
    public synchronized boolean isConnected() {
        return link.isConnected();
    }

    /**
     * {@link #read} has something to say: bytes, the end, an error.
     *
     * @return whether that is so
     */
    public synchronized boolean isReadable() {
        Pipe pipe = link.pipe();
        return link.isOver() || pipe != null && (!pipe.inbox.isEmpty() || pipe.peerEnded());
    }

    /**
     * {@link #write} takes something, or has an error to say. True again when a quarter of a buffer that was full is free.
     *
     * @return whether that is so
     */
    public synchronized boolean isWritable() {
        return link.isOver() || link.pipe() != null && link.pipe().queue.free() >= link.options.queue / 4;
    }

    /**
     * Measurements so far.
     *
     * @return a copy
     */
    public synchronized AlccStatistics statistics() {
        AlccStatistics.Builder to = new AlccStatistics.Builder();
        if (link.pipe() != null) {
            link.pipe().report(to);
            to.age = link.age();
        }
        return to.build();
    }

    /** The error that ended it, or null. */
    synchronized IOException failure() {
        return link.failure();
    }

    /** Bytes written have not all been acknowledged, and still may be. */
    synchronized boolean isUnsettled() {
        Pipe pipe = link.pipe();
        return !link.isOver() && pipe != null && (pipe.isBusy() || pipe.flow.inFlight() > 0 && !pipe.peerEnded());
    }

    /** Bytes written will never be acknowledged: the peer ended its direction, and its acknowledgements with it. */
    synchronized boolean isUnheard() {
        return link.pipe() != null && link.pipe().flow.inFlight() > 0 && link.pipe().peerEnded();
    }

    private void touch() {
        AlccLoop serving = loop;
        if (serving != null) {
            serving.touch(this);
        }
    }

    synchronized int available() {
        return link.pipe() == null ? 0 : link.pipe().inbox.size();
    }
}
