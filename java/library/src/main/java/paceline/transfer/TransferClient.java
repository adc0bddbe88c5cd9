package paceline.transfer;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import paceline.alcc.AlccListener;
import paceline.alcc.AlccOptions;
import paceline.alcc.AlccSocket;
import paceline.alcc.AlccStatistics;

/**
 * One session with a server: connect, then one transfer. Waits; {@link #cancel} from another thread ends it.
 *
 * <pre>{@code
 * try (TransferClient client = new TransferClient(address, new AlccOptions(), Token.parse(text))) {
 *     client.put("photo.jpg", source, id, progress);
 * }
 * }</pre>
 */
public final class TransferClient implements Closeable {
    /** The port that servers listen on. */
    public static final int PORT = 4436;
    /** How long a server may take to answer or to acknowledge: a minute. */
    private static final int PATIENCE = 60_000;
    private static final int CONNECT = 20_000;
    private static final int NONCE = 16;
    private static final int BUFFER = 64 * 1024;

    private final AlccSocket socket;
    private final InputStream in;
    private final OutputStream out;
    private final Token token;
    private final byte[] nonce = new byte[NONCE];
    private final byte[] buffer = new byte[BUFFER];
    private volatile Progress progress;
    private volatile long base;
    private volatile long total;
    private volatile boolean upwards;

    /**
     * Connects, and reads what the server says first.
     *
     * @param address resolved; its name is what a certificate has to have
     * @param options of the connection; its listener is not used
     * @param token null for none
     * @throws IOException when it cannot be reached, or is not such a server
     */
    public TransferClient(InetSocketAddress address, AlccOptions options, Token token) throws IOException {
        this.token = token;
        socket = new AlccSocket(options.silenceLimit(PATIENCE).listener(new AlccListener() {
            @Override
            public void progress(AlccStatistics statistics) {
                inform(statistics);
            }
        }));
        in = socket.getInputStream();
        out = socket.getOutputStream();
        boolean done = false;
        try {
            socket.setSoTimeout(PATIENCE);
            socket.connect(address, CONNECT);
            byte[] greeting = new byte[4];
            Answer.fill(in, greeting);
            if (greeting[0] != 'P' || greeting[1] != 'L' || greeting[2] != 'T' || greeting[3] != 1) {
                throw TransferException.protocol("the server does not speak version 1 of the transfer protocol");
            }
            Answer.fill(in, nonce);
            done = true;
        } finally {
            if (!done) {
                socket.abort();
            }
        }
    }

    private void inform(AlccStatistics statistics) {
        Progress listener = progress;
        if (listener != null) {
            // The hash at the end counts for the connection, and not for the file.
            long done = base + (upwards ? statistics.delivered : statistics.received);
            listener.progress(total < 0 ? done : Math.min(done, total), total, statistics);
        }
    }

    private Answer ask(Request request) throws IOException {
        out.write(request.write(token, nonce));
        out.flush();
        return Answer.read(in).orThrow();
    }

    /**
     * Uploads. What the server holds already of the same upload is not sent again.
     *
     * @param name under which the server keeps it
     * @param source is read from its beginning; stays open
     * @param id 16 bytes that name this upload: the same when it is tried again, different for other content
     * @param listener null for none
     * @return what was done
     * @throws TransferException what the server says against it
     * @throws IOException what the network says; a later attempt with the same id goes on where this one ended
     */
    public Summary put(String name, Source source, byte[] id, Progress listener) throws IOException {
        long begun = System.nanoTime();
        long size = source.size();
        long from = ask(new Request(Request.PUT, name, size, id, 0)).number;
        if (from > size) {
            throw TransferException.protocol("the server holds " + from + " bytes of " + size);
        }
        begin(listener, from, size, true);
        MessageDigest hash = sha256();
        for (long at = 0; at < size;) {
            int wanted = (int) Math.min(buffer.length, (at < from ? from : size) - at);
            int count = source.read(buffer, 0, wanted);
            if (count <= 0) {
                throw new EOFException("the file has " + at + " bytes instead of " + size + ": it was changed meanwhile");
            }
            hash.update(buffer, 0, count);
            if (at >= from) {
                say(buffer, count);
            }
            at += count;
        }
        say(hash.digest(), 32);
        out.flush();
        Answer answer = Answer.read(in).orThrow();
        if (answer.number != size) {
            throw TransferException.protocol("the server holds " + answer.number + " bytes of " + size);
        }
        return end(size - from, from, begun);
    }

    /**
     * Sends bytes that mean nothing and are dropped, to measure.
     *
     * @param bytes how many; {@link Long#MAX_VALUE} until the time is over
     * @param millis for how long at most; 0 for no limit
     * @param listener null for none
     * @return what was done
     * @throws IOException as {@link #put}
     */
    public Summary send(long bytes, long millis, Progress listener) throws IOException {
        long begun = System.nanoTime();
        long size = bytes == Long.MAX_VALUE ? Request.ENDLESS : bytes;
        ask(new Request(Request.DISCARD, "", size, new byte[Request.ID], 0));
        begin(listener, 0, bytes == Long.MAX_VALUE ? -1 : bytes, true);
        long at = 0;
        while (at < bytes && !isOver(begun, millis)) {
            int count = (int) Math.min(buffer.length, bytes - at);
            say(buffer, count);
            at += count;
        }
        try {
            socket.awaitDelivery(PATIENCE);
        } catch (EOFException ended) {
            // The server has ended its direction: its last word is there.
        }
        if (at < size) {
            socket.shutdownOutput();
        }
        Answer.read(in).orThrow();
        return end(at, 0, begun);
    }

