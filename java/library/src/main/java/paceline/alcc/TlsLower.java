package paceline.alcc;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLPeerUnverifiedException;

/** TLS by the platform's engine. What a handshake computes is computed by the thread that calls. */
final class TlsLower implements Lower {
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private final SocketChannel channel;
    private final SSLEngine engine;
    /** Whose certificate it has to be; null at a server. */
    private final String host;
    /** Records of the peer, ready to be filled. */
    private ByteBuffer in;
    /** What they held, ready to be read. */
    private ByteBuffer clear;
    /** Records of ours, ready to be written to TCP. */
    private ByteBuffer out;
    private boolean begun;
    private boolean ready;
    private boolean ended;

    TlsLower(SocketChannel channel, SSLEngine engine, String host) {
        this.channel = channel;
        this.engine = engine;
        this.host = host;
        in = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
        out = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
        out.limit(0);
        clear = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize());
        clear.limit(0);
    }

    @Override
    public boolean shake() throws IOException {
        try {
            return ready || shakeOn();
        } catch (SSLPeerUnverifiedException clear) {
            throw clear;
        } catch (SSLException failed) {
            SSLException clear = new SSLException("TLS could not be agreed (" + failed.getMessage()
                    + "); does the server speak TLS at this port, and is its certificate from who is trusted here?");
            clear.initCause(failed);
            throw clear;
        }
    }

    private boolean shakeOn() throws IOException {
        if (!begun) {
            begun = true;
            engine.beginHandshake();
        }
        while (!ready) {
            switch (engine.getHandshakeStatus()) {
                case NEED_TASK:
                    runTasks();
                    break;
                case NEED_WRAP:
                    if (!flush() || !wrap(NOTHING)) {
                        return false;
                    }
                    break;
                case FINISHED:
                case NOT_HANDSHAKING:
                    finish();
                    break;
                default:
                    if (!flush() || unwrap() <= 0) {
                        return false;
                    }
            }
            if (ended) {
                throw new SSLException("the peer ended the connection");
            }
        }
        return true;
    }

    private void finish() throws SSLException {
        if (host != null) {
            HostName.verify(host, engine.getSession());
        }
        ready = true;
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        while (!clear.hasRemaining()) {
            if (ended) {
                return -1;
            }
            int got = unwrap();
            if (got == 0) {
                return 0;
            }
            answer();
        }
        int count = Math.min(clear.remaining(), to.remaining());
        int limit = clear.limit();
        clear.limit(clear.position() + count);
        to.put(clear);
        clear.limit(limit);
        return count;
    }

    /** After the handshake the peer may ask for keys. */
    private void answer() throws IOException {
        while (ready) {
            HandshakeStatus status = engine.getHandshakeStatus();
            if (status == HandshakeStatus.NEED_TASK) {
                runTasks();
            } else if (status != HandshakeStatus.NEED_WRAP || !flush() || !wrap(NOTHING)) {
                return;
            }
        }
    }

    /** Opens one record: 1; 0 when more has to come; at the end sets {@link #ended} and answers 1. */
    private int unwrap() throws IOException {
        while (true) {
            in.flip();
            clear.clear();
            SSLEngineResult result;
            try {
                result = engine.unwrap(in, clear);
            } finally {
                in.compact();
                clear.flip();
            }
            switch (result.getStatus()) {
                case BUFFER_OVERFLOW:
                    clear = emptied(engine.getSession().getApplicationBufferSize());
                    break;
                case BUFFER_UNDERFLOW:
                    if (in.capacity() < engine.getSession().getPacketBufferSize()) {
                        in.flip();
                        in = ByteBuffer.allocate(engine.getSession().getPacketBufferSize()).put(in);
                    }
                    int count = channel.read(in);
                    if (count == 0) {
                        return 0;
                    }
                    if (count < 0) {
                        ended = true;
                        if (ready && !engine.isInboundDone()) {
                            throw new SSLException("the connection was cut: the peer's TLS did not say that this is its end");
                        }
                        return 1;
                    }
                    break;
                case CLOSED:
                    ended = true;
                    return 1;
                default:
                    return 1;
            }
        }
    }

    private static ByteBuffer emptied(int capacity) {
        ByteBuffer buffer = ByteBuffer.allocate(capacity);
        buffer.limit(0);
        return buffer;
    }

    @Override
    public void write(ByteBuffer from) throws IOException {
        while (from.hasRemaining() && flush() && wrap(from)) {
            flush();
        }
    }

    /** Makes one record; false when the engine is closed. */
    private boolean wrap(ByteBuffer from) throws IOException {
        while (true) {
            out.compact();
            SSLEngineResult result;
            try {
                result = engine.wrap(from, out);
            } finally {
                out.flip();
            }
            switch (result.getStatus()) {
                case BUFFER_OVERFLOW:
                    out = ByteBuffer.allocate(out.remaining() + engine.getSession().getPacketBufferSize()).put(out);
                    out.flip();
                    break;
                case CLOSED:
                    flush();
                    return false;
                default:
                    flush();
                    return true;
            }
        }
    }

    @Override
    public boolean flush() throws IOException {
        if (out.hasRemaining()) {
            channel.write(out);
        }
        return !out.hasRemaining();
    }

    @Override
    public boolean shutdownOutput() throws IOException {
        if (!engine.isOutboundDone()) {
            engine.closeOutbound();
            while (!engine.isOutboundDone() && flush() && wrap(NOTHING)) {
                // The last word of ours, in one record or a few.
            }
        }
        if (!flush()) {
            return false;
        }
        channel.socket().shutdownOutput();
        return true;
    }

    private void runTasks() {
        Runnable task = engine.getDelegatedTask();
        while (task != null) {
            task.run();
            task = engine.getDelegatedTask();
        }
    }
}
