package paceline.transfer;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import paceline.alcc.Varint;

/** A server's answer. */
final class Answer {
    private static final int MAX_MESSAGE = 200;

    final Status status;
    final long number;
    final String message;

    private Answer(Status status, long number, String message) {
        this.status = status;
        this.number = number;
        this.message = message;
    }

    static Answer read(InputStream in) throws IOException {
        Status status = Status.of(one(in));
        long number = number(in);
        long length = number(in);
        if (length > MAX_MESSAGE) {
            throw TransferException.protocol("the server's message is too long");
        }
        byte[] bytes = new byte[(int) length];
        fill(in, bytes);
        try {
            String message = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            for (int i = 0; i < message.length(); i++) {
                if (Character.isISOControl(message.charAt(i))) {
                    throw TransferException.protocol("the server's message has control characters");
                }
            }
            return new Answer(status, number, message);
        } catch (CharacterCodingException bad) {
            throw TransferException.protocol("the server's message is not UTF-8");
        }
    }

    /** This answer where it says go on; else an exception that has its words. */
    Answer orThrow() throws TransferException {
        if (status != Status.DONE) {
            throw new TransferException(status,
                    "the server says: " + status.word() + (message.isEmpty() ? "" : ": " + message));
        }
        return this;
    }

    private static long number(InputStream in) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(8);
        bytes.put((byte) one(in));
        int length = 1 << ((bytes.get(0) & 0xff) >> 6);
        while (bytes.position() < length) {
            bytes.put((byte) one(in));
        }
        bytes.flip();
        long value = Varint.read(bytes);
        if (value < 0) {
            throw TransferException.protocol("the server wrote a number in more bytes than it takes");
        }
        return value;
    }

    private static int one(InputStream in) throws IOException {
        int value = in.read();
        if (value < 0) {
            throw new EOFException("the server ended the connection without an answer; is it still running?");
        }
        return value;
    }

    static void fill(InputStream in, byte[] bytes) throws IOException {
        int at = 0;
        while (at < bytes.length) {
            int count = in.read(bytes, at, bytes.length - at);
            if (count < 0) {
                throw new EOFException("the server ended the connection in the middle of an answer; is it still running?");
            }
            at += count;
        }
    }
}
