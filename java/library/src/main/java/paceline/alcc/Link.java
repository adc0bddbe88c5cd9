package paceline.alcc;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;

/**
 * A connection of TCP from its beginning to its end, with a {@link Pipe} in it while it stands. Never waits. Not safe for several
 * threads: an {@link AlccChannel} calls it while it holds its own monitor.
 */
final class Link {
    /** A handshake that took longer was repeated, and says nothing about the RTT (TCP sends a SYN again after 1 s). */
    private static final long HANDSHAKE_LIMIT = 900_000_000;
    /** A connection that closes is given up after this long without a byte acknowledged, as in the Rust engine. */
    private static final long LINGER = 60_000_000_000L;

    final SocketChannel channel;
    final AlccOptions options;
    private final long origin = System.nanoTime();
    private Pipe pipe;
    private String host;
    private long connectedAt = -1;
    private boolean closing;
    private long closedAt;
    private boolean closed;
    private boolean lingers;
    private IOException failure;

    Link(SocketChannel channel, AlccOptions options) throws IOException {
        this.channel = channel;
        this.options = options.copy();
        channel.configureBlocking(false);
    }

    /** Nanoseconds since it was made. */
    long time() {
        return System.nanoTime() - origin;
    }

    /** How long it has stood. */
    long age() {
        return time() - connectedAt;
    }

    /** Null until TCP stands. */
    Pipe pipe() {
        return pipe;
    }

    /** The application has closed it. */
    boolean isClosing() {
        return closing;
    }

    /** Nothing more will happen. */
    boolean isOver() {
        return closed;
    }

    /** The error that ended it, or null. */
    IOException failure() {
        return failure;
    }

    /** It stands, or stood, TLS included. */
    boolean isConnected() {
        return pipe != null && pipe.isShaken();
    }

    void connect(InetSocketAddress to) throws IOException {
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

    /** TCP stands already. */
    void take(String peer) throws IOException {
        host = peer;
        begin();
    }

    private void begin() throws IOException {
        channel.socket().setTcpNoDelay(true);
        connectedAt = time();
        int port = channel.socket().getPort();
        Lower lower = options.tls == null ? new PlainLower(channel)
                : new TlsLower(channel, options.tls.engine(host, port), options.tls.isClient() ? host : null);
        pipe = new Pipe(lower, options);
    }

    int interestOps() {
        if (closed) {
            return 0;
        }
        if (pipe == null) {
            return channel.isConnectionPending() ? SelectionKey.OP_CONNECT : 0;
        }
        return (pipe.wantsRead() || closing && !pipe.peerEnded() ? SelectionKey.OP_READ : 0)
                | (pipe.wantsWrite() ? SelectionKey.OP_WRITE : 0);
    }

    /** As {@link System#nanoTime}; {@link Long#MAX_VALUE} for never. */
    long nextWake() {
        if (closed || pipe == null) {
            return Long.MAX_VALUE;
        }
        long at = pipe.nextWake();
        if (closing) {
            at = Math.min(at, Math.max(pipe.progress(), closedAt) + LINGER);
        }
        // A controller may name a time beyond all clocks.
        return at >= Long.MAX_VALUE - Math.abs(origin) ? Long.MAX_VALUE : origin + at;
    }

    /** Does what {@code readyOps} permit, and what the time asks for. What fails ends it: {@link #failure}. */
    void process(int readyOps, ByteBuffer buffer) {
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
                run((readyOps & SelectionKey.OP_READ) != 0, (readyOps & SelectionKey.OP_WRITE) != 0, buffer);
            }
        } catch (IOException failed) {
            fail(failed);
        } catch (RuntimeException bug) {
            fail(new IOException("the connection ended by an error of this library: " + bug, bug));
            throw bug;
        }
    }

    /** The application has changed something: what can leave does. */
    void run() {
        try {
            run(false, false, null);
        } catch (IOException failed) {
            fail(failed);
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

    /** While something waits here, the kernel answers the end of this process by a reset, so that no part passes for the whole. */
    private void protect() throws IOException {
        if (!closed && pipe.isBusy() != lingers) {
            lingers = !lingers;
            channel.socket().setSoLinger(lingers, 0);
        }
    }

    /** Throws unless it can be read: what was complete before an error still can. */
    void checkReadable() throws IOException {
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

    /** Throws unless it stands in our direction. */
    void checkWritable() throws IOException {
        checkReadable();
        if (failure != null) {
            throw failure;
        }
    }

    /** The application needs it no more: what was written still leaves. */
    void close() {
        if (closing || closed) {
            closing = true;
            return;
        }
        closing = true;
        closedAt = time();
        if (!isConnected()) {
            end();
        } else {
            pipe.shut();
            run();
        }
    }

    /** Ends it by a reset: for the application's own wish, null, or for a reason. */
    void abort(IOException reason) {
        closing |= reason == null;
        fail(reason);
    }

    /** It is over; what waits is dropped, so the peer gets a reset. */
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
    }
}
