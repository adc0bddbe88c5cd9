package paceline.alcc;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * A socket above TCP, used like {@link java.net.Socket}: its controller decides what is handed to TCP, so that no queue builds up on
 * the way. Reads and writes wait; the thread of {@link AlccLoop#shared} does the rest.
 *
 * <pre>{@code
 * try (AlccSocket socket = new AlccSocket(new AlccOptions().controller("copa"))) {
 *     socket.connect(new InetSocketAddress("upload.example.org", 4436), 10000);
 *     socket.getOutputStream().write(bytes);
 * }
 * }</pre>
 */
public final class AlccSocket implements Closeable {
    private final AlccChannel channel;
    private final AlccLoop loop;
    private final InputStream input = new Input();
    private final OutputStream output = new Output();
    private volatile int timeout;

    /**
     * An unconnected socket with default options.
     *
     * @throws IOException when the system has no more sockets
     */
    public AlccSocket() throws IOException {
        this(new AlccOptions());
    }

    /**
     * An unconnected socket.
     *
     * @param options of the connection
     * @throws IOException when the system has no more sockets
     */
    public AlccSocket(AlccOptions options) throws IOException {
        this(AlccChannel.open(options), AlccLoop.shared());
    }

    /**
     * A socket over a connection of TCP that stands, from its first byte on; at a server, one that was accepted.
     *
     * @param connected belongs to this object from now on
     * @param host whose certificate it has to be, at a client with TLS
     * @param options of the connection
     * @throws IOException when it is closed
     */
    public AlccSocket(SocketChannel connected, String host, AlccOptions options) throws IOException {
        this(AlccChannel.of(connected, host, options), AlccLoop.shared());
        loop.add(channel, null);
    }

    private AlccSocket(AlccChannel channel, AlccLoop loop) {
        this.channel = channel;
        this.loop = loop;
    }

    /**
     * Connects, and waits for it without a limit.
     *
     * @param address a resolved address
     * @throws IOException when that fails
     */
    public void connect(SocketAddress address) throws IOException {
        connect(address, 0);
    }

    /**
     * Connects, TLS included.
     *
     * @param address a resolved address; its name is what a certificate has to have
     * @param millis how long to wait at most; 0 for no limit
     * @throws SocketTimeoutException when that time is over; the socket is closed
     * @throws IOException when it fails; the socket is closed
     */
    public void connect(SocketAddress address, int millis) throws IOException {
        long until = deadline(millis);
        boolean done = false;
        try {
            channel.connect(address);
            loop.add(channel, null);
            synchronized (channel) {
                while (!channel.isConnected() && !channel.isOver()) {
                    await(until, "the server has not answered within " + millis + " ms");
                }
                if (!channel.isConnected()) {
                    throw failed();
                }
            }
            done = true;
        } finally {
            if (!done) {
                channel.abort();
            }
        }
    }

    private IOException failed() {
        IOException reason = channel.failure();
        return reason == null ? new SocketException("the socket is closed") : reason;
    }

    private static long deadline(int millis) {
        if (millis < 0) {
            throw new IllegalArgumentException("a timeout is 0 or more milliseconds, not " + millis);
        }
        return millis == 0 ? Long.MAX_VALUE : System.nanoTime() + millis * 1_000_000L;
    }

    /** Waits for news of the channel, whose monitor is held. */
    private void await(long until, String late) throws IOException {
        try {
            if (until == Long.MAX_VALUE) {
                channel.wait();
                return;
            }
            long left = until - System.nanoTime();
            if (left <= 0) {
                throw new SocketTimeoutException(late);
            }
            channel.wait((left + 999_999) / 1_000_000);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            InterruptedIOException stopped = new InterruptedIOException("interrupted while waiting for the peer");
            stopped.initCause(interrupted);
            throw stopped;
        }
    }

    /**
     * What the peer sends.
     *
     * @return always the same stream; closing it closes the socket
     */
    public InputStream getInputStream() {
        return input;
    }

    /**
     * What the peer gets. A write waits while the buffer is full; {@code flush} lets the rest leave without waiting for more.
     *
     * @return always the same stream; closing it closes the socket
     */
    public OutputStream getOutputStream() {
        return output;
    }

    /**
     * Ends our direction behind everything that was written. Acknowledgements end with it: see {@link AlccChannel#shutdownOutput}.
     *
     * @throws IOException when the connection does not stand
     */
    public void shutdownOutput() throws IOException {
        channel.shutdownOutput();
    }

    /**
     * How long a read or a write waits at most.
     *
     * @param millis 0 for no limit, the default
     */
    public void setSoTimeout(int millis) {
        deadline(millis);
        timeout = millis;
    }

    /**
     * Waits until everything written has been acknowledged by the peer.
     *
     * @param millis how long at most; 0 for no limit
     * @throws SocketTimeoutException when that time is over
     * @throws EOFException when the peer has ended its direction, and its acknowledgements with it
     * @throws IOException the connection's error
     */
    public void awaitDelivery(int millis) throws IOException {
        long until = deadline(millis);
        channel.flush();
        synchronized (channel) {
            while (channel.isUnsettled()) {
                await(until, "the peer has not acknowledged everything within " + millis + " ms");
            }
            if (channel.failure() != null) {
                throw channel.failure();
            }
            if (channel.isUnheard()) {
                throw new EOFException("the peer ended its direction, so it can acknowledge no more");
            }
        }
    }

    /** Closes: at once here; what was written still leaves, as with {@link java.net.Socket}. */
    @Override
    public void close() {
        channel.close();
    }

    /** Closes by a reset: what was written and has not left is lost. */
    public void abort() {
        channel.abort();
    }

    /**
     * The address of the peer.
     *
     * @return null before the connection stands
     */
    public InetSocketAddress getRemoteSocketAddress() {
        return (InetSocketAddress) channel.socketChannel().socket().getRemoteSocketAddress();
    }

    /**
     * Measurements so far.
     *
     * @return a copy
     */
    public AlccStatistics statistics() {
        return channel.statistics();
    }

    /** Reads wait. */
    private final class Input extends InputStream {
        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            ByteBuffer to = ByteBuffer.wrap(bytes, offset, length);
            if (length == 0) {
                return 0;
            }
            int count = channel.read(to);
            if (count != 0) {
                return count;
            }
            long until = deadline(timeout);
            synchronized (channel) {
                while (!channel.isReadable()) {
                    await(until, "the peer has sent nothing for " + timeout + " ms");
                }
            }
            return read(bytes, offset, length);
        }

        @Override
        public int available() {
            return channel.available();
        }

        @Override
        public void close() {
            AlccSocket.this.close();
        }
    }

    /** Writes wait for space. */
    private final class Output extends OutputStream {
        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            ByteBuffer from = ByteBuffer.wrap(bytes, offset, length);
            while (from.hasRemaining()) {
                if (channel.write(from) == 0) {
                    long until = deadline(timeout);
                    synchronized (channel) {
                        while (!channel.isWritable()) {
                            await(until, "the peer has accepted nothing for " + timeout + " ms");
                        }
                    }
                }
            }
        }

        @Override
        public void flush() {
            channel.flush();
        }

        @Override
        public void close() {
            AlccSocket.this.close();
        }
    }
}
