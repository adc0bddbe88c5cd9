package paceline.alcc;

import java.io.Closeable;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NotYetConnectedException;
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
    /** A handshake that took longer was repeated, and says nothing about the RTT (TCP sends a SYN again after 1 s). */
    private static final long HANDSHAKE_LIMIT = 900_000_000;
    /** A connection that closes is given up after so long without a byte acknowledged, as in the Rust engine. */
    private static final long LINGER = 60_000_000_000L;
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

    private final SocketChannel channel;
    private final AlccOptions options;
    private final long origin = System.nanoTime();
    private Pipe pipe;
    private String host;
    private long connectedAt = -1;
    private boolean closing;
    private long closedAt;
    private boolean closed;
    private boolean lingers;
    private IOException failure;
    private long reportedAt;
    private long reportedBytes = -1;

    private AlccChannel(SocketChannel channel, AlccOptions options) throws IOException {
        this.channel = channel;
        this.options = options.copy();
        channel.configureBlocking(false);
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
        made.host = host;
        synchronized (made) {
            made.begin();
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
            host = to.getHostString();
            try {
                if (channel.connect(to)) {
                    begin();
                }
            } catch (IOException failed) {
                fail(failed);
                throw failed;
            }
        }
        touch();
    }

    private void begin() throws IOException {
        channel.socket().setTcpNoDelay(true);
        connectedAt = time();
        int port = channel.socket().getPort();
        Lower lower = options.tls == null ? new PlainLower(channel)
                : new TlsLower(channel, options.tls.engine(host, port), options.tls.isClient() ? host : null);
        pipe = new Pipe(lower, options);
    }

    private long time() {
        return System.nanoTime() - origin;
    }

    /**
     * The socket channel, to be registered with a selector. Whoever reads or writes it breaks the connection.
     *
     * @return the channel below
     */
    public SocketChannel socketChannel() {
        return channel;
    }

    /**
     * What a selector has to wait for.
     *
     * @return operations of {@link SelectionKey}; 0 when it is over
     */
    public synchronized int interestOps() {
        if (closed) {
            return 0;
        }
        if (pipe == null) {
            return channel.isConnectionPending() ? SelectionKey.OP_CONNECT : 0;
        }
        return (pipe.wantsRead() || closing && !pipe.peerEnded() ? SelectionKey.OP_READ : 0)
                | (pipe.wantsWrite() ? SelectionKey.OP_WRITE : 0);
    }

    /**
     * When {@link #process} has to be called although nothing is ready.
     *
     * @return {@link System#nanoTime} of that moment; {@link Long#MAX_VALUE} for never, as while the connection is idle
     */
    public synchronized long nextWake() {
        if (closed || pipe == null) {
            return Long.MAX_VALUE;
        }
        long at = pipe.nextWake();
        if (closing) {
            at = Math.min(at, Math.max(pipe.progress(), closedAt) + LINGER);
        }
        return at == Long.MAX_VALUE ? at : origin + at;
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
            if (closed) {
                return;
            }
            try {
                if (pipe == null && (readyOps & SelectionKey.OP_CONNECT) != 0 && channel.finishConnect()) {
                    begin();
                    if (connectedAt < HANDSHAKE_LIMIT) {
                        pipe.flow.connected(connectedAt, Math.max(connectedAt, 1));
                    }
                }
                if (pipe != null) {
                    run((readyOps & SelectionKey.OP_READ) != 0, (readyOps & SelectionKey.OP_WRITE) != 0, SCRATCH.get());
                    report = dueReport();
                }
            } catch (IOException failed) {
                fail(failed);
            } catch (RuntimeException bug) {
                fail(new IOException("the connection ended by an error of this library: " + bug, bug));
                throw bug;
            } finally {
                notifyAll();
            }
        }
        if (report != null) {
            options.listener.progress(report);
        }
    }

    private void run(boolean readable, boolean writable, ByteBuffer buffer) throws IOException {
        long now = time();
        pipe.run(now, readable, writable, buffer);
        if (closing) {
            // The application reads no more; acknowledgements are still needed.
            pipe.inbox.clear();
            if (pipe.isSettled()) {
                end();
            } else if (now - Math.max(pipe.progress(), closedAt) >= LINGER) {
                fail(new IOException("the peer accepted nothing for 60 s after the end"));
            }
        }
        protect();
    }

    private void runNow() {
        try {
            run(false, false, null);
        } catch (IOException failed) {
            fail(failed);
        }
    }

    /** While something waits here, the kernel answers the end of this process by a reset, so that no part passes for the whole. */
    private void protect() throws IOException {
        if (!closed && pipe.isBusy() != lingers) {
            lingers = !lingers;
            channel.socket().setSoLinger(lingers, 0);
        }
    }

    private AlccStatistics dueReport() {
        if (options.listener == null || time() - reportedAt < REPORT_EVERY) {
            return null;
        }
        AlccStatistics now = statistics();
        if (now.delivered + now.received == reportedBytes) {
            return null;
        }
        reportedBytes = now.delivered + now.received;
        reportedAt = time();
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
            check();
            stopped = pipe.isInboxFull();
            taken = pipe.inbox.take(to, to.remaining());
            if (taken == 0 && to.hasRemaining()) {
                if (failure != null) {
                    throw failure;
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
        return closing && !closed;
    }

    private void check() throws IOException {
        if (pipe == null || closing || closed) {
            if (failure != null && (pipe == null || pipe.inbox.isEmpty())) {
                throw failure;
            }
            if (closing || closed && failure == null) {
                throw new ClosedChannelException();
            }
            if (pipe == null) {
                throw new NotYetConnectedException();
            }
        }
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
            check();
            if (failure != null) {
                throw failure;
            }
            if (pipe.isShut()) {
                throw new SocketException("the output is shut down");
            }
            taken = pipe.write(from);
            runNow();
        }
        touch();
        return taken;
    }

    /** What was written leaves without waiting for more. */
    public void flush() {
        synchronized (this) {
            if (pipe == null || closed) {
                return;
            }
            pipe.push(time());
            runNow();
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
            check();
            if (failure != null) {
                throw failure;
            }
            pipe.shut();
            runNow();
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
            if (closing || closed) {
                closing = true;
                return;
            }
            closing = true;
            closedAt = time();
            if (pipe == null || !pipe.isShaken()) {
                end();
            } else {
                pipe.shut();
                runNow();
            }
            notifyAll();
        }
        touch();
    }

    /** Closes by a reset: what was written and has not left is lost. */
    public void abort() {
        synchronized (this) {
            closing = true;
            fail(null);
        }
        touch();
    }

    /**
     * The socket below is closed: nothing more will happen.
     *
     * @return whether that is so
     */
    public synchronized boolean isOver() {
        return closed;
    }

    /**
     * The connection stands, or stood, TLS included.
     *
     * @return whether that is so
     */
    public synchronized boolean isConnected() {
        return pipe != null && pipe.isShaken();
    }

    /**
     * {@link #read} has something to say: bytes, the end, an error.
     *
     * @return whether that is so
     */
    public synchronized boolean isReadable() {
        return failure != null || closed || pipe != null && (!pipe.inbox.isEmpty() || pipe.peerEnded());
    }

    /**
     * {@link #write} takes something, or has an error to say. True again when a quarter of a buffer that was full is free.
     *
     * @return whether that is so
     */
    public synchronized boolean isWritable() {
        return failure != null || closed || pipe != null && pipe.queue.free() >= options.queue / 4;
    }

    /**
     * Measurements so far.
     *
     * @return a copy
     */
    public synchronized AlccStatistics statistics() {
        AlccStatistics.Builder to = new AlccStatistics.Builder();
        if (pipe != null) {
            pipe.report(to);
            to.age = time() - connectedAt;
        }
        return to.build();
    }

    /** The error that ended it, or null. */
    synchronized IOException failure() {
        return failure;
    }

    /** Bytes written have not all been acknowledged. */
    synchronized boolean isUnsettled() {
        return !closed && pipe != null && (pipe.isBusy() || pipe.flow.inFlight() > 0);
    }

    /** The connection is over; what waits is dropped, so the peer gets a reset. */
    private void fail(IOException reason) {
        if (closed) {
            return;
        }
        failure = reason instanceof ConnectException ? connectFailed(reason) : reason;
        try {
            if (pipe != null && !pipe.isShutSent()) {
                channel.socket().setSoLinger(true, 0);
            }
        } catch (SocketException gone) {
            // There is nothing to reset.
        }
        if (pipe != null) {
            pipe.queue.clear();
        }
        end();
    }

    private IOException connectFailed(IOException reason) {
        ConnectException clear = new ConnectException(reason.getMessage() + ": " + host + "; is the server running there?");
        clear.initCause(reason);
        return clear;
    }

    private void end() {
        closed = true;
        try {
            channel.close();
        } catch (IOException gone) {
            // It was closed already.
        }
        notifyAll();
    }

    private void touch() {
        AlccLoop serving = loop;
        if (serving != null) {
            serving.touch(this);
        }
    }

    synchronized int available() {
        return pipe == null ? 0 : pipe.inbox.size();
    }
}
