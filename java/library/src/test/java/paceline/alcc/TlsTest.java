package paceline.alcc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS below the frames, with certificates that the JDK's keytool makes. */
class TlsTest {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static SSLContext local;
    private static SSLContext elsewhere;
    private static String localPem;
    private static String elsewherePem;

    @BeforeAll
    static void makeCertificates(@TempDir File folder) throws Exception {
        KeyStore here = store(folder, "local", "dns:localhost,ip:127.0.0.1");
        KeyStore there = store(folder, "elsewhere", "dns:upload.example.org,dns:*.example.net");
        local = context(here);
        elsewhere = context(there);
        localPem = pem(here);
        elsewherePem = pem(there);
    }

    private static KeyStore store(File folder, String name, String names) throws Exception {
        File file = new File(folder, name + ".p12");
        String tool = System.getProperty("java.home") + "/bin/keytool";
        Process made = new ProcessBuilder(tool, "-genkeypair", "-alias", "a", "-keyalg", "EC", "-groupname", "secp256r1",
                "-dname", "CN=" + name, "-ext", "san=" + names, "-ext", "bc:c", "-validity", "2", "-storetype", "PKCS12",
                "-storepass", new String(PASSWORD), "-keystore", file.getPath()).redirectErrorStream(true).start();
        assertTrue(made.waitFor(60, TimeUnit.SECONDS) && made.exitValue() == 0, "keytool");
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = new FileInputStream(file)) {
            store.load(in, PASSWORD);
        }
        return store;
    }

    private static SSLContext context(KeyStore store) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    private static String pem(KeyStore store) throws Exception {
        return "-----BEGIN CERTIFICATE-----\n" + Base64.getMimeEncoder().encodeToString(store.getCertificate("a").getEncoded())
                + "\n-----END CERTIFICATE-----\n";
    }

    private static AlccOptions trusting(String pem) throws IOException {
        return new AlccOptions().tls(AlccTls.trusting(new ByteArrayInputStream(pem.getBytes(StandardCharsets.US_ASCII))));
    }

    @AfterEach
    void nothingIsLeft() throws Exception {
        SocketTest.awaitEnd("paceline");
    }

    @Test
    void everyByteComesBothWaysAndTheEndIsOne() throws Exception {
        byte[] bytes = SocketTest.randomBytes(1, 3_000_000);
        for (String name : new String[] {"localhost", "127.0.0.1"}) {
            AtomicReference<byte[]> came = new AtomicReference<>();
            try (Peer peer = Peer.framed(new AlccOptions().tls(AlccTls.server(local)), socket -> {
                byte[] all = new byte[bytes.length];
                int at = 0;
                while (at < all.length) {
                    int count = socket.getInputStream().read(all, at, all.length - at);
                    assertTrue(count > 0);
                    socket.getOutputStream().write(all, at, count);
                    at += count;
                }
                came.set(all);
                assertEquals(-1, socket.getInputStream().read());
                socket.shutdownOutput();
            }); AlccSocket socket = new AlccSocket(trusting(localPem))) {
                socket.connect(new InetSocketAddress(name, peer.address().getPort()), 10_000);
                Thread writer = new Thread(() -> {
                    try {
                        socket.getOutputStream().write(bytes);
                        socket.awaitDelivery(30_000);
                    } catch (IOException failed) {
                        peer.failures.add(failed);
                    }
                });
                writer.start();
                byte[] got = new byte[bytes.length];
                int at = 0;
                while (at < got.length) {
                    int count = socket.getInputStream().read(got, at, got.length - at);
                    assertTrue(count > 0, () -> "cut: " + peer.failures);
                    at += count;
                }
                writer.join();
                socket.shutdownOutput();
                assertEquals(-1, socket.getInputStream().read());
                peer.join();
                assertTrue(peer.failures.isEmpty(), peer.failures::toString);
                assertArrayEquals(bytes, came.get());
                assertArrayEquals(bytes, got);
            }
        }
    }

    private static String refusal(SSLContext server, AlccOptions client) throws Exception {
        try (Peer peer = Peer.framed(new AlccOptions().tls(AlccTls.server(server)), socket -> socket.getInputStream().read());
                AlccSocket socket = new AlccSocket(client)) {
            IOException refused = assertThrows(IOException.class,
                    () -> socket.connect(new InetSocketAddress("localhost", peer.address().getPort()), 10_000));
            assertFalse(refused.getMessage().contains("\n"));
            return refused.getMessage();
        }
    }

    @Test
    void aCertificateForAnotherHostIsRefused() throws Exception {
        String said = refusal(elsewhere, trusting(elsewherePem));
        assertTrue(said.contains("not for localhost") && said.contains("upload.example.org"), said);
    }

    @Test
    void aCertificateOfAStrangerIsRefused() throws Exception {
        String said = refusal(local, trusting(elsewherePem));
        assertTrue(said.contains("certif") || said.contains("PKIX"), said);
        said = refusal(local, new AlccOptions().tls(AlccTls.platform()));
        assertTrue(said.contains("certif") || said.contains("PKIX"), said);
    }

    @Test
    void aServerWithoutTlsIsAClearError() throws Exception {
        try (Peer peer = Peer.raw(channel -> {
            channel.write(ByteBuffer.wrap("PLT, no TLS at all here".getBytes(StandardCharsets.US_ASCII)));
            channel.read(ByteBuffer.allocate(1000));
            channel.close();
        }); AlccSocket socket = new AlccSocket(trusting(localPem))) {
            assertThrows(IOException.class,
                    () -> socket.connect(new InetSocketAddress("localhost", peer.address().getPort()), 10_000));
        }
    }

    @Test
    void aCutIsNoEnd() throws Exception {
        try (Peer peer = Peer.framed(new AlccOptions().tls(AlccTls.server(local)), socket -> {
            socket.getInputStream().read();
            socket.abort();
        }); AlccSocket socket = new AlccSocket(trusting(localPem))) {
            socket.connect(new InetSocketAddress("localhost", peer.address().getPort()), 10_000);
            socket.getOutputStream().write(1);
            socket.getOutputStream().flush();
            assertThrows(IOException.class, () -> socket.getInputStream().read());
        }
    }

    @Test
    void certificatesThatAreNoneAreAClearError() {
        assertThrows(IOException.class, () -> AlccTls.trusting(new ByteArrayInputStream(new byte[0])));
        assertThrows(IOException.class, () -> AlccTls.trusting(new ByteArrayInputStream("-----BEGIN".getBytes(StandardCharsets.US_ASCII))));
    }

    @Test
    void names() {
        assertTrue(HostName.matches("a.example.net", "*.example.net"));
        assertTrue(HostName.matches("A.Example.NET.", "a.example.net"));
        assertFalse(HostName.matches("example.net", "*.example.net"));
        assertFalse(HostName.matches("a.b.example.net", "*.example.net"));
        assertFalse(HostName.matches("example.net", "*.net"));
        assertFalse(HostName.matches("a.example.net", "*.*.net"));
        assertFalse(HostName.matches("", ""));
        assertTrue(HostName.isAddress("::1") && HostName.isAddress("10.0.0.1"));
        assertFalse(HostName.isAddress("10.0.0.x") || HostName.isAddress("a.b.c.d") || HostName.isAddress("1.2.3"));
    }
}
