package paceline.alcc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import paceline.alcc.FrameException.Rule;

/** Whatever is written is read again, in whatever pieces it comes; a stranger's bytes end the connection for one reason. */
class FramesTest {
    /** Writes down what a decoder says; payload joined. */
    static final class Notes implements FrameSink {
        final StringBuilder items = new StringBuilder();
        final ByteArrayOutputStream payload = new ByteArrayOutputStream();
        /** What the items look like when they are written again, payload apart. */
        final ByteBuffer again;
        private long begun;

        Notes() {
            this(1024);
        }

        Notes(int room) {
            again = ByteBuffer.allocate(room + Frames.MAX_ACK);
            again.put((byte) Frames.VERSION);
        }

        @Override
        public void payload(ByteBuffer bytes) {
            byte[] copy = new byte[bytes.remaining()];
            bytes.get(copy);
            payload.write(copy, 0, copy.length);
        }

        @Override
        public void data(long end, long note) {
            items.append("data ").append(end).append(' ').append(note).append('\n');
            Frames.writeData(begun, (int) (end - begun), note, again);
            again.put(payload.toByteArray(), (int) begun, (int) (end - begun));
            begun = end;
        }

        @Override
        public void ack(long position, long delay, ByteBuffer feedback) {
            items.append("ack ").append(position).append(' ').append(delay / 1000).append(' ');
            items.append(feedback == null ? "none" : feedback.slice().toString()).append('\n');
            int start = again.position();
            Frames.writeAck(position, delay, again);
            if (feedback != null) {
                again.put(start, (byte) Frames.ACK_WITH_FEEDBACK);
                Varint.write(feedback.remaining(), again);
                again.put(feedback);
            }
        }
    }

    /** Reads in pieces that end at random places; answers how it ended. */
    private static String read(byte[] bytes, Notes notes, Random random, int cuts) {
        FrameDecoder decoder = new FrameDecoder();
        int[] ends = random.ints(cuts, 0, bytes.length + 1).sorted().toArray();
        try {
            int at = 0;
            for (int end : ends) {
                decoder.read(ByteBuffer.wrap(bytes, at, end - at), notes);
                at = end;
            }
            ByteBuffer rest = ByteBuffer.wrap(bytes, at, bytes.length - at);
            decoder.read(rest, notes);
            assertFalse(rest.hasRemaining());
            decoder.end();
            return "end";
        } catch (FrameException broken) {
            assertFalse(broken.getMessage().contains("\n"));
            assertTrue(assertThrows(FrameException.class, decoder::end).getMessage().equals(broken.getMessage()));
            return broken.rule() + ": " + broken.getMessage();
        }
    }

    private static byte[] bytes(int... values) {
        byte[] bytes = new byte[values.length];
        for (int i = 0; i < values.length; i++) {
            bytes[i] = (byte) values[i];
        }
        return bytes;
    }

    @Test
    void goldenBytes() {
        ByteBuffer out = ByteBuffer.allocate(200);
        Frames.writeData(0, 3, 0, out);
        Frames.writeData(0x3fff, 0x4000, 0x0102030405060708L, out);
        Frames.writeAck(0x4000, 2_500_999, out);
        Frames.writeAck(1L << 40, Long.MAX_VALUE, out);
        byte[] golden = bytes(
                1, 0, 3,
                2, 0x7f, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0, 0x40, 0,
                3, 0x80, 0, 0x40, 0, 0x49, 0xc4,
                3, 0xc0, 0, 1, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0xd6, 0x93, 0xa4, 0);
        assertArrayEquals(golden, Arrays.copyOf(out.array(), out.position()));
    }

    @Test
    void theExamplesOfTheRfc() {
        long[] values = {151_288_809_941_952_652L, 494_878_333, 15_293, 37};
        byte[][] forms = {bytes(0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c), bytes(0x9d, 0x7f, 0x3e, 0x7d),
            bytes(0x7b, 0xbd), bytes(0x25)};
        for (int i = 0; i < values.length; i++) {
            ByteBuffer out = ByteBuffer.allocate(8);
            Varint.write(values[i], out);
            assertArrayEquals(forms[i], Arrays.copyOf(out.array(), out.position()));
            assertEquals(values[i], Varint.read(ByteBuffer.wrap(forms[i])));
            assertEquals(Varint.SHORT, Varint.read(ByteBuffer.wrap(forms[i], 0, forms[i].length - 1)));
        }
        assertEquals(Varint.LONG, Varint.read(ByteBuffer.wrap(bytes(0x40, 0x25))));
        assertThrows(IllegalArgumentException.class, () -> Varint.write(Varint.LIMIT, ByteBuffer.allocate(8)));
    }

    static byte[] randomStream(Random random, int frames) {
        ByteBuffer out = ByteBuffer.allocate(frames * 2100 + 1);
        out.put((byte) Frames.VERSION);
        long position = 0;
        for (int i = 0; i < frames; i++) {
            if (random.nextBoolean()) {
                byte[] payload = new byte[random.nextInt(random.nextBoolean() ? 4 : 2000)];
                random.nextBytes(payload);
                Frames.writeData(position, payload.length, random.nextBoolean() ? 0 : random.nextLong(), out);
                out.put(payload);
                position += payload.length;
            } else {
                Frames.writeAck(random.nextLong() >>> 2 + random.nextInt(60), random.nextLong() >>> 1 + random.nextInt(60), out);
            }
        }
        return Arrays.copyOf(out.array(), out.position());
    }

