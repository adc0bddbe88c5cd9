package paceline.transfer;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import paceline.alcc.AlccOptions;
import paceline.alcc.AlccSocket;
import paceline.alcc.Peer;
import paceline.alcc.Varint;

/** A server of the transfer protocol in memory, which fails where a test wants it. */
public final class TestServer implements Closeable {
    /** Whole files. */
    public final Map<String, byte[]> files = new ConcurrentHashMap<>();
    /** Uploads that are not whole, by id. */
    public final Map<String, byte[]> parts = new ConcurrentHashMap<>();
    /** Sessions so far. */
    public final AtomicInteger sessions = new AtomicInteger();
    /** The connection is reset after this many bytes of an upload. */
    public volatile int killAfter = Integer.MAX_VALUE;
    /** The disk is full after this many bytes of an upload. */
    public volatile int fullAfter = Integer.MAX_VALUE;
    /** It stops to read after this many bytes of an upload, until this is larger. */
    public volatile int pauseAt = Integer.MAX_VALUE;
    /** It does so now. */
    public volatile boolean isPaused;
    /** The secret of the one token that it takes; null for none. */
    public volatile byte[] secret;

    private final Peer peer;

    /** Listens. */
    public TestServer() throws IOException {
        peer = Peer.framed(new AlccOptions(), this::serve);
    }

    /** Where. */
    public InetSocketAddress address() {
        return peer.address();
    }

    private void serve(AlccSocket socket) throws Exception {
        sessions.incrementAndGet();
        OutputStream out = socket.getOutputStream();
        byte[] nonce = new byte[16];
        Arrays.fill(nonce, (byte) sessions.get());
        out.write(new byte[] {'P', 'L', 'T', 1});
        out.write(nonce);
        out.flush();
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] request = new byte[(int) number(in)];
        in.readFully(request);
        ByteBuffer fields = ByteBuffer.wrap(request);
        int kind = fields.get();
        String name = text(fields);
        long size = Varint.read(fields);
        byte[] id = new byte[16];
        fields.get(id);
        long offset = Varint.read(fields);
        text(fields);
        Varint.read(fields);
        text(fields);
        if (!isGranted(nonce, request)) {
            answer(out, 1, 0, "this needs a token of this server");
        } else if (kind == Request.PUT) {
            put(socket, in, name, (int) size, Arrays.toString(id));
        } else if (!files.containsKey(name)) {
            answer(out, 2, 0, "");
        } else {
            byte[] file = files.get(name);
            answer(out, 0, file.length, "");
            if (kind == Request.GET) {
                out.write(file, (int) offset, file.length - (int) offset);
                out.write(TransferClient.sha256().digest(file));
            }
        }
        socket.awaitDelivery(20_000);
    }

    private boolean isGranted(byte[] nonce, byte[] request) throws Exception {
        if (secret == null) {
            return true;
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        mac.update(nonce);
        mac.update(request, 0, request.length - 32);
        return Arrays.equals(mac.doFinal(), Arrays.copyOfRange(request, request.length - 32, request.length));
    }

    private void put(AlccSocket socket, DataInputStream in, String name, int size, String id) throws Exception {
        OutputStream out = socket.getOutputStream();
        byte[] held = parts.getOrDefault(id, new byte[0]);
        answer(out, 0, held.length, "");
        byte[] all = Arrays.copyOf(held, size);
        int at = held.length;
        int moved = 0;
        try {
            while (at < size) {
                int count = in.read(all, at, Math.min(8192, size - at));
                if (count < 0) {
                    return;
                }
                at += count;
                moved += count;
                while (moved > pauseAt) {
                    isPaused = true;
                    Thread.sleep(5);
                }
                if (moved > killAfter) {
                    socket.abort();
                    return;
                }
                if (moved > fullAfter) {
                    answer(out, 4, at, "the disk is full");
                    socket.awaitDelivery(5000);
                    return;
                }
            }
        } finally {
            parts.put(id, Arrays.copyOf(all, at));
        }
        byte[] hash = new byte[32];
        in.readFully(hash);
        parts.remove(id);
        if (!Arrays.equals(hash, TransferClient.sha256().digest(all))) {
            answer(out, 6, 0, "");
            return;
        }
        files.put(name, all);
        answer(out, 0, size, "");
    }

    private static void answer(OutputStream out, int status, long number, String message) throws IOException {
        ByteBuffer answer = ByteBuffer.allocate(300);
        answer.put((byte) status);
        Varint.write(number, answer);
        byte[] text = message.getBytes(StandardCharsets.UTF_8);
        Varint.write(text.length, answer);
        answer.put(text);
        out.write(answer.array(), 0, answer.position());
        out.flush();
    }

    private static String text(ByteBuffer from) {
        byte[] bytes = new byte[(int) Varint.read(from)];
        from.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static long number(DataInputStream in) throws IOException {
        byte[] bytes = new byte[8];
        bytes[0] = in.readByte();
        int length = 1 << ((bytes[0] & 0xff) >> 6);
        in.readFully(bytes, 1, length - 1);
        return Varint.read(ByteBuffer.wrap(bytes));
    }

    @Override
    public void close() throws IOException {
        peer.close();
    }
}
