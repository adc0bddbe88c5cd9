package paceline.transfer;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import paceline.alcc.Varint;

/** What a client asks for, and how it is written. Fields that a kind does not have are empty. */
final class Request {
    static final int PUT = 1;
    static final int GET = 2;
    static final int STAT = 3;
    static final int DISCARD = 4;
    static final int GENERATE = 5;
    /** A size that says: until the client ends its stream. */
    static final long ENDLESS = Varint.LIMIT - 1;
    static final int ID = 16;
    private static final int MAX_NAME = 255;
    /** More than all fields can have: 1 + 2 + 255 + 8 + 16 + 8 + 1 + 8 + 1 + 64, and the length in front. */
    private static final int ROOM = 512;

    final int kind;
    final String name;
    final long size;
    final byte[] id;
    final long offset;

    Request(int kind, String name, long size, byte[] id, long offset) {
        this.kind = kind;
        this.name = name;
        this.size = size;
        this.id = id.clone();
        this.offset = offset;
        if (name.getBytes(StandardCharsets.UTF_8).length > MAX_NAME) {
            throw new IllegalArgumentException("a name has at most " + MAX_NAME + " bytes; '" + name + "' is too long");
        }
        if (id.length != ID || size < 0 || size > ENDLESS || offset < 0 || offset > ENDLESS) {
            throw new IllegalArgumentException("an id has " + ID + " bytes, and sizes are not negative");
        }
    }

    /** All of it, with the proof that answers the nonce; {@code token} may be null. */
    byte[] write(Token token, byte[] nonce) {
        ByteBuffer out = ByteBuffer.allocate(ROOM);
        out.put((byte) kind);
        text(name, out);
        Varint.write(size, out);
        out.put(id);
        Varint.write(offset, out);
        // No controller here has a receiver half that the server would run.
        text("", out);
        Varint.write(token == null ? 0 : token.expiry(), out);
        text(token == null ? "" : token.scope(), out);
        byte[] signed = Arrays.copyOf(out.array(), out.position());
        byte[] proof = token == null ? new byte[Token.PROOF] : token.prove(nonce, signed);
        out.clear();
        Varint.write(signed.length + proof.length, out);
        out.put(signed);
        out.put(proof);
        return Arrays.copyOf(out.array(), out.position());
    }

    private static void text(String text, ByteBuffer out) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        Varint.write(bytes.length, out);
        out.put(bytes);
    }
}