    /**
     * Downloads.
     *
     * @param name of the server's file
     * @param to takes the bytes from {@code offset} on; stays open
     * @param offset how many are there already
     * @param before the digest of those bytes, to be made by {@link #sha256}; null where offset is 0
     * @param listener null for none
     * @return what was done
     * @throws TransferException what the server says against it, or when the hash differs
     * @throws IOException as {@link #put}
     */
    public Summary get(String name, OutputStream to, long offset, MessageDigest before, Progress listener) throws IOException {
        long begun = System.nanoTime();
        long size = ask(new Request(Request.GET, name, 0, new byte[Request.ID], offset)).number;
        if (size < offset) {
            throw TransferException.protocol("the server's file has " + size + " bytes, fewer than the " + offset + " here");
        }
        begin(listener, offset, size, false);
        MessageDigest hash = before == null ? sha256() : before;
        for (long at = offset; at < size;) {
            int count = in.read(buffer, 0, (int) Math.min(buffer.length, size - at));
            if (count < 0) {
                throw new EOFException("the server ended the connection after " + at + " of " + size + " bytes");
            }
            hash.update(buffer, 0, count);
            to.write(buffer, 0, count);
            at += count;
        }
        byte[] expected = new byte[32];
        Answer.fill(in, expected);
        if (!MessageDigest.isEqual(expected, hash.digest())) {
            throw new TransferException(Status.MISMATCH, "what came has another hash than the server says; fetch it again");
        }
        return end(size - offset, offset, begun);
    }

    /**
     * Receives bytes that mean nothing, to measure.
     *
     * @param bytes how many; {@link Long#MAX_VALUE} until the time is over
     * @param millis for how long at most; 0 for no limit
     * @param listener null for none
     * @return what was done
     * @throws IOException as {@link #put}
     */
    public Summary receive(long bytes, long millis, Progress listener) throws IOException {
        long begun = System.nanoTime();
        long size = bytes == Long.MAX_VALUE ? Request.ENDLESS : bytes;
        ask(new Request(Request.GENERATE, "", size, new byte[Request.ID], 0));
        begin(listener, 0, bytes == Long.MAX_VALUE ? -1 : bytes, false);
        long at = 0;
        while (at < size && !isOver(begun, millis)) {
            int count = in.read(buffer, 0, (int) Math.min(buffer.length, size - at));
            if (count < 0) {
                throw new EOFException("the server ended the connection after " + at + " bytes");
            }
            at += count;
        }
        Summary summary = end(at, 0, begun);
        if (at < size) {
            // The server would go on for ever.
            socket.abort();
        }
        return summary;
    }

    /**
     * How large a file of the server's is.
     *
     * @param name of the file
     * @return bytes
     * @throws TransferException what the server says against it
     * @throws IOException what the network says
     */
    public long size(String name) throws IOException {
        return ask(new Request(Request.STAT, name, 0, new byte[Request.ID], 0)).number;
    }

    /** Ends the transfer from another thread: it throws there, and can be resumed. */
    public void cancel() {
        socket.abort();
    }

    /** Closes the connection. */
    @Override
    public void close() {
        socket.close();
    }

    /**
     * The hash that transfers use.
     *
     * @return a new digest
     */
    public static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException("the platform has no SHA-256", missing);
        }
    }

    private static boolean isOver(long begun, long millis) {
        return millis > 0 && System.nanoTime() - begun >= millis * 1_000_000;
    }

    private void begin(Progress listener, long from, long size, boolean up) {
        AlccStatistics now = socket.statistics();
        base = from - (up ? now.written : now.received);
        total = size;
        upwards = up;
        progress = listener;
        inform(now);
    }

    private Summary end(long moved, long from, long begun) {
        Summary summary = new Summary(moved, from, System.nanoTime() - begun, socket.statistics());
        Progress listener = progress;
        progress = null;
        if (listener != null) {
            listener.progress(from + moved, total, summary.statistics);
        }
        return summary;
    }

    /** Writes; the server may say meanwhile why it takes no more. */
    private void say(byte[] bytes, int count) throws IOException {
        if (in.available() > 0) {
            Answer.read(in).orThrow();
            throw TransferException.protocol("the server ended the transfer before it was whole");
        }
        try {
            out.write(bytes, 0, count);
        } catch (SocketTimeoutException late) {
            throw late;
        } catch (IOException failed) {
            throw lastWord(failed);
        }
    }

    private IOException lastWord(IOException failed) {
        try {
            Answer.read(in).orThrow();
            return failed;
        } catch (TransferException said) {
            said.addSuppressed(failed);
            return said;
        } catch (IOException silent) {
            return failed;
        }
    }
}