    @Test
    void whateverIsWrittenIsReadAgain() {
        Random random = new Random(7);
        for (int round = 0; round < 300; round++) {
            byte[] stream = randomStream(random, random.nextInt(30));
            Notes whole = new Notes(stream.length);
            assertEquals("end", read(stream, whole, random, 0));
            assertArrayEquals(stream, Arrays.copyOf(whole.again.array(), whole.again.position()));
            Notes pieces = new Notes(stream.length);
            assertEquals("end", read(stream, pieces, random, random.nextInt(40)));
            assertEquals(whole.items.toString(), pieces.items.toString());
            assertArrayEquals(whole.payload.toByteArray(), pieces.payload.toByteArray());
        }
    }

    @Test
    void eachRuleHasItsReason() {
        Object[][] cases = {
            {"GET / HTTP/1.1\r\n".getBytes(java.nio.charset.StandardCharsets.US_ASCII), Rule.VERSION},
            {bytes(1, 9), Rule.KIND},
            {bytes(1, 1, 5), Rule.POSITION},
            {bytes(1, 1, 0x40, 0), Rule.LONG},
            {bytes(1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0), Rule.NOTE},
            {bytes(1, 4, 0, 0, 0), Rule.FEEDBACK},
            {bytes(1, 4, 0, 0, 0x40, 0x41), Rule.FEEDBACK},
            {bytes(1, 1, 0, 3, 1, 2), Rule.SHORT},
            {bytes(1, 1, 0, 0x80, 0, 0x40, 1), Rule.PAYLOAD},
            {bytes(1, 3, 0, 0xc0, 0, 0, 0, 0xd6, 0x93, 0xa4, 1), Rule.DELAY},
        };
        Random random = new Random(1);
        for (Object[] one : cases) {
            byte[] bytes = (byte[]) one[0];
            String reason = read(bytes, new Notes(), random, 0);
            assertTrue(reason.startsWith(one[1] + ": "), reason);
            assertEquals(reason, read(bytes, new Notes(), random, bytes.length * 4));
        }
    }

    @Test
    void acknowledgementsOfWhatWasNotSentAreRefused() throws Exception {
        FramedEnd end = new FramedEnd();
        end.writeData(4, 0, ByteBuffer.allocate(64));
        end.heard(3);
        assertEquals(Rule.BACKWARDS, assertThrows(FrameException.class, () -> end.heard(2)).rule());
        assertEquals(Rule.UNSENT, assertThrows(FrameException.class, () -> end.heard(5)).rule());
    }

    @Test
    void acknowledgementsAreCoalesced() {
        FramedEnd end = new FramedEnd();
        ByteBuffer out = ByteBuffer.allocate(64);
        assertEquals(Long.MAX_VALUE, end.nextAck());
        long ms = 1_000_000;
        end.took(10 * ms, 3);
        end.took(10 * ms, 7);
        assertTrue(end.writeAck(10 * ms, out));
        assertFalse(end.writeAck(10 * ms, out));
        end.took(12 * ms, 11);
        assertFalse(end.writeAck(12 * ms, out));
        assertEquals(15 * ms, end.nextAck());
        assertTrue(end.writeAck(15 * ms, out));
        assertArrayEquals(bytes(1, 3, 7, 0, 3, 11, 0x4b, 0xb8), Arrays.copyOf(out.array(), out.position()));
    }

    @Test
    void aPayloadThatIsTooLargeIsNotWritten() {
        ByteBuffer out = ByteBuffer.allocate(64);
        assertThrows(IllegalArgumentException.class, () -> Frames.writeData(0, Frames.MAX_PAYLOAD + 1, 0, out));
        assertThrows(IllegalArgumentException.class, () -> Frames.writeData(Varint.LIMIT - 1, 1, 0, out));
        assertEquals(0, out.position());
    }

    /** Random mutations of good streams; 1 s, or as long as {@code -Dpaceline.fuzz.seconds} says. */
    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void aStrangersBytesHaveOneReading() {
        long seconds = Long.getLong("paceline.fuzz.seconds", 1);
        long seed = Long.getLong("paceline.fuzz.seed", 18);
        Random random = new Random(seed);
        long until = System.nanoTime() + seconds * 1_000_000_000L;
        long rounds = 0;
        long broken = 0;
        while (System.nanoTime() < until) {
            byte[] stream = randomStream(random, 1 + random.nextInt(8));
            for (int hits = random.nextInt(4); hits >= 0; hits--) {
                int at = random.nextInt(Math.min(stream.length, random.nextBoolean() ? 8 : stream.length));
                stream[at] = (byte) (random.nextBoolean() ? random.nextInt(6) : random.nextInt());
            }
            if (random.nextInt(4) == 0) {
                stream = Arrays.copyOf(stream, random.nextInt(stream.length + 1));
            }
            Notes whole = new Notes(stream.length);
            String ended = read(stream, whole, random, 0);
            Notes pieces = new Notes(stream.length);
            assertEquals(ended, read(stream, pieces, random, random.nextInt(30)), "seed " + seed + ", round " + rounds);
            assertEquals(whole.items.toString(), pieces.items.toString());
            // What was read is written again byte by byte.
            int length = whole.again.position();
            if (stream.length > 0 && stream[0] == Frames.VERSION) {
                assertArrayEquals(Arrays.copyOf(stream, length), Arrays.copyOf(whole.again.array(), length));
            }
            rounds++;
            broken += ended.equals("end") ? 0 : 1;
        }
        assertTrue(broken > 0 && broken < rounds);
        System.err.println("frames fuzzed: " + rounds + " streams, " + broken + " of them broken");
    }
}
