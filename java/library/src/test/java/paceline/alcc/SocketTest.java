package paceline.alcc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import paceline.cc.FixedController;

/** Sockets above TCP on this machine. */
class SocketTest {
    static byte[] randomBytes(int seed, int length) {
        byte[] bytes = new byte[length];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    static byte[] readAll(InputStream in) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] buffer = new byte[5000];
        for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
            all.write(buffer, 0, count);
        }
        return all.toByteArray();
    }

    /** No thread is left soon after the last socket. */
    @AfterEach
    void nothingIsLeft() throws Exception {
        awaitEnd("paceline");
        assertEquals(0, AlccLoop.shared().channels());
    }

    /** Waits until the threads of this name have ended: a minute at most. */
    static void awaitEnd(String name) throws InterruptedException {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals(name)) {
                thread.join(60_000);
                assertFalse(thread.isAlive(), () -> name + " is left: " + Arrays.toString(thread.getStackTrace()));
            }
        }
    }

    private static void sendInPieces(OutputStream out, byte[] bytes, Random random) throws Exception {
        int at = 0;
        while (at < bytes.length) {
            int piece = Math.min(bytes.length - at, 1 + random.nextInt(random.nextInt(20) == 0 ? 60_000 : 700));
            out.write(bytes, at, piece);
            at += piece;
            if (random.nextInt(400) == 0) {
                Thread.sleep(random.nextInt(20));
            }
            if (random.nextInt(50) == 0) {
                out.flush();
            }
        }
    }

    private static byte[] readInPieces(InputStream in, int length, Random random) throws Exception {
        byte[] all = new byte[length];
        int at = 0;
        while (at < length) {
            int count = in.read(all, at, Math.min(length - at, 1 + random.nextInt(30_000)));
            if (count < 0) {
                throw new EOFException("after " + at + " of " + length);
            }
            at += count;
            if (random.nextInt(200) == 0) {
                Thread.sleep(random.nextInt(30));
            }
        }
        return all;
    }

    /** Both directions at once, byte-exact, with small writes, stalls and slow readers. */
    private static void bothWays(AlccOptions client, AlccOptions server, int length, String spec) throws Exception {
        byte[] up = randomBytes(1, length);
        byte[] down = randomBytes(2, length);
        AtomicReference<byte[]> came = new AtomicReference<>();
        try (Peer peer = Peer.framed(server, socket -> {
            Thread writer = new Thread(() -> {
                try {
                    sendInPieces(socket.getOutputStream(), down, new Random(3));
                } catch (Exception failed) {
                    throw new IllegalStateException(failed);
                }
            });
            writer.start();
            came.set(readInPieces(socket.getInputStream(), length, new Random(4)));
            assertEquals(-1, socket.getInputStream().read());
            writer.join();
            socket.shutdownOutput();
        }); AlccSocket socket = new AlccSocket(client)) {
            socket.connect(peer.address(), 10_000);
            AtomicReference<byte[]> got = new AtomicReference<>();
            Thread reader = new Thread(() -> {
                try {
                    got.set(readInPieces(socket.getInputStream(), length, new Random(5)));
                } catch (Exception failed) {
                    peer.failures.add(failed);
                }
            });
            reader.start();
            sendInPieces(socket.getOutputStream(), up, new Random(6));
            reader.join();
            socket.shutdownOutput();
            assertEquals(-1, socket.getInputStream().read(), spec);
            peer.join();
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
            assertArrayEquals(up, came.get(), spec);
            assertArrayEquals(down, got.get(), spec);
            AlccStatistics statistics = socket.statistics();
            assertEquals(length, statistics.received);
            assertEquals(length, statistics.written);
            assertTrue(statistics.rttMedian > 0, statistics::toString);
        }
    }

    @Test
    void everyByteComesBothWays() throws Exception {
        for (String spec : new String[] {"copa", "cubic", "reno", "bbr"}) {
            AlccOptions options = new AlccOptions().controller(spec).buffers(50_000);
            bothWays(options, options, 3_000_000, spec);
        }
    }

    @Test
    void theControllersWindowBoundsWhatIsInFlight() throws Exception {
        AlccOptions options = new AlccOptions().controller("fixed", env -> new FixedController(20_000));
        try (Peer peer = Peer.raw(channel -> {
            // Reads, but never acknowledges.
            ByteBuffer buffer = ByteBuffer.allocate(100_000);
            int seen = 0;
            channel.socket().setSoTimeout(500);
            InputStream in = channel.socket().getInputStream();
            byte[] bytes = new byte[4096];
            try {
                while (true) {
                    int count = in.read(bytes);
                    if (count < 0) {
                        break;
                    }
                    seen += count;
                }
            } catch (SocketTimeoutException quiet) {
                // Nothing more is permitted.
            }
            assertTrue(seen > 18_000 && seen < 20_500, "seen " + seen + buffer);
            channel.close();
        }); AlccSocket socket = new AlccSocket(options)) {
            socket.connect(peer.address());
            socket.getOutputStream().write(new byte[500_000]);
            assertTrue(socket.statistics().inFlight <= 20_000);
            peer.join();
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
            socket.abort();
        }
    }

    @Test
    void aPeerThatAcknowledgesNothingCannotFillTheMemory() throws Exception {
        long most = 60_000_000;
        CountDownLatch over = new CountDownLatch(1);
        try (Peer peer = Peer.raw(channel -> {
            channel.configureBlocking(false);
            ByteBuffer frame = ByteBuffer.allocate(1000 + Frames.MAX_HEADER + 1);
            frame.put((byte) Frames.VERSION).flip();
            long position = 0;
            long progress = System.nanoTime();
            while (position < most && System.nanoTime() - progress < 2_000_000_000L) {
                if (!frame.hasRemaining()) {
                    frame.clear();
                    Frames.writeData(position, 1000, 0, frame);
                    frame.put(new byte[1000]).flip();
                    position += 1000;
                }
                if (channel.write(frame) > 0) {
                    progress = System.nanoTime();
                } else {
                    Thread.sleep(1);
                }
            }
            over.countDown();
            channel.close();
            assertTrue(position < most, position + " bytes were taken for an application that reads nothing");
        }); AlccSocket socket = new AlccSocket(new AlccOptions().buffers(200_000))) {
            socket.connect(peer.address());
            socket.setSoTimeout(100);
            OutputStream out = socket.getOutputStream();
            assertThrows(SocketTimeoutException.class, () -> out.write(new byte[4_000_000]));
            over.await();
            peer.join();
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
            socket.abort();
        }
    }

    @Test
    void halfCloseInEitherDirection() throws Exception {
        byte[] bytes = randomBytes(9, 400_000);
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
            byte[] came = readAll(socket.getInputStream());
            socket.getOutputStream().write(came);
            socket.shutdownOutput();
        }); AlccSocket socket = new AlccSocket()) {
            socket.connect(peer.address());
            socket.getOutputStream().write(bytes);
            socket.shutdownOutput();
            assertThrows(SocketException.class, () -> socket.getOutputStream().write(1));
            assertArrayEquals(bytes, readAll(socket.getInputStream()));
            peer.join();
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
        }
    }

    @Test
    void closeLetsWhatWasWrittenLeave() throws Exception {
        byte[] bytes = randomBytes(10, 900_000);
        AtomicReference<byte[]> came = new AtomicReference<>();
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
            Thread.sleep(300);
            came.set(readAll(socket.getInputStream()));
        })) {
            AlccSocket socket = new AlccSocket();
            socket.connect(peer.address());
            socket.getOutputStream().write(bytes);
            socket.close();
            assertThrows(IOException.class, () -> socket.getOutputStream().write(1));
            peer.join();
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
            assertArrayEquals(bytes, came.get());
        }
    }

    @Test
    void aResetIsAnErrorOnBothSides() throws Exception {
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
            socket.getInputStream().read();
            socket.abort();
        }); AlccSocket socket = new AlccSocket()) {
            socket.connect(peer.address());
            assertThrows(IOException.class, () -> {
                while (true) {
                    socket.getOutputStream().write(new byte[10_000]);
                }
            });
            assertThrows(IOException.class, () -> socket.getInputStream().read());
        }
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> readAll(socket.getInputStream()));
                AlccSocket socket = new AlccSocket()) {
            socket.connect(peer.address());
            socket.getOutputStream().write(new byte[100_000]);
            socket.abort();
            peer.join();
            assertEquals(1, peer.failures.size(), "a part was taken for the whole");
        }
    }

    @Test
    void aPeerThatBreaksFramesEndsTheConnectionInOneLine() throws Exception {
        String[] speeches = {"HTTP/1.1 200 OK\r\n", "\u0001\u0001\u0000\u0004good\u0001\u0000\u0001x", "\u0001\u0003\u0005\u0000"};
        FrameException.Rule[] rules = {FrameException.Rule.VERSION, FrameException.Rule.POSITION, FrameException.Rule.UNSENT};
        for (int i = 0; i < rules.length; i++) {
            byte[] speech = speeches[i].getBytes(StandardCharsets.ISO_8859_1);
            try (Peer peer = Peer.raw(channel -> {
                channel.write(ByteBuffer.wrap(speech));
                channel.read(ByteBuffer.allocate(10));
                channel.close();
            }); AlccSocket socket = new AlccSocket()) {
                socket.connect(peer.address());
                if (i == 1) {
                    byte[] good = new byte[4];
                    assertEquals(4, socket.getInputStream().read(good));
                    assertEquals("good", new String(good, StandardCharsets.US_ASCII));
                }
                FrameException broken = assertThrows(FrameException.class, () -> socket.getInputStream().read());
                assertEquals(rules[i], broken.rule());
                assertFalse(broken.getMessage().contains("\n"));
            }
        }
    }

    @Test
    void aPeerThatEndsWithinAFrameIsNoEnd() throws Exception {
        try (Peer peer = Peer.raw(channel -> {
            channel.write(ByteBuffer.wrap(new byte[] {1, 1, 0, 5, 'h'}));
            channel.close();
        }); AlccSocket socket = new AlccSocket()) {
            socket.connect(peer.address());
            FrameException cut = assertThrows(FrameException.class, () -> readAll(socket.getInputStream()));
            assertEquals(FrameException.Rule.SHORT, cut.rule());
        }
    }

    @Test
    void whatTheServerSaidBeforeItClosedIsRead() throws Exception {
        for (int round = 0; round < 20; round++) {
            try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
                socket.getInputStream().read();
                socket.getOutputStream().write("full".getBytes(StandardCharsets.US_ASCII));
                try {
                    socket.awaitDelivery(200);
                } catch (SocketTimeoutException unheard) {
                    // The client does not read while it writes.
                    assertTrue(unheard.getMessage().contains("200 ms"));
                }
            }); AlccSocket socket = new AlccSocket()) {
                socket.connect(peer.address());
                assertThrows(IOException.class, () -> {
                    while (true) {
                        socket.getOutputStream().write(new byte[10_000]);
                    }
                });
                byte[] answer = new byte[4];
                assertEquals(4, socket.getInputStream().read(answer));
                assertEquals("full", new String(answer, StandardCharsets.US_ASCII));
            }
        }
    }

    @Test
    void whoHasEndedAcknowledgesNoMore() throws Exception {
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
            socket.shutdownOutput();
            assertEquals(1000, readAll(socket.getInputStream()).length);
        }); AlccSocket socket = new AlccSocket()) {
            socket.connect(peer.address());
            assertEquals(-1, socket.getInputStream().read());
            socket.getOutputStream().write(new byte[1000]);
            assertThrows(EOFException.class, () -> socket.awaitDelivery(0));
            socket.shutdownOutput();
            peer.join();
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
        }
    }

    @Test
    void timesOut() throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        try (Peer peer = Peer.raw(channel -> {
            over.await();
            channel.close();
        }); AlccSocket socket = new AlccSocket(new AlccOptions().silenceLimit(700))) {
            socket.connect(peer.address());
            socket.setSoTimeout(50);
            assertThrows(SocketTimeoutException.class, () -> socket.getInputStream().read());
            OutputStream out = socket.getOutputStream();
            assertThrows(SocketTimeoutException.class, () -> out.write(new byte[4_000_000]));
            socket.setSoTimeout(0);
            IOException silent = assertThrows(IOException.class, () -> out.write(new byte[4_000_000]));
            assertTrue(silent.getMessage().contains("acknowledged nothing for 700 ms"), silent::getMessage);
            over.countDown();
        }
    }

    @Test
    void noServerListens() throws Exception {
        Peer peer = Peer.raw(channel -> channel.close());
        peer.close();
        try (AlccSocket socket = new AlccSocket()) {
            IOException refused = assertThrows(IOException.class, () -> socket.connect(peer.address(), 5000));
            assertTrue(refused.getMessage().contains("is the server running there?"), refused::getMessage);
        }
    }
}
