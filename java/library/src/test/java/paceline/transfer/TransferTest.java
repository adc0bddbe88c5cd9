package paceline.transfer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import paceline.alcc.AlccOptions;

/** Uploads and downloads against a server in this process. */
class TransferTest {
    @TempDir
    File folder;

    private final byte[] bytes = randomBytes(1_500_000);

    private static byte[] randomBytes(int length) {
        byte[] bytes = new byte[length];
        new Random(5).nextBytes(bytes);
        return bytes;
    }

    private File file() throws IOException {
        File file = new File(folder, "photo.jpg");
        try (OutputStream out = new FileOutputStream(file)) {
            out.write(bytes);
        }
        return file;
    }

    private static Summary put(TestServer server, File file, Token token) throws IOException {
        try (TransferClient client = new TransferClient(server.address(), new AlccOptions(), token);
                Source source = new FileSource(file)) {
            return client.put("photo.jpg", source, FileSource.id(file, "photo.jpg"), null);
        }
    }

    @Test
    void aFileComesWholeAndAfterKillsGoesOn() throws Exception {
        File file = file();
        try (TestServer server = new TestServer()) {
            server.killAfter = 400_000;
            int kills = 0;
            Summary summary = null;
            while (summary == null) {
                try {
                    summary = put(server, file, null);
                } catch (TransferException no) {
                    throw no;
                } catch (IOException killed) {
                    kills++;
                    assertTrue(kills < 10, killed::getMessage);
                }
            }
            assertTrue(kills == 3, () -> "resumed too often");
            assertTrue(summary.resumedFrom > 1_200_000 && summary.resumedFrom + summary.bytes == bytes.length);
            assertArrayEquals(bytes, server.files.get("photo.jpg"));
        }
    }

    @Test
    void whatTheServerSaysIsSaid() throws Exception {
        File file = file();
        try (TestServer server = new TestServer()) {
            server.fullAfter = 200_000;
            TransferException full = assertThrows(TransferException.class, () -> put(server, file, null));
            assertEquals(Status.NO_ROOM, full.status());
            assertEquals("the server says: no room: the disk is full", full.getMessage());
            byte[] secret = new byte[32];
            Arrays.fill(secret, (byte) 9);
            server.secret = secret;
            assertEquals(Status.REFUSED, assertThrows(TransferException.class, () -> put(server, file, null)).status());
            server.fullAfter = Integer.MAX_VALUE;
            String text = Base64.getUrlEncoder().withoutPadding().encodeToString(secret);
            put(server, file, Token.parse("plt1.0.." + text));
            assertArrayEquals(bytes, server.files.get("photo.jpg"));
        }
    }

    @Test
    void aDownloadGoesOn() throws Exception {
        try (TestServer server = new TestServer()) {
            server.files.put("a", bytes);
            try (TransferClient client = new TransferClient(server.address(), new AlccOptions(), null)) {
                assertEquals(bytes.length, client.size("a"));
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.write(bytes, 0, 700_000);
            MessageDigest before = TransferClient.sha256();
            before.update(bytes, 0, 700_000);
            try (TransferClient client = new TransferClient(server.address(), new AlccOptions(), null)) {
                assertEquals(700_000, client.get("a", out, 700_000, before, null).resumedFrom);
            }
            assertArrayEquals(bytes, out.toByteArray());
            // What was there before was something else.
            try (TransferClient client = new TransferClient(server.address(), new AlccOptions(), null)) {
                TransferException other = assertThrows(TransferException.class,
                        () -> client.get("a", new ByteArrayOutputStream(), 10, TransferClient.sha256(), null));
                assertEquals(Status.MISMATCH, other.status());
            }
        }
    }

    @Test
    void aFileThatShrinksIsAClearError() throws Exception {
        try (TestServer server = new TestServer();
                TransferClient client = new TransferClient(server.address(), new AlccOptions(), null)) {
            Source shrunk = new Source() {
                @Override
                public long size() {
                    return 1000;
                }

                @Override
                public int read(byte[] buffer, int offset, int length) {
                    return -1;
                }

                @Override
                public void close() {}
            };
            IOException changed = assertThrows(IOException.class, () -> client.put("a", shrunk, new byte[16], null));
            assertTrue(changed.getMessage().contains("it was changed meanwhile"), changed::getMessage);
        }
    }

    @Test
    void tokensHaveOneForm() {
        String secret = Base64.getUrlEncoder().withoutPadding().encodeToString(new byte[32]);
        Token token = Token.parse("plt1.99.Zm9v." + secret);
        assertEquals("foo", token.scope());
        assertEquals(99, token.expiry());
        String[] bad = {"", "plt1", "plt2.0.." + secret, "plt1.00.." + secret, "plt1.-1.." + secret, "plt1.0.Zm9vY." + secret,
            "plt1.0.." + secret.substring(1), "plt1.0.Zh." + secret, "plt1.0.Z=." + secret, "plt1.0.." + secret + "."};
        for (String text : bad) {
            assertThrows(IllegalArgumentException.class, () -> Token.parse(text), text);
        }
    }
}
