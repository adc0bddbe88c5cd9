package paceline.upload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** This tool against the Rust server: {@code -Dpaceline.bin=...} or {@code PACELINE_BIN} says where {@code paceline} is. */
@Timeout(900)
class InteropTest {
    @TempDir
    File folder;

    private String binary;
    private Process server;
    private String host;
    private String said;

    @BeforeEach
    void find() {
        binary = System.getProperty("paceline.bin", System.getenv("PACELINE_BIN"));
        if (binary == null || !new File(binary).canExecute()) {
            String why = "skipped: interop with Rust: PACELINE_BIN or -Dpaceline.bin names no 'paceline'";
            System.err.println(why);
            assumeTrue(false, why);
        }
    }

    @AfterEach
    void stop() throws Exception {
        if (server != null) {
            server.destroyForcibly().waitFor(20, TimeUnit.SECONDS);
        }
    }

    private void serve(String... options) throws Exception {
        stop();
        List<String> words = new ArrayList<>(Arrays.asList(binary, "alcc", "serve", "--listen",
                host == null ? "127.0.0.1:0" : host, "--dir", new File(folder, "held").getPath()));
        words.addAll(Arrays.asList(options));
        server = new ProcessBuilder(words).redirectErrorStream(true).start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(server.getInputStream()));
        String line = lines.readLine();
        assertTrue(line != null && line.contains("127.0.0.1:"), "it says: " + line);
        host = line.replaceAll(".*(127\\.0\\.0\\.1:[0-9]+).*", "$1");
        Thread drain = new Thread(() -> {
            try {
                while (lines.readLine() != null) {
                    // Nothing may wait for us.
                }
            } catch (java.io.IOException over) {
                // The server is gone.
            }
        }, "server's words");
        drain.setDaemon(true);
        drain.start();
    }

    private int run(String... words) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(bytes);
        int status = Main.run(words, null, both, both, false);
        said = bytes.toString();
        return status;
    }

    private File file(String name, int size) throws Exception {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        File file = new File(folder, name);
        Files.write(file.toPath(), bytes);
        return file;
    }

    private void assertHeld(File file) throws Exception {
        assertArrayEquals(Files.readAllBytes(file.toPath()), Files.readAllBytes(new File(folder, "held/" + file.getName()).toPath()));
    }

    @Test
    void upAndDownWithEachController() throws Exception {
        serve();
        for (String controller : new String[] {"copa", "mdi", "cubic", "reno", "bbr"}) {
            File file = file(controller + ".bin", 2_000_000);
            assertEquals(0, run(host, file.getPath(), "--controller", controller), () -> said);
            assertHeld(file);
            File back = new File(folder, "back-" + controller);
            assertEquals(0, run(host, back.getPath(), "--get", "--name", file.getName()), () -> said);
            assertArrayEquals(Files.readAllBytes(file.toPath()), Files.readAllBytes(back.toPath()));
        }
        assertEquals(0, run(host, "--bytes", "500000", "--json"), () -> said);
        assertTrue(said.contains("\"bytes\":500000"), said);
        assertEquals(0, run(host, "--seconds", "0.3"), () -> said);
        assertEquals(0, run(host, "--seconds", "0.3", "--get"), () -> said);
        assertEquals(1, run(host, new File(folder, "nothing").getPath(), "--get"));
        assertTrue(said.contains("missing"), said);
    }

    @Test
    void anUploadGoesOnAfterTheServerWasKilled() throws Exception {
        serve();
        File file = file("large.bin", 60_000_000);
        Thread killer = new Thread(() -> {
            try {
                File held = new File(folder, "held");
                for (int i = 0; i < 3000 && sizeOf(held) < 5_000_000; i++) {
                    Thread.sleep(2);
                }
                server.destroyForcibly();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        killer.start();
        int status = run(host, file.getPath());
        killer.join();
        assertEquals(1, status, () -> "it was faster than the kill: " + said);
        assertTrue(said.trim().indexOf('\n') < 0, said);
        serve();
        assertEquals(0, run(host, file.getPath(), "--json"), () -> said);
        assertTrue(!said.contains("\"resumed_from\":0,"), said);
        assertHeld(file);
    }

    private static long sizeOf(File file) {
        File[] inside = file.listFiles();
        long size = file.isFile() ? file.length() : 0;
        for (int i = 0; inside != null && i < inside.length; i++) {
            size += sizeOf(inside[i]);
        }
        return size;
    }

    @Test
    void tokens() throws Exception {
        String key = new File(folder, "key").getPath();
        String good = token("--key", key, "--new-key", "--scope", "photo");
        serve("--key", key);
        File file = file("photo1.bin", 100_000);
        assertEquals(1, run(host, file.getPath()));
        assertTrue(said.contains("refused"), said);
        String other = token("--key", new File(folder, "other").getPath(), "--new-key");
        assertEquals(1, run(host, file.getPath(), "--token", other));
        assertTrue(said.contains("refused"), said);
        assertEquals(1, run(host, file("else.bin", 10).getPath(), "--token", good));
        assertTrue(said.contains("photo"), said);
        assertEquals(0, run(host, file.getPath(), "--token", good), () -> said);
        assertHeld(file);
    }

    private String token(String... options) throws Exception {
        List<String> words = new ArrayList<>(Arrays.asList(binary, "alcc", "token"));
        words.addAll(Arrays.asList(options));
        Process made = new ProcessBuilder(words).start();
        String line = new BufferedReader(new InputStreamReader(made.getInputStream())).readLine();
        assertTrue(made.waitFor(120, TimeUnit.SECONDS) && made.exitValue() == 0, "paceline alcc token");
        return line.trim();
    }

    /** {@code -Dpaceline.big=BYTES}: this much each way. */
    @Test
    void aLotEachWay() throws Exception {
        long size = Long.getLong("paceline.big", 0);
        if (size == 0) {
            String why = "skipped: 1 GB each way to the Rust server: -Dpaceline.big=1000000000 asks for it";
            System.err.println(why);
            assumeTrue(false, why);
        }
        serve();
        File file = file("big.bin", (int) size);
        assertEquals(0, run(host, file.getPath(), "--controller", "cubic"), () -> said);
        System.err.println("up: " + said);
        assertHeld(file);
        File back = new File(folder, "back.bin");
        assertEquals(0, run(host, back.getPath(), "--get", "--name", "big.bin"), () -> said);
        System.err.println("down: " + said);
        assertArrayEquals(Files.readAllBytes(file.toPath()), Files.readAllBytes(back.toPath()));
    }
}
